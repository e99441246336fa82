"""A fixed reset-free policy, and no learning: what safety alone costs in reward.

Kept: the "safe policy that is known beforehand" of many constrained methods. Adapted: it is taken from the oracle's
safe sets and is not pi*, which would have no regret at all. From memory: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Method, penalised
from resetfree.players.tabular.shield import never_reset
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.mdp import model_behind
from resetfree.problems.finite.transitions import Floats
from resetfree.theory.oracle.dynamic_programming import solve


@dataclass
class ConstantSafeState:
    """Nothing is learned; the policy is made once."""

    rows: Floats = field(metadata={"saved": False})  # [H, S, A]


@dataclass(frozen=True)
class ConstantSafe(PrimalPlayer[ConstantSafeState]):
    """Safe actions only, the same in every episode; where no action is safe, those that are least likely to be reset.

    choice: "uniform" over the safe actions, or always the "first" of them.

    >>> import resetfree as rf
    >>> player = ConstantSafe()
    >>> player.plan(player.init(rf.make("doors-v0").problem(), 10, 0), 0, 1.0).policy[0, 0].tolist()
    [0.0, 1.0]
    """

    name: ClassVar[str] = "constant-safe"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    learns: ClassVar[bool] = False
    choice: Literal["uniform", "first"] = "uniform"

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantSafeState:
        """Read the safe actions from the exact model."""
        solution = solve(model_behind(problem), starts=[])
        safe = solution.safe_actions
        fallback = np.eye(safe.shape[2])[solution.policy]
        if self.choice == "first":
            rows = np.eye(safe.shape[2])[safe.argmax(axis=2)]
        else:
            rows = safe / np.maximum(safe.sum(axis=2, keepdims=True), 1)
        return ConstantSafeState(np.where(safe.any(axis=2, keepdims=True), rows, fallback))

    def plan(self, state: ConstantSafeState, s1: State, lam: float) -> Plan:
        """The same for every start and multiplier; it has no estimate of V_r, and v_r = 0 promises nothing."""
        return Plan(state.rows, 0.0, 0.0)

    def update(self, state: ConstantSafeState, round: Round) -> ConstantSafeState:
        """Learns nothing."""
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Never reset, and it learns nothing."""
        build, text = penalised(lambda s: ConstantSafe(), 0.0), "Uniform over the truly safe actions, no learning."
        return [Method("constant safe policy", "oracle", text, build, rank=58, widths=(), pools=False, guaranteed=True)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No resets on any path, if every start that can occur has a reset-free policy."""
        return never_reset(problem, {"choice": self.choice, "oracle": True}, "the support")
