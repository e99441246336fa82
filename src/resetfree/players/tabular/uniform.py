"""The player that learns nothing: every action equally likely, whatever the multiplier. A floor for comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round
from resetfree.players.method import Method, penalised
from resetfree.problems.contract import Problem, State


@dataclass
class UniformState:
    """Nothing is learned; the policy is made once."""

    rows: Floats = field(metadata={"saved": False})  # [H, S, A], or [A] where states are not finite


@dataclass(frozen=True)
class Uniform(PrimalPlayer[UniformState]):
    """pi_h(a|s) = 1 / A.

    Its v_r = 0 and v_c = 0 are no estimates: it has none, and these are the numbers that promise nothing.

    >>> import resetfree as rf
    >>> player = Uniform()
    >>> player.plan(player.init(rf.make("grid-v0").problem(), 10, 0), 0, 1.0).policy[0, 0].tolist()
    [0.2, 0.2, 0.2, 0.2, 0.2]
    """

    name: ClassVar[str] = "uniform"
    prediction: ClassVar[Prediction] = "none"
    learns: ClassVar[bool] = False

    def init(self, problem: Problem, episodes: int, seed: int) -> UniformState:
        """The policy, in the form that the problem takes."""
        lead = () if problem.n_states is None else (problem.horizon, problem.n_states)
        return UniformState(np.full((*lead, problem.n_actions), 1.0 / problem.n_actions))

    def plan(self, state: UniformState, s1: State, lam: float) -> Plan:
        """The same for every start and multiplier."""
        rows = state.rows
        return Plan(rows if rows.ndim == 3 else lambda h, s: rows, 0.0, 0.0)

    def update(self, state: UniformState, round: Round) -> UniformState:
        """Nothing is learned."""
        return state

    @staticmethod
    def methods() -> list[Method]:
        """The floor of every comparison."""
        build = penalised(lambda s: Uniform(), 0.0)
        return [Method("uniform", "baseline", "Every action equally likely.", build, rank=59, widths=(), pools=False)]
