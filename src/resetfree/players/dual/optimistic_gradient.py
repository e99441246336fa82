"""Optimistic gradient ascent: the start is known before the multiplier is chosen, so its usual cost is a hint.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, B the bound on |theta|, eta the step, g in [0, 1]
the cost signal, h(s) the hint for start s, K rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from resetfree.core.arrays import Floats, Ints
from resetfree.core.settings import Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory
from resetfree.game.contract import Plan, Round, Statement
from resetfree.players.dual.function_players import FixedStepPlayer, FunctionState
from resetfree.players.dual.multiplier_functions import FeasibleSet, Theta, signal, square_over
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class OptimisticGradientState(FunctionState):
    """The iterate y without hints, and the hints."""

    hint: Floats  # [S] h(s); [1] where states are not finite: one hint for all starts
    seen: Ints  # as `hint`: episodes that started there
    eta: float = field(metadata={"saved": False})
    finite: bool = field(metadata={"saved": False})


@dataclass(frozen=True)
class OptimisticGradient(FixedStepPlayer[OptimisticGradientState]):
    """It plays theta_k = P_U(y + eta xi(s_1) h(s_1)); then y <- P_U(y + eta xi(s_1) g), and h(s_1) learns from g.

    Paper: optimistic mirror descent (other instantiations).

    Dual regret against any u in U: at most |u|^2 / (2 eta) + (eta / 2) sum_k |xi(s_1^k)|^2 (g_k - h(s_1^k))^2, which is
    at most B sqrt(K) with the default step, and less the better the hints are.
      Proof. Let x be the gradient, m its hint, y' the next y. Then <x, u - theta> = <x - m, y' - theta> +
      <m, y' - theta> + <x, u - y'>. The first is at most eta |x - m|^2 / 2 + |y' - theta|^2 / (2 eta); the projections
      bound the second by (|y' - y|^2 - |theta - y|^2 - |y' - theta|^2) / (2 eta) and the third by
      (|u - y|^2 - |u - y'|^2 - |y' - y|^2) / (2 eta). Sum over the rounds.

    B: bound on |theta*|.  eta: the step (default: B / sqrt(K)).  feasible_set: see `functions`.
    hint: "last" (the last cost signal at this start) or "frequency" (their mean); 0 at a start not seen before.

    >>> import resetfree as rf
    >>> OptimisticGradient(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["dual_regret_bound"]
    400.0
    """

    name: ClassVar[str] = "optimistic-gradient"
    B: PositiveBound | None = None
    eta: Positive | None = None
    hint: Literal["last", "frequency"] = "last"
    feasible_set: FeasibleSet = "auto"

    def init(self, problem: Problem, episodes: int, seed: int) -> OptimisticGradientState:
        """Start at y = 0, without hints."""
        among, n, finite = self.choices(problem), problem.n_states or 1, problem.n_states is not None
        eta, seen = self.step(episodes), np.zeros(n, dtype=np.int64)
        return OptimisticGradientState(among.zero(), among, np.zeros(n), seen, eta, finite=finite)

    def multiplier(self, state: OptimisticGradientState, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(<xi(s1), theta_k>, 0, B)."""
        h = state.hint.item(s1 if state.finite else 0)
        theta: Theta = state.among.moved(state.theta, s1, state.eta * h) if h > 0.0 else state.theta
        return state.among.at(theta, s1)

    def update(self, state: OptimisticGradientState, round: Round) -> OptimisticGradientState:
        """The step that the hint replaced, and a new hint."""
        g, i = signal(round), round.s1 if state.finite else 0
        if g > 0.0:
            state.theta = state.among.moved(state.theta, round.s1, state.eta * g)
        n = state.seen.item(i) + 1
        state.seen[i] = n
        state.hint[i] = g if self.hint == "last" else state.hint.item(i) + (g - state.hint.item(i)) / n
        return state

    def expected_cost(self, state: OptimisticGradientState, s1: State) -> float:
        """The hint h(s1)."""
        return state.hint.item(s1 if state.finite else 0)

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """|u|^2 / (2 eta) + (eta / 2) sum |x - hint|^2."""
        eta = met.replay.state.eta
        return np.asarray(square_over(against.size, 2 * eta) + eta / 2 * np.cumsum(met.replay.misses))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step, and the regret if every hint were as wrong as it can be."""
        return self.fixed_step_statement(problem, episodes, hint=self.hint)
