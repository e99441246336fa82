"""Online gradient ascent on the cost: the dual player of Algorithm 1, and other rules for its step.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, U its set, D the diameter of U, B the bound on |theta|, eta_k
the step of round k (eta: the same in all), g_k in [0, 1] the cost signal, x_k = xi(s_1^k) g_k the gradient, h(s) the
hint for start s, K rounds.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from resetfree.core import Floats, Ints, Positive, PositiveBound
from resetfree.game.capabilities import Comparator, DualHistory, OnlineBound
from resetfree.game.contract import DualPlayer, Plan, Round, Statement
from resetfree.players import bound_of, written_in
from resetfree.players.dual import (
    SLACK,
    FeasibleSet,
    Functions,
    Theta,
    bounded,
    functions,
    root,
    signal,
    square_over,
)
from resetfree.problems import Problem, State


@dataclass(slots=True)
class FunctionState:
    """The parameter of the present function, and the functions among which the player chooses."""

    theta: Theta
    among: Functions = field(metadata={"saved": False}, repr=False)


S = TypeVar("S", bound=FunctionState)


class OnlineGradient(DualPlayer[S]):
    """theta <- P_U(theta + eta_k xi(s_1) g); it plays clip(<xi(s_1), theta>, 0, B). Each player has its own eta_k."""

    B: float | None
    feasible_set: FeasibleSet

    @abstractmethod
    def step_size(self, state: S, round: Round, g: float) -> float:
        """The step eta_k of a round with the cost signal g > 0."""

    def update(self, state: S, round: Round) -> S:
        """One step; a round without cost leaves theta where it is, exactly."""
        g = signal(round)
        if g > 0.0 and (eta := self.step_size(state, round, g)) > 0.0:
            state.theta = state.among.moved(state.theta, round.s1, eta * g)
        return state

    def choices(self, problem: Problem) -> Functions:
        """Among which it chooses on a problem."""
        return functions(problem, bound_of(self), self.feasible_set, self.name)

    def multiplier(self, state: S, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(<xi(s1), theta>, 0, B)."""
        return state.among.at(state.theta, s1)

    def functions(self, state: S) -> Functions:
        """Among which it chooses."""
        return state.among

    def parameter(self, state: S) -> Theta:
        """The parameter theta of its present function."""
        return state.theta

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The bound B of the functions it chooses among."""
        return self.choices(problem).cap


@dataclass(frozen=True)
class ProjectedGradient(OnlineGradient[FunctionState]):
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

    def step_size(self, state: FunctionState, round: Round, g: float) -> float:
        """B / sqrt(k)."""
        return state.among.cap / math.sqrt(round.k)

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

    batched_form = written_in("dual.batched:projected_gradient_form")

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The paper's own step, and its regret with D the diameter of U (the paper writes B for D)."""
        B, among = bound_of(self), self.choices(problem)
        D, G = among.diameter, among.largest_xi
        bound = (D / (2 * B) * D + B * G**2) * math.sqrt(episodes)
        return bounded({"B": B, "eta_k": "B/sqrt(k)", "U": among.kind, "D": D}, bound, episodes, G)


@dataclass(slots=True)
class FixedStepState(FunctionState):
    """The iterate, and its step."""

    eta: float = field(metadata={"saved": False})


F = TypeVar("F", bound=FixedStepState)


class FixedStep(OnlineGradient[F]):
    """One step size for all rounds: its setting `eta`, by default B / sqrt(K)."""

    eta: float | None

    def step_size(self, state: F, round: Round, g: float) -> float:
        """The same eta in every round."""
        return state.eta

    def step(self, episodes: int) -> float:
        """The step size of a game of K = `episodes` rounds."""
        return bound_of(self) / root(episodes) if self.eta is None else self.eta

    def fixed_step_statement(self, problem: Problem, episodes: int, **own: Any) -> Statement:
        """The step, and the regret |u|^2 / (2 eta) + (eta / 2) sum |x|^2 where every |x| is as large as it can be."""
        B, eta, among = bound_of(self), self.step(episodes), self.choices(problem)
        G, tuned = among.largest_xi, self.eta is not None
        bound = B / (2 * eta) * B + eta / 2 * G**2 * episodes
        return bounded({"B": B, "eta": eta, **own, "U": among.kind, "tuned": tuned}, bound, episodes, G)


@dataclass(frozen=True)
class ConstantStep(FixedStep[FixedStepState]):
    """theta <- P_U(theta + eta xi(s_1) g); it plays clip(<xi(s_1), theta>, 0, B).

    Dual regret against any u in U: at most |u|^2 / (2 eta) + (eta / 2) sum_k |xi(s_1^k)|^2 g_k^2, which is B sqrt(K)
    with the default step. It must know K, and its first steps are smaller than those of `projected-gradient`.

    B: bound on |theta*|.  eta: the step (default: B / sqrt(K)).  feasible_set: see `functions`.

    >>> import resetfree as rf
    >>> ConstantStep(B=40.0).statement(rf.make("grid-v0").problem(), 100).constants["dual_regret_bound"]
    400.0
    """

    name: ClassVar[str] = "constant-step"
    B: PositiveBound | None = None
    eta: Positive | None = None
    feasible_set: FeasibleSet = "auto"

    def init(self, problem: Problem, episodes: int, seed: int) -> FixedStepState:
        """Start at theta = 0."""
        among = self.choices(problem)
        return FixedStepState(among.zero(), among, self.step(episodes))

    def online_regret_bound(self, met: DualHistory, against: Comparator) -> Floats:
        """|u|^2 / (2 eta) + (eta / 2) sum |x|^2."""
        eta = met.replay.state.eta
        return np.asarray(square_over(against.size, 2 * eta) + eta / 2 * np.cumsum(met.replay.squares))

    def step_lengths(self, met: DualHistory) -> Floats:
        """The step eta |x_k|."""
        return np.asarray(met.replay.state.eta * np.sqrt(met.replay.squares))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The step, and the regret if every cost signal were 1."""
        return self.fixed_step_statement(problem, episodes)


@dataclass(slots=True)
class OptimisticGradientState(FixedStepState):
    """The iterate y without hints, and the hints."""

    hint: Floats  # [S] h(s); [1] where states are not finite: one hint for all starts
    seen: Ints  # as `hint`: episodes that started there
    finite: bool = field(metadata={"saved": False})


@dataclass(frozen=True)
class OptimisticGradient(FixedStep[OptimisticGradientState]):
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
        seen = np.zeros(n, dtype=np.int64)
        return OptimisticGradientState(among.zero(), among, self.step(episodes), np.zeros(n), seen, finite=finite)

    def multiplier(self, state: OptimisticGradientState, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(<xi(s1), theta_k>, 0, B)."""
        h = state.hint.item(s1 if state.finite else 0)
        theta: Theta = state.among.moved(state.theta, s1, state.eta * h) if h > 0.0 else state.theta
        return state.among.at(theta, s1)

    def update(self, state: OptimisticGradientState, round: Round) -> OptimisticGradientState:
        """The step that the hint replaced, and a new hint."""
        super().update(state, round)
        g, i = signal(round), round.s1 if state.finite else 0
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


@dataclass(slots=True)
class AdagradState(FunctionState):
    """The iterate, and the sum of its squared gradients."""

    total: float  # sum of |x_i|^2
    gamma: float = field(metadata={"saved": False})


@dataclass(frozen=True)
class AdagradNorm(OnlineGradient[AdagradState]):
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

    def step_size(self, state: AdagradState, round: Round, g: float) -> float:
        """Gamma / sqrt(sum of |x_i|^2), that of this round included; 0 while the sum is."""
        state.total += g * g * state.among.squared(round.s1)
        # still zero where xi(s1) is, or where the square of g is too small for a float
        return state.gamma / math.sqrt(state.total) if state.total > 0.0 else 0.0

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
