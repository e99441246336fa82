"""Projected gradient ascent with one step size for all rounds.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, B the bound on |theta|, eta the step,
g in [0, 1] the cost signal, K rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import Round, Statement
from resetfree.players.dual.function_players import FixedStepPlayer, FunctionState
from resetfree.players.dual.multiplier_functions import FeasibleSet, signal, square_over
from resetfree.problems.contract import Problem


@dataclass(slots=True)
class ConstantStepState(FunctionState):
    """The iterate of the ascent."""

    eta: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class ConstantStep(FixedStepPlayer[ConstantStepState]):
    """theta <- P_U(theta + eta xi(s_1) g); it plays clip(<xi(s_1), theta>, 0, B).

    Dual regret against any u in U: at most |u|^2 / (2 eta) + (eta / 2) sum_k |xi(s_1^k)|^2 g_k^2, which is B sqrt(K)
    with the default step. It must know K, and its first steps are smaller than those of `projected-gradient`.

    B: bound on |theta*|.  eta: the step (default: B / sqrt(K)).  feasible_set: see `functions`.

    >>> import resetfree as rf
    >>> ConstantStep(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["dual_regret_bound"]
    400.0
    """

    name: ClassVar[str] = "constant-step"
    B: PositiveBound | None = None
    eta: Positive | None = None
    feasible_set: FeasibleSet = "auto"

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantStepState:
        """Start at theta = 0."""
        among = self.choices(problem)
        return ConstantStepState(among.zero(), among, self.step(episodes))

    def update(self, state: ConstantStepState, round: Round) -> ConstantStepState:
        """One step of projected gradient ascent."""
        g = signal(round)
        if g > 0.0:
            state.theta = state.among.moved(state.theta, round.s1, state.eta * g)
        return state

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """|u|^2 / (2 eta) + (eta / 2) sum |x|^2."""
        eta = met.replay.state.eta
        return np.asarray(square_over(against.size, 2 * eta) + eta / 2 * np.cumsum(met.replay.squares))

    def step_lengths(self, met: DualHistory) -> Floats:
        """The step eta |x_k|."""
        return np.asarray(met.replay.state.eta * np.sqrt(met.replay.squares))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step, and the regret if every cost signal were 1."""
        return self.fixed_step_statement(problem, episodes)
