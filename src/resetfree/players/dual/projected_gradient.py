"""Projected gradient ascent on the cost: the dual player of Algorithm 1.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, B the bound on |theta|, eta_k the step of round k,
g in [0, 1] the cost signal, D the diameter of U, K rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory, OnlineBound
from resetfree.game.contract import Round, Statement
from resetfree.players.batched import BatchedForm
from resetfree.players.dual.function_players import FunctionPlayer, FunctionState
from resetfree.players.dual.multiplier_functions import SLACK, FeasibleSet, Line, Space, bounded, signal, square_over
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem
from resetfree.theory.sets import Ball, OrthantBall


@dataclass(frozen=True)
class ProjectedGradient(FunctionPlayer[FunctionState]):
    """theta <- P_U(theta + eta_k xi(s_1) g) with eta_k = B / sqrt(k); it plays clip(<xi(s_1), theta>, 0, B).

    Paper: dual player of Algorithm 1 (projected gradient on U).

    Dual regret against any u in U: at most (D_u^2 / (2B) + B G^2) sqrt(K), with D_u = max_k |theta_k - u| and
    G = max |xi|. This is 1.5 B sqrt(K) for U = [0, B], 2 B sqrt(K) for an orthant and 3 B sqrt(K) for any U.

    B: bound on |theta*|; it has no default, because no guarantee survives one that is too small.
    feasible_set: "auto", "ball" or "sum-of-squares" (see `functions`).

    >>> import resetfree as rf
    >>> ProjectedGradient(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["dual_regret_bound"]
    600.0
    """

    name: ClassVar[str] = "projected-gradient"
    B: PositiveBound | None = None
    feasible_set: FeasibleSet = "auto"

    def init(self, problem: Problem, episodes: int, seed: int) -> FunctionState:
        """Start at theta = 0."""
        among = self.choices(problem)
        return FunctionState(among.zero(), among)

    def update(self, state: FunctionState, round: Round) -> FunctionState:
        """One step; a round without cost leaves theta where it is, exactly."""
        g = signal(round)
        if g > 0.0:
            among = state.among
            state.theta = among.moved(state.theta, round.s1, among.cap / math.sqrt(round.k) * g)
        return state

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """(D_k^2 / (2B) + B G^2) sqrt(k), D_k = max_{i <= k} |theta_i - u| and G = max |x_i|.

        Paper: regret of the dual player under projected gradient (lemma).
        """
        B, away = met.replay.state.among.cap, met.replay.distance[against.name]
        largest = np.maximum.accumulate(met.replay.squares)
        return np.asarray((square_over(away, 2 * B) + B * largest) * np.sqrt(met.k))

    def step_lengths(self, met: DualHistory) -> Floats:
        """B |x_k| / sqrt(k)."""
        return np.asarray(met.replay.state.among.cap * np.sqrt(met.replay.squares / met.k))

    def other_bounds(self, met: DualHistory, against: Comparator) -> list[OnlineBound]:
        """1.5 B sqrt(k), the constant that the paper prints: proved while no theta_k is farther than B from u (A14)."""
        B, farthest = met.replay.state.among.cap, float(met.replay.distance[against.name][-1])
        why = f"1.5 is proved where |theta_k - u| is at most B = {B:.6g}, and here it reaches {farthest:.6g}"
        return [OnlineBound("1.5 B sqrt(k)", why if farthest > B * (1 + SLACK) else 1.5 * B * np.sqrt(met.k))]

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """A theta per row; sets whose projection needs a solver are refused."""
        from resetfree.players.dual.batched import Gradient

        among = self.choices(problem)
        if isinstance(among, Line):
            xi = np.zeros((0, 1)) if among.xi is None else np.array(among.xi)[:, None]
            numbers = {"low": among.low, "high": among.high, "cap": among.cap, "xi": xi}
            return BatchedForm(Gradient("line", 0 if among.xi is None else 1), numbers)
        assert isinstance(among, Space)
        if not isinstance(among.members, Ball | OrthantBall):
            raise InvalidInput(
                "The set of multipliers of projected-gradient must be an interval, a ball or an orthant with a ball in "
                f"the batched engine. Got {type(among.members).__name__} instead."
            )
        kind, xi = "ball" if isinstance(among.members, Ball) else "orthant", np.asarray(problem.xi, dtype=np.float64)
        return BatchedForm(Gradient(kind, xi.shape[1]), {"cap": among.cap, "xi": xi})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The paper's own step, and its regret with D the diameter of U (the paper writes B for D)."""
        B, among = bound_of(self), self.choices(problem)
        D, G = among.diameter, among.largest_xi
        bound = (D / (2 * B) * D + B * G**2) * math.sqrt(episodes)
        return bounded({"B": B, "eta_k": "B/sqrt(k)", "U": among.kind, "D": D}, bound, episodes, G)
