"""A constant penalty for a reset: no dual learning at all, and the baseline to beat.

Legend: C the penalty, B a bound on every lambda*(s) = lambda_hat(s) + 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import NonNegative, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.batched import BatchedForm
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class ConstantPenaltyState:
    """Nothing is learned; the penalty, for `multiplier`."""

    lam: float


@dataclass(frozen=True)
class ConstantPenalty(DualPlayer[ConstantPenaltyState]):
    """lam = C in every round.

    If C >= lambda*(s) for all starts, the dual regret against lambda* is at most 0: every term (lambda* - C) V_c is.
    Then Regret <= R_p and Resets <= R_p / (C - max lambda_hat), with R_p the regret of an ordinary learner whose reward
    is r - C c. Since the paper's player must know B as well, its learning buys nothing in the bound.

    B: bound on |theta*|.  C: the penalty (default: factor times B).

    >>> import resetfree as rf
    >>> player = ConstantPenalty(B=40.0)
    >>> player.multiplier(player.init(rf.make("grid-v0").problem(), 100, 0), 3, lambda lam: None)
    40.0
    """

    name: ClassVar[str] = "constant-penalty"
    B: PositiveBound | None = None
    C: NonNegative | None = None
    factor: NonNegative = 1.0

    def _penalty(self) -> float:
        return self.factor * bound_of(self) if self.C is None else self.C

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantPenaltyState:
        """C, or B in its place."""
        return ConstantPenaltyState(self._penalty())

    def multiplier(self, state: ConstantPenaltyState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The penalty C."""
        return state.lam

    def update(self, state: ConstantPenaltyState, round: Round) -> ConstantPenaltyState:
        """Nothing is learned."""
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """C, and no less than the bound B that it was given."""
        return max(self._penalty(), self.B or 0.0)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """0 if C is at least the comparator everywhere."""
        lam = met.replay.lam
        if (against.at_starts > lam).any():
            raise NotCertifiable(f"The penalty {lam[0]:.6g} is below the comparator {against.at_starts.max():.6g}.")
        return np.zeros(len(lam))

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """The same penalty in every row."""
        from resetfree.players.dual.batched import Penalty

        return BatchedForm(Penalty(), {"penalty": self._penalty()})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Zero dual regret if C is large enough."""
        C = self._penalty()
        if self.B is None:
            why = "it needs C >= lambda*(s) at every start, and no B is given to compare with"
            return Statement({"C": C}, False, why)
        B = bound_of(self)
        constants: dict[str, float | str | bool] = {"B": B, "C": C, "tuned": C != B}
        if C < B:
            return Statement(constants, False, "C is below B, so it may be below some lambda*(s)")
        why = "its dual regret is at most 0, as C >= B >= lambda*(s) at every start; in the primal part C replaces B"
        return Statement({**constants, "dual_regret_bound": 0.0}, True, why)
