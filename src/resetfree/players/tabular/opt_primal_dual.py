"""OptPrimalDual-CMDP: mirror ascent on the policy with optimistic, truncated values.

Original: Efroni, Mannor, Pirotta, "Exploration-exploitation in constrained MDPs" (2020), their third algorithm.
Kept: pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)) with truncated optimistic values of pi^k on the data
  before round k; the multiplier lam <- [lam + V_c / t_lam]_+ without a cap (`one-multiplier` with capped=False).
Adapted: maximised reward in place of minimised cost; one constraint, with threshold zero and a cost on arrival in
  [0, 1]; bonuses of H scale / sqrt(n) on rewards and scale / sqrt(n) off costs, which replace the sums of the
  original's reward and transition bonuses; `speed` multiplies the step.
From memory: t_K = sqrt(2 log A / (H^2 (1 + rho^2) K)) and t_lam = H sqrt(K) / rho, where rho bounds the best
  multiplier: here B.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import Any, ClassVar

from resetfree.core.settings import Bound, NonNegative
from resetfree.game.contract import Statement
from resetfree.players.method import Build, Method, against
from resetfree.players.requirements import bound_of, check_episodes
from resetfree.players.tabular.mirror import MirrorPlayer, in_two_speeds
from resetfree.problems.contract import Problem


@dataclass(frozen=True)
class OptPrimalDual(MirrorPlayer):
    """pi^{k+1} proportional to pi^k exp(t_K (Q_r^k - lam^k Q_c^k)), t_K = sqrt(2 log A / (H^2 (1 + B^2) K)).

    B: bound on the multipliers.  scale: of the bonus.  speed: factor on t_K (1 in the original).
    pooled: one set of counts for all steps.

    >>> import resetfree as rf
    >>> round(OptPrimalDual(B=3.0).statement(rf.make("grid-v0").problem(), 100).constants["t_K"], 6)
    0.007092
    """

    name: ClassVar[str] = "opt-primal-dual"
    baseline: ClassVar[bool] = True
    authors: ClassVar[str] = "Efroni et al."
    B: Bound | None = None
    scale: NonNegative = 0.1
    speed: NonNegative = 1.0
    pooled: bool = False

    def steps(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """t_K, and no mixing."""
        B = bound_of(self)
        # B * B is infinite where B**2 raises: a multiplier of 1e200 is what a reset probability of 1e-200 needs.
        squared = problem.horizon**2 * (1.0 + B * B) * check_episodes(episodes, self.name)
        return self.speed * sqrt(2.0 * log(problem.n_actions) / squared), 0.0

    @staticmethod
    def methods() -> list[Method]:
        """With its dual."""

        def build(speed: float) -> Build:
            dual: dict[str, Any] = {"feedback": "optimistic", "capped": False}
            return lambda s: against(OptPrimalDual(s.B, **s.own, speed=speed), "one-multiplier", B=s.B, **dual)

        return in_two_speeds("OptPrimalDual", "Efroni et al. 2020: mirror ascent, no cap.", build, 13)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; no theorem covers them."""
        return self.not_covered({"t_K": self.steps(problem, episodes)[0]})
