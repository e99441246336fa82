"""Coin betting: a multiplier that needs neither a bound B nor a step size.

Legend: w the bettor's number, lam = clip(w, 0, ceiling) what is played, g in [0, 1] the cost signal, eps the wealth at
the beginning, W the wealth now, N the bets so far, u a constant multiplier to compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import Positive
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.dual.multiplier_functions import signal
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class CoinBettingState:
    """Wealth, summed signals and number of bets."""

    total: float  # sum of the signals bet on
    wealth: float  # W = eps + sum of signal times bet
    n: int  # N


@dataclass(frozen=True)
class CoinBetting(DualPlayer[CoinBettingState]):
    """The Krichevsky-Trofimov bettor: w = (sum of g) / (N + 1) * W, then W <- W + g w.

    One multiplier for all starts (xi = 1, which needs the least B), whatever xi the problem has.
    Dual regret after k rounds against any constant u in [0, ceiling], with no B given:
    at most u sqrt(N ln(1 + 24 N^2 u^2 / eps^2)) + eps, N the bets in k rounds, which the setting `every_round` decides:
      False  N counts the rounds with a cost up to the first w above the ceiling. Then nothing changes any more.
      True   N = k: it bets in all rounds, also without a cost and above the ceiling, where it bets on g' = 0. Its
             multiplier falls like 1/k while nothing happens: it forgets, and pays for that with k in place of N.

      Proof. The bettor with bets w_i on any g'_i in [-1, 1], i = 1 .. N, has the bound for sum g'_i (u - w_i) (Orabona
      and Pal, 2016). Here g' = g, but g' = 0 if w is above the ceiling, and lam = clip(w, 0, ceiling). In every round
      g (u - lam) <= g' (u - w): an equality if w is inside; above, the left side is g (u - ceiling) <= 0 = g' (u - w).
      The case w < 0 never comes: signals are not negative, so neither are the total, the bets and what they win. Rounds
      that are not bet on are those with g' = 0, which add 0 on the right: the sum over all rounds is that of the bets.
      But a bettor that does bet on g' = 0 is another one, with other bets, and its N counts them.  []
    Of this bound 4/5 are reached: 300 growing signals g_i = (i / 300)^2 with u = 5e7 eps make 0.804 of it.
    The wealth about doubles with each certain reset, so lam reaches any u after about log2(u / eps) of them. It also
    doubles with those that no multiplier would have prevented: nothing but the ceiling bounds lam.

    eps: wealth at the beginning.
    ceiling: where lam stops; it must lie above every multiplier that could be needed.
    every_round: whether the bettor bets in rounds without cost too, as in the literature.

    >>> past = [(0.0, 1.0, 0), (1.0, 1.0, 1), (2.0, 1.5, 2), (3.0, 2.5, 3)]
    >>> states = [CoinBettingState(total, wealth, n) for total, wealth, n in past]
    >>> [CoinBetting().multiplier(state, 0, lambda lam: None) for state in states]   # after 0, 1, 2, 3 resets
    [0.0, 0.5, 1.0, 1.875]
    """

    name: ClassVar[str] = "coin-betting"
    eps: Positive = 1.0
    ceiling: Positive = 1e9
    every_round: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> CoinBettingState:
        """The bettor before the first bet."""
        return CoinBettingState(0.0, self.eps, 0)

    def multiplier(self, state: CoinBettingState, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(w, 0, ceiling)."""
        w = state.total / (state.n + 1) * state.wealth
        return w if w <= self.ceiling else self.ceiling

    def update(self, state: CoinBettingState, round: Round) -> CoinBettingState:
        """Win g w; above the ceiling the bettor gets g = 0."""
        w = state.total / (state.n + 1) * state.wealth
        g = signal(round) if w <= self.ceiling else 0.0
        if g > 0.0 or self.every_round:
            state.n += 1
            state.total += g
            state.wealth += g * w
        return state

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The ceiling of the multiplier."""
        return self.ceiling

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """With N bets so far: u sqrt(N ln(1 + 24 N^2 u^2 / eps^2)) + eps."""
        if against.size > self.ceiling:
            raise NotCertifiable(f"The comparator {against.size:.6g} is above the ceiling of the multiplier.")
        betting = np.ones(len(met.signals), dtype=np.bool_) if self.every_round else met.signals > 0
        bets = np.minimum(np.cumsum(betting), met.replay.state.n)  # above the ceiling they may have ended
        return self._regret(against.size, bets)

    def _regret(self, u: float, bets: ArrayLike) -> Floats:
        """The bound against u after so many bets, in logarithms: no square of u has to fit into a float."""
        n = np.asarray(bets, dtype=np.float64)
        if u == 0.0:
            return np.full(n.shape, self.eps)
        ratio = np.log(np.maximum(n, 1.0)) + np.log(u) - np.log(self.eps)
        return np.asarray(u * np.sqrt(n * np.logaddexp(0.0, np.log(24.0) + 2.0 * ratio)) + self.eps)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No B: the regret is bounded, the multiplier is not."""
        unit = float(self._regret(1.0, episodes))
        constants = {"eps": self.eps, "ceiling": self.ceiling, "every_round": self.every_round}
        why = "its dual regret is bounded for every constant multiplier at once, but the multiplier it plays is not "
        why += "bounded by B, which the primal part of the theorem needs"
        return Statement({**constants, "dual_regret_bound_for_1": unit}, False, why)
