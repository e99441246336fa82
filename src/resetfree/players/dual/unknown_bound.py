"""Multipliers that need no bound B: coin betting, and one that doubles when its patience is used up.

**`CoinBetting`.**
Legend: w the bettor's number, lam = clip(w, 0, ceiling) what is played, g in [0, 1] the cost signal, eps the wealth at
the beginning, W the wealth now, N the bets so far, u a constant multiplier to compare with.

**`Doubling`.**
Legend: lam_j = first 2^j the multiplier of phase j, tau_j = patience + growth lam_j the costs that phase j bears, g in
[0, 1] the cost signal, u a constant multiplier to compare with, lambda_hat the least optimal multipliers, lambda* the
largest lambda_hat + 1, J the first phase with lam_J >= lambda*, P(b) a bound on the primal player's regret.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import Floats, NonNegative, NotCertifiable, Positive
from resetfree.game.capabilities import Comparator, DualHistory, Phase
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.dual import signal
from resetfree.problems import Problem, State


@dataclass(slots=True)
class CoinBettingState:
    """Wealth, summed signals and number of bets."""

    total: float  # sum of the signals bet on
    wealth: float  # W = eps + sum of signal times bet
    n: int  # N


@dataclass(frozen=True)
class CoinBetting(DualPlayer[CoinBettingState]):
    """Coin betting: a multiplier that needs neither a bound B nor a step size.

    The Krichevsky-Trofimov bettor: w = (sum of g) / (N + 1) * W, then W <- W + g w.

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


@dataclass(slots=True)
class DoublingState:
    """The phase, and the costs that it has borne."""

    phase: int  # j
    borne: float  # sum of the signals in it


@dataclass(frozen=True)
class Doubling(DualPlayer[DoublingState]):
    """A multiplier that doubles whenever its patience is used up: no bound B is known, and none is needed.

    lam = lam_j in phase j, one multiplier for all starts; phase j ends once its signals sum up to tau_j.

    **Dual regret**, for every sequence of signals, every K and every u in [0, ceiling] at once, with no B given:
    at most the sum of (u - lam_j) (tau_j + 1) over the phases with lam_j < u.
      Proof. sum_k (u - lam^k) g_k, phase by phase: where lam_j >= u nothing is positive, and the signals of another
      phase sum up to less than tau_j before its last round, which adds at most 1.  []
    With growth 0 that is at most (patience + 1) u (1 + log2(u / first)): no K is in it. Against u = 0 it is at most 0.

    **Regret and Resets without B.** Feedback: realised resets. Let the regret against pi* in any rounds that are known
    beforehand be at most P(b) with probability 1 - p while no multiplier in them exceeds b, and let
    tau_J > (e - 1) P(lam_J) + ln(1/delta). Then with probability at least 1 - 2p - delta
      no multiplier exceeds lam_J, which is below 2 lambda* (or is `first`),
      Regret <= P(lam_J),  realised resets <= sum over j < J of ceil(tau_j) + (e - 1) P(lam_J) + ln(1/delta).
      Proof. Which rounds belong to phase J is known before each is played. In them V_r - lambda_hat V_c <= V* (the
      saddle-point), so (lam_J - lambda_hat) V_c is at most the regret of the round under lam_J, and lam_J - lambda_hat
      >= 1: expected resets of the phase are at most P(lam_J). For a reset C with probability V_c,
      E exp(C) = 1 + (e - 1) V_c <= exp((e - 1) V_c), so by Ville's inequality resets never exceed
      (e - 1) sum V_c + ln(1/delta) with probability 1 - delta: fewer than tau_J, and phase J never ends. Phases before
      it end after ceil(tau_j) resets. Regret = R_p(pi*) + R_d(0) <= P(lam_J), as R_d(0) <= 0.  []
      If P(b) = 0, as for a best response, V_c = 0 in phase J: no chance is left, and any patience will do.
    Where the regret of such rounds is bounded by x + y sqrt(their expected resets), as that of the width "proved" is,
    these are at most P for the largest P <= x + y sqrt(P): in both inequalities, and in Regret with all resets in it.
    With P(b) = x + b y, patience = (e - 1) x + ln(2/delta) and growth = (e - 1) y are enough for every lambda*, and the
    phases before J cost at most (e - 1) (J x + 2 lambda* y) + J (1 + ln(2/delta)) resets: the order of P(2 lambda*),
    which a player who knows B pays as well. The price is the factor 2 of lam_J, and J = log2(lambda* / first).

    first: the multiplier of the first phase.  patience, growth: tau_j = patience + growth lam_j; the defaults double at
    every reset, which is tuned.  ceiling: where the multiplier stops; above every one that could be needed.

    >>> player = Doubling(patience=2.0)
    >>> [(phase.lam, phase.patience) for phase in player.phases(5.0)]
    [(1.0, 2.0), (2.0, 2.0), (4.0, 2.0), (8.0, 2.0)]
    """

    name: ClassVar[str] = "doubling"
    first: Positive = 1.0
    patience: Positive = 1.0
    growth: NonNegative = 0.0
    ceiling: Positive = 1e6

    def init(self, problem: Problem, episodes: int, seed: int) -> DoublingState:
        """The first phase."""
        return DoublingState(0, 0.0)

    def multiplier(self, state: DoublingState, s1: State, ask: Callable[[float], Plan]) -> float:
        """The multiplier of the phase."""
        return self._phase(state.phase).lam

    def update(self, state: DoublingState, round: Round) -> DoublingState:
        """Bear the cost; a phase whose patience is used up ends, but for the last one."""
        state.borne += signal(round)
        now = self._phase(state.phase)
        if state.borne >= now.patience and now.lam < self.ceiling:
            state.phase, state.borne = state.phase + 1, 0.0
        return state

    def phases(self, u: float) -> list[Phase]:
        """The phases up to the first whose multiplier reaches u; raises NotCertifiable if none does."""
        if u > self.ceiling:
            raise NotCertifiable(f"The comparator {u:.6g} is above the ceiling of the multiplier.")
        return [self._phase(j) for j in range(1 + max(0, ceil(log2(max(u, self.first) / self.first))))]

    def _phase(self, j: int) -> Phase:
        lam = min(self.first * 2.0 ** min(j, 1000), self.ceiling)
        return Phase(lam, self.patience + self.growth * lam)

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The ceiling, or what K resets can reach, if that is less."""
        n = int(min(episodes / self.patience, 1000.0))
        return self._phase(n).lam

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """The sum of (u - lam_j) (tau_j + 1) over the phases below u, and never more than u k."""
        u = against.size
        most = sum((u - phase.lam) * (phase.patience + 1.0) for phase in self.phases(u) if phase.lam < u)
        return np.minimum(most, u * met.k)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """No B: the regret is bounded for every constant multiplier at once."""
        constants: dict[str, float | str | bool] = {"first": self.first, "patience": self.patience}
        constants |= {"growth": self.growth, "ceiling": self.ceiling}
        why = "its dual regret is bounded for every constant multiplier at once, and no B is given; the primal part "
        why += "holds while its multipliers stay within the primal player's B"
        return Statement(constants, True, why)
