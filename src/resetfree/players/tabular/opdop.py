"""OPDOP, optimistic primal-dual proximal policy optimisation, on tables.

Original: Ding, Wei, Yang, Wang, Jovanovic, "Provably efficient safe exploration via primal-dual policy optimization"
(2020), for linear kernel (mixture) models.
Kept: the policy step with its mixing, the step sizes, and values of the last policy that are optimistic for reward
  and for cost. Its dual is `one-multiplier` with the step 1/sqrt(K).
Adapted: counts in place of the regression on value-dependent features; a bonus of H scale / sqrt(n) on rewards and of
  scale / sqrt(n) off costs; a cost on arrival in [0, 1] in place of the utility; the multiplier stays in [0, B], since
  the original's interval [0, 2 H / gamma] needs a policy that is safe with a margin gamma; `speed` multiplies the step.
From memory: the constants of the steps, and that round k's values use the data before round k.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import ClassVar

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Statement
from resetfree.players.method import Build, Method, against
from resetfree.players.requirements import check_episodes
from resetfree.players.tabular.mirror import MirrorPlayer, in_two_speeds
from resetfree.problems.contract import Problem


@dataclass(frozen=True)
class Opdop(MirrorPlayer):
    """pi^k proportional to pitilde^{k-1} exp(alpha (Q_r^{k-1} - Y^{k-1} Q_c^{k-1})).

    alpha = sqrt(log A) / (H^2 sqrt(K)); pitilde = (1 - theta) pi + theta / A with theta = 1/K.

    scale: of the bonus.  speed: factor on alpha (1 in the original).  pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(Opdop().statement(rf.make("grid-v0").problem(), 100).constants["alpha"], 6)
    0.001982
    """

    name: ClassVar[str] = "opdop"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Ding et al."
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """The steps alpha and theta."""
        root = sqrt(check_episodes(episodes, self.name))
        return self.speed * sqrt(log(problem.n_actions)) / (problem.horizon**2 * root), 1.0 / episodes

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual = {"feedback": "optimistic", "step": "unit"}
            return lambda s: against(Opdop(**s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OPDOP", "Ding et al. 2020 on counts: mirror ascent with its own small steps.", build, 11)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        alpha, theta = self.steps(problem, episodes)
        return self.not_covered({"alpha": alpha, "theta": theta})
