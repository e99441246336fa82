"""A multiplier that doubles whenever its patience is used up: no bound B is known, and none is needed.

Legend: lam_j = first 2^j the multiplier of phase j, tau_j = patience + growth lam_j the costs that phase j bears, g in
[0, 1] the cost signal, u a constant multiplier to compare with, lambda_hat the least optimal multipliers, lambda* the
largest lambda_hat + 1, J the first phase with lam_J >= lambda*, P(b) a bound on the primal player's regret.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import NonNegative, Positive
from resetfree.game.capabilities import Comparator, DualHistory, Phase
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.dual.multiplier_functions import signal
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class DoublingState:
    """The phase, and the costs that it has borne."""

    phase: int  # j
    borne: float  # sum of the signals in it


@dataclass(frozen=True)
class Doubling(DualPlayer[DoublingState]):
    """lam = lam_j in phase j, one multiplier for all starts; phase j ends once its signals sum up to tau_j.

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
