"""Projected gradient ascent on the cost: the dual player of Algorithm 1.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, B the bound on |theta|, eta_k the step of round k,
g in [0, 1] the cost signal, D the diameter of U, K rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from resetfree.core.settings import PositiveBound
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players.shared.multiplier_functions import FeasibleSet, Functions, Theta, bounded, functions, signal
from resetfree.players.shared.requirements import bound_of
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class Learned:
    """Where the ascent stands."""

    theta: Theta
    among: Functions = field(metadata={"saved": False}, repr=False)


@dataclass(frozen=True)
class ProjectedGradient(DualPlayer[Learned]):
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

    def init(self, problem: Problem, episodes: int, seed: int) -> Learned:
        """Start at theta = 0."""
        among = functions(problem, bound_of(self), self.feasible_set, self.name)
        return Learned(among.zero(), among)

    def multiplier(self, state: Learned, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(<xi(s1), theta>, 0, B)."""
        return state.among.at(state.theta, s1)

    def update(self, state: Learned, round: Round) -> Learned:
        """One step; a round without cost leaves theta where it is, exactly."""
        g = signal(round)
        if g > 0.0:
            among = state.among
            state.theta = among.moved(state.theta, round.s1, among.cap / math.sqrt(round.k) * g)
        return state

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The paper's own step, and its regret with D the diameter of U (the paper writes B for D)."""
        B = bound_of(self)
        among = functions(problem, B, self.feasible_set, self.name)
        D, G = among.diameter, among.largest_xi
        bound = (D / (2 * B) * D + B * G**2) * math.sqrt(episodes)
        return bounded({"B": B, "eta_k": "B/sqrt(k)", "U": among.kind, "D": D}, bound, B, episodes, G)
