"""Shielding with known support: an optimistic learner that is let choose among the truly safe actions only.

Kept: the shield of safe reinforcement learning via shielding (Alshiekh et al. 2018), which passes exactly the actions
after which a reset is still avoidable for certain; inside, optimistic value iteration (UCBVI, Azar et al. 2017) on
rewards alone. Adapted: the shield comes from the oracle's safe sets and so needs the true support, which no other
learner has; the bonus is scale H / sqrt(n). From memory: UCBVI's form; its constants are not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Statement
from resetfree.players.method import Method, penalised
from resetfree.players.tabular.counts import Counted
from resetfree.players.tabular.shield import ShieldPlayer, ShieldState, never_reset
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import model_behind
from resetfree.problems.finite.safe_sets import safe_sets


@dataclass(frozen=True)
class OracleShield(ShieldPlayer):
    """UCBVI on rewards within Abar_h(s); the multiplier does not enter. The lower envelope of resets: none at all.

    scale: of the bonus scale H / sqrt(n).  pooled: one set of counts for all steps (stationary problems).

    >>> import resetfree as rf
    >>> player = OracleShield()
    >>> player.statement(rf.make("grid-v0").problem(), 100).covered
    True
    """

    name: ClassVar[str] = "oracle-shield"
    baseline: ClassVar[bool] = True
    scale: NonNegative = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> ShieldState:
        """Read the safe actions from the exact model."""
        seen = Counted.nothing(problem, self.pooled, self.name)
        safe = safe_sets(model_behind(problem))
        return ShieldState(seen, safe.layers, safe.layer_of_step)

    @staticmethod
    def methods() -> list[Method]:
        """The oracle line of the comparison: no resets."""
        text = "UCBVI among the truly safe actions: no resets at all."
        build = penalised(lambda s: OracleShield(**s.own), 0.0)
        return [Method("shield with known support", "oracle", text, build, rank=56, guaranteed=True)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No resets on any path, if every start that can occur has a reset-free policy."""
        constants = {"scale": self.scale, "pooled": self.pooled, "oracle": True}
        return never_reset(problem, constants, "the support; regret tuned")
