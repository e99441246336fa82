"""Multipliers that follow no gradient: a constant penalty for a reset, and a count of resets.

**`ConstantPenalty`.**
Legend: C the penalty, B a bound on every lambda*(s) = lambda_hat(s) + 1.

**`Counting`.**
Legend: N the resets so far, eta what each adds, lambda_hat(s) the smallest optimal multiplier, H the horizon, X such
that the primal player's regret is at most (H + max lam) X.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import NonNegative, Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.batched import written_in
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class ConstantPenaltyState:
    """Nothing is learned; the penalty, for `multiplier`."""

    lam: float


@dataclass(frozen=True)
class ConstantPenalty(DualPlayer[ConstantPenaltyState]):
    """A constant penalty for a reset: no dual learning at all, and the baseline to beat.

    lam = C in every round.

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

    def penalty(self) -> float:
        """C, or `factor` times B in its place."""
        return self.factor * bound_of(self) if self.C is None else self.C

    def init(self, problem: Problem, episodes: int, seed: int) -> ConstantPenaltyState:
        """C, or B in its place."""
        return ConstantPenaltyState(self.penalty())

    def multiplier(self, state: ConstantPenaltyState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The penalty C."""
        return state.lam

    def update(self, state: ConstantPenaltyState, round: Round) -> ConstantPenaltyState:
        """Nothing is learned."""
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """C, and no less than the bound B that it was given."""
        return max(self.penalty(), self.B or 0.0)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """0 if C is at least the comparator everywhere."""
        lam = met.replay.lam
        if (against.at_starts > lam).any():
            raise NotCertifiable(f"The penalty {lam[0]:.6g} is below the comparator {against.at_starts.max():.6g}.")
        return np.zeros(len(lam))

    batched_form = written_in("dual.batched:constant_penalty_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Zero dual regret if C is large enough."""
        C = self.penalty()
        if self.B is None:
            why = "it needs C >= lambda*(s) at every start, and no B is given to compare with"
            return Statement({"C": C}, False, why)
        B = bound_of(self)
        constants: dict[str, float | str | bool] = {"B": B, "C": C, "tuned": C != B}
        if C < B:
            return Statement(constants, False, "C is below B, so it may be below some lambda*(s)")
        why = "its dual regret is at most 0, as C >= B >= lambda*(s) at every start; in the primal part C replaces B"
        return Statement({**constants, "dual_regret_bound": 0.0}, True, why)


@dataclass(slots=True)
class CountingState:
    """The number of resets so far."""

    n: int  # N


@dataclass(frozen=True)
class Counting(DualPlayer[CountingState]):
    """The multiplier counts resets: no bound B, and no feedback but the resets that happened.

    lam = eta N, one multiplier for all starts and no ceiling.

    With eta = 1 / (2X), up to martingale terms and rounding: N <= 4 X (lambda_hat_max + 1) + 2 H X,
    max lam <= 2 (lambda_hat_max + 1) + H, Regret <= (2H + 2 lambda_hat_max + 2) X.
      Proof. (lambda_hat_max + 1) / eta resets happen until lam is at least lambda_hat_max + 1; in the rounds after that
      they are at most the primal regret of those rounds, (H + eta N) X. Solve for N.

    eta: what one reset adds. The default 1 is tuned, not derived: X grows with K and is seldom known.

    >>> player = Counting(eta=0.5)
    >>> player.multiplier(CountingState(n=3), 0, lambda lam: None)
    1.5
    """

    name: ClassVar[str] = "counting"
    eta: Positive = 1.0

    def init(self, problem: Problem, episodes: int, seed: int) -> CountingState:
        """No reset yet."""
        return CountingState(0)

    def multiplier(self, state: CountingState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The count times eta."""
        return self.eta * state.n

    def update(self, state: CountingState, round: Round) -> CountingState:
        """Count the reset that happened, whatever the cost signal is."""
        state.n += round.episode.reset
        return state

    batched_form = written_in("dual.batched:counting_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step eta; the theorem of the paper does not cover it."""
        why = "the theorem's dual part needs a multiplier bounded by B; this one has a bound of its own, "
        why += "only with eta = 1/(2X) for a primal player whose regret is at most (H + max lam) X"
        return Statement({"eta": self.eta, "tuned": True}, False, why)
