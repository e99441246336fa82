"""Coin betting: a multiplier that needs neither a bound B nor a step size.

Legend: w the bettor's number, lam = clip(w, 0, ceiling) what is played, g in [0, 1] the cost signal, eps the wealth at
the beginning, W the wealth now, N the rounds bet on, u a constant multiplier to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

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
    Dual regret against any constant u in [0, ceiling], with no B given:
    at most u sqrt(N ln(1 + 24 N^2 u^2 / eps^2)) + eps (Orabona and Pal, 2016, for the bettor on all real numbers).

    Why the bound survives here.
      Rounds with g = 0 add nothing to the regret, so the bettor may skip them, and N replaces K. One that bets in
      every round has the bound with K, and its multiplier falls like 1/k while nothing happens: it forgets.
      From all numbers to [0, ceiling]: play lam = clip(w, 0, ceiling) and pass the bettor g' = g, but g' = 0 if w is
      above the ceiling. Then g (u - lam) <= g' (u - w) for every u in [0, ceiling]: it is an equality if w is inside,
      and above the ceiling the left side is g (u - ceiling) <= 0 = g' (u - w). The case w < 0 never comes: signals are
      not negative, so neither are the total, the bets and what they win.
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
        """With N rounds that had a cost: u sqrt(N ln(1 + 24 N^2 u^2 / eps^2)) + eps."""
        u, n = against.size, np.cumsum(met.signals > 0)
        if u > self.ceiling:
            raise NotCertifiable(f"The comparator {u:.6g} is above the ceiling of the multiplier.")
        return np.asarray(u * np.sqrt(n * np.log1p(24.0 * (n * u / self.eps) ** 2)) + self.eps)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No B: the regret is bounded, the multiplier is not."""
        eps, K = self.eps, episodes
        unit = math.sqrt(K * math.log1p(24 * K**2 / eps**2)) + eps
        constants = {"eps": eps, "ceiling": self.ceiling, "every_round": self.every_round}
        why = "its dual regret is bounded for every constant multiplier at once, but the multiplier it plays is not "
        why += "bounded by B, which the primal part of the theorem needs"
        return Statement({**constants, "dual_regret_bound_for_1": unit}, False, why)
