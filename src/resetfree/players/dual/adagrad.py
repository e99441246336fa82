"""Projected gradient ascent whose steps shrink with the costs seen, not with time.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, D the diameter of U, B the bound on |theta|,
g_k in [0, 1] the cost signal, x_k = xi(s_1^k) g_k the gradient, K rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import Round, Statement
from resetfree.players.dual.function_players import FunctionPlayer, FunctionState
from resetfree.players.dual.multiplier_functions import FeasibleSet, Functions, bounded, signal, square_over
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem


@dataclass(slots=True)
class AdagradState(FunctionState):
    """The iterate of the ascent, and the sum of its squared gradients."""

    total: float  # sum of |x_i|^2
    gamma: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class AdagradNorm(FunctionPlayer[AdagradState]):
    """theta <- P_U(theta + eta_k x_k) with eta_k = gamma / sqrt(|x_1|^2 + ... + |x_k|^2).

    Dual regret against any u in U: at most (D_u^2 / (2 gamma) + gamma) sqrt(sum_k |x_k|^2), D_u = max_k |theta_k - u|;
    that is sqrt(2) D sqrt(sum_k |x_k|^2) by default. Rounds without cost cost nothing: on realised resets, its
    regret grows with the square root of their number and no longer with K.

    B: bound on |theta*|.  gamma: scale of the steps (default: D / sqrt(2)).  feasible_set: see `functions`.

    >>> import resetfree as rf
    >>> round(AdagradNorm(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["dual_regret_bound"], 3)
    565.685
    """

    name: ClassVar[str] = "adagrad-norm"
    B: PositiveBound | None = None
    gamma: Positive | None = None
    feasible_set: FeasibleSet = "auto"

    def _gamma(self, among: Functions) -> float:
        # A U that is {0} has no diameter; any step is right there.
        default = among.diameter / math.sqrt(2.0) or 1.0
        return default if self.gamma is None else self.gamma

    def init(self, problem: Problem, episodes: int, seed: int) -> AdagradState:
        """Start at theta = 0, no cost seen."""
        among = self.choices(problem)
        return AdagradState(among.zero(), among, 0.0, self._gamma(among))

    def update(self, state: AdagradState, round: Round) -> AdagradState:
        """One step, its own gradient counted in its size."""
        g = signal(round)
        if g > 0.0:
            state.total += g * g * state.among.squared(round.s1)
            if state.total > 0.0:  # still zero where xi(s1) is, or where the square of g is too small for a float
                step = state.gamma / math.sqrt(state.total) * g
                state.theta = state.among.moved(state.theta, round.s1, step)
        return state

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """(D_k^2 / (2 gamma) + gamma) sqrt(sum |x|^2), D_k = max_{i <= k} |theta_i - u|."""
        gamma = met.replay.state.gamma
        away = square_over(met.replay.distance[against.name], 2 * gamma)
        return np.asarray((away + gamma) * np.sqrt(np.cumsum(met.replay.squares)))

    def step_lengths(self, met: DualHistory) -> Floats:
        """The step gamma |x_k| / sqrt(|x_1|^2 + ... + |x_k|^2)."""
        squares = met.replay.squares
        total = np.cumsum(squares)
        share = np.divide(squares, total, out=np.zeros(len(total)), where=total > 0)
        return np.asarray(met.replay.state.gamma * np.sqrt(share))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The scale of the steps, and the regret if every cost signal were 1."""
        B, among, tuned = bound_of(self), self.choices(problem), self.gamma is not None
        D, G, gamma = among.diameter, among.largest_xi, self._gamma(among)
        bound = (D / (2 * gamma) * D + gamma) * G * math.sqrt(episodes)
        return bounded({"B": B, "gamma": gamma, "U": among.kind, "D": D, "tuned": tuned}, bound, episodes, G)
