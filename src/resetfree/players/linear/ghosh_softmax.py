"""The primal player of Ghosh et al. (2022, 2024): softmax LSVI-UCB whose values are capped by H at every step.

Original: Ghosh, Zhou, Shroff, "Provably efficient model-free constrained RL with linear function approximation" (2022);
the same authors' "Towards achieving sub-linear regret and hard constraint violation in model-free RL" (2024) keeps the
primal part and replaces the dual.
Kept: the regression, the order (start seen, backward pass with the current multiplier, softmax of the same Q in V,
  then the episode), alpha = log|A| K / (2 (1 + xi + H)), and the cap H.
Adapted: xi is B, since its formula 2 H / gamma needs a policy that is safe with a margin gamma, and at threshold
  zero there is none; the utility is a cost on arrival in [0, 1], its width a share of the reward's; the ridge is 1 as
  in the original or scale^2; data may be pooled over the steps.
From memory: the constants of alpha and of the width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.game.capabilities import Suited
from resetfree.game.contract import Statement
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.method import Build, Method, against
from resetfree.players.requirements import no_margin
from resetfree.problems.contract import Problem


@dataclass(frozen=True)
class GhoshSoftmax(LinearUCB):
    """`linear-ucb` with the cap H in place of H - h + 1; its settings are those of `linear-ucb`, without `lagged`.

    What the cap breaks (readings.md, A11): r + P V_r can be up to H + 1, so a capped Q_r can lie below it, and the
    induction that makes Q_r - lam Q_c optimistic does not go through. In a problem without a multiplier the cap is
    harmless, since no true value exceeds H. It also makes the values looser, because near the end of an episode nothing
    near H can still be earned.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> player = GhoshSoftmax(B=40.0)
    >>> player.plan(player.init(problem, 100, 0), 0, 1.0).v_r
    8.0
    """

    name: ClassVar[str] = "ghosh-softmax"
    baseline: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lagged:
            raise InvalidInput("The 'lagged' of ghosh-softmax must be false. Got True instead.")

    def caps(self, horizon: int) -> Floats:
        """[H] the cap H at every step."""
        return np.full(horizon, float(horizon))

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Nothing: what it varies is better."""
        return None

    @staticmethod
    def methods() -> list[Method]:
        """With one multiplier for all starts (2022), and with one that is searched in the episode (2024)."""

        def build(dual: str, **own: Any) -> Build:
            return lambda s: against(GhoshSoftmax(s.B, **s.own), dual, "optimistic", B=s.B, **own)

        text, same = "Softmax LSVI-UCB with cap H,", "The same, its multiplier learning only from episodes that begin"
        lines = [
            ("2022", f"{text} one multiplier for all starts.", build("one-multiplier")),
            ("2022, first start", f"{same} where the first one did.", build("one-multiplier", first_start_only=True)),
            ("2024", f"{text} multiplier searched in the episode.", build("search")),
        ]
        return [Method(f"Ghosh {name}", "baseline", summary, one, rank=10) for name, summary, one in lines]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Never covered: the theorem of the original lacks its margin, and that of the paper its cap."""
        constants = super().statement(problem, episodes).constants
        why = f"{no_margin('Ghosh et al.')}; that of Algorithm 1 needs the cap H - h + 1, and here it is H"
        return Statement({**constants, "cap": float(problem.horizon)}, False, why)
