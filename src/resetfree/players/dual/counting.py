"""The multiplier counts resets: no bound B, and no feedback but the resets that happened.

Legend: N the resets so far, eta what each adds, lambda_hat(s) the smallest optimal multiplier, H the horizon, X such
that the primal player's regret is at most (H + max lam) X.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from resetfree.core.settings import Positive
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.batched import BatchedForm
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class CountingState:
    """The number of resets so far."""

    n: int  # N


@dataclass(frozen=True)
class Counting(DualPlayer[CountingState]):
    """lam = eta N, one multiplier for all starts and no ceiling.

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

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """A count per row."""
        from resetfree.players.dual.batched import ResetCount

        return BatchedForm(ResetCount(), {"eta": float(self.eta)})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step eta; the theorem of the paper does not cover it."""
        why = "the theorem's dual part needs a multiplier bounded by B; this one has a bound of its own, "
        why += "only with eta = 1/(2X) for a primal player whose regret is at most (H + max lam) X"
        return Statement({"eta": self.eta, "tuned": True}, False, why)
