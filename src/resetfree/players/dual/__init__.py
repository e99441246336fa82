"""Players that choose the multiplier function lambda(s), and what they share: the functions <xi(s), theta>, theta in U.

Read first: `online_gradient`, which holds the dual player of the paper's Algorithm 1 and its other step rules.
`one_multiplier` holds those with one number for all starts, `unknown_bound`
those that need no bound B, and `batched` many seeds at once (JAX).

Legend: xi(s) [d'] features of starts (the number 1 where the problem gives none), theta the parameter, U its set, B the
bound on |theta| and so on every multiplier, g in [0, 1] the cost signal, G = max |xi(s)|, D the diameter of U.

`MultiplierLine` is d' = 1 in plain numbers, because most problems have xi = 1 and an episode has few microseconds;
`Space` is any d' in arrays. Both have the same methods, so players need not distinguish them. Where states are vectors
xi is fitted `Features`, which a `Space` evaluates at each start.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.core import Floats, InvalidInput
from resetfree.game.contract import Round, Statement
from resetfree.players import check_episodes
from resetfree.problems import Problem, State
from resetfree.problems.features import FeatureMap, Features
from resetfree.theory.sets import Ball, ConvexSet, OrthantBall, SumOfSquaresBall, for_features, unsvec

Theta: TypeAlias = Any  # a float on a MultiplierLine, an array [d'] in a Space
FeasibleSet: TypeAlias = Literal["auto", "ball", "sum-of-squares"]
SLACK = 1e-9  # what rounding may add to a cost in [0, 1] or to a norm


@dataclass(frozen=True, slots=True)
class MultiplierLine:
    """d' = 1: theta is a number in [low, high]."""

    xi: list[float] | None  # [S], None for the constant 1
    low: float
    high: float
    cap: float  # B

    @property
    def kind(self) -> str:
        """A description of U: the interval."""
        return f"[{self.low:g}, {self.high:g}]"

    @property
    def diameter(self) -> float:
        """Length of the interval."""
        return self.high - self.low

    @property
    def largest_xi(self) -> float:
        """G, the largest |xi(s)|."""
        return 1.0 if self.xi is None else max(map(abs, self.xi))

    def zero(self) -> float:
        """The parameter 0, a fresh value."""
        return 0.0

    def at(self, theta: float, s1: State) -> float:
        """clip(xi(s1) theta, 0, B)."""
        lam = theta if self.xi is None else self.xi[s1] * theta
        if lam <= 0.0:
            return 0.0
        return lam if lam <= self.cap else self.cap

    def moved(self, theta: float, s1: State, step: float) -> float:
        """P_U(theta + step xi(s1)) = clip(theta + step xi(s1), low, high)."""
        theta += step if self.xi is None else step * self.xi[s1]
        if theta < self.low:
            return self.low
        return theta if theta <= self.high else self.high

    def squared(self, s1: State) -> float:
        """The square xi(s1)^2."""
        return 1.0 if self.xi is None else self.xi[s1] ** 2


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Any d': theta is an array in a convex set."""

    xi: Callable[[State], Floats]  # [d'] of a start
    largest_xi: float  # G, or a bound on it
    members: ConvexSet  # U
    cap: float  # B

    @property
    def kind(self) -> str:
        """The name of the set's class."""
        return type(self.members).__name__

    @property
    def diameter(self) -> float:
        """The set's own bound."""
        return self.members.diameter

    def zero(self) -> Floats:
        """The parameter of zeros [d']."""
        return np.zeros(self.members.dim)

    def at(self, theta: Floats, s1: State) -> float:
        """clip(<xi(s1), theta>, 0, B)."""
        return min(max(float(self.xi(s1) @ theta), 0.0), self.cap)

    def moved(self, theta: Floats, s1: State, step: float) -> Floats:
        """P_U(theta + step xi(s1))."""
        return self.members.project(theta + step * self.xi(s1))

    def squared(self, s1: State) -> float:
        """The squared norm |xi(s1)|^2."""
        row = self.xi(s1)
        return float(row @ row)


Functions: TypeAlias = MultiplierLine | Space  # what a player chooses among


def functions(problem: Problem, B: float, feasible_set: FeasibleSet, name: str) -> Functions:
    """The functions that a player called `name` chooses among.

    feasible_set: "auto" (all theta in the ball whose function is negative nowhere), "ball" (the ball alone: what is
      played is max(0, .), and since costs are not negative a multiplier that is raised only lowers the dual regret), or
      "sum-of-squares" (positive semidefinite matrices, for xi made by `sets.svec_features`).

    Where xi is `Features` of vectors, no finite number of rows shows where a function is negative. Then "auto" takes
    what is certain: the orthant with the ball if the features are not negative (this may lack theta* unless they are
    one-hot, see `sets.for_features`), else the ball alone.
    """
    if problem.xi is None:
        return MultiplierLine(None, -B if feasible_set == "ball" else 0.0, B, B)
    if isinstance(problem.xi, Features):
        return _of_vectors(problem.xi, B, feasible_set, name)
    if isinstance(problem.xi, FeatureMap):
        raise InvalidInput(
            f"The 'xi' of a problem must be fitted features for {name}. Got the map {problem.xi.name} without a fit."
        )
    xi = np.asarray(problem.xi, dtype=np.float64)
    if xi.ndim != 2 or xi.size == 0 or len(xi) != problem.n_states or not np.isfinite(xi).all():
        raise InvalidInput(
            f"The 'xi' of a problem must be finite numbers of shape [S, d'] for {name}, with S = {problem.n_states}. "
            f"Got shape {xi.shape} instead."
        )
    if feasible_set == "sum-of-squares":
        return _of_rows(xi, _sums_of_squares(xi, B, name), B)
    if xi.shape[1] > 1:
        return _of_rows(xi, Ball(xi.shape[1], B) if feasible_set == "ball" else for_features(xi, B), B)
    some = (False, False) if feasible_set == "ball" else (bool((xi > 0).any()), bool((xi < 0).any()))
    return MultiplierLine(xi[:, 0].tolist(), 0.0 if some[0] else -B, 0.0 if some[1] else B, B)


def _of_rows(xi: Floats, members: ConvexSet, B: float) -> Space:
    """Functions of finitely many states; xi [S, d']."""
    return Space(xi.__getitem__, float(np.linalg.norm(xi, axis=1).max()), members, B)


def _of_vectors(xi: Features, B: float, feasible_set: FeasibleSet, name: str) -> Space:
    """Functions of states that are vectors or numbers."""
    if feasible_set == "sum-of-squares":
        raise InvalidInput(
            f"The 'feasible_set' sum-of-squares of {name} needs finitely many states. Got features of vectors instead."
        )
    certain = feasible_set == "auto" and xi.non_negative
    members: ConvexSet = OrthantBall(xi.dimension, B) if certain else Ball(xi.dimension, B)

    def at(s1: State) -> Floats:
        row: Floats = xi(np.asarray(s1, dtype=np.float64).reshape(1, -1))[0]
        return row

    return Space(at, xi.norm_bound, members, B)


def _sums_of_squares(xi: Floats, B: float, name: str) -> SumOfSquaresBall:
    """Matrices that are positive semidefinite make functions that are not negative if those of xi are so too."""
    matrices = np.array([unsvec(row) for row in np.unique(xi, axis=0)])
    least = float(np.linalg.eigvalsh(matrices).min())
    if least < -SLACK:
        raise InvalidInput(
            f"The 'feasible_set' sum-of-squares of {name} needs features xi made by svec_features. "
            f"Got one with an eigenvalue of {least:.3g} instead."
        )
    return SumOfSquaresBall(matrices.shape[1], B)


def root(episodes: int) -> float:
    """sqrt(K), for constants that must know how many rounds there will be."""
    return math.sqrt(check_episodes(episodes, "a game"))


def frames(episodes: int) -> tuple[int, float]:
    """Episodes per frame, the whole part of K^0.6, and chi = eta = K^0.2.

    >>> frames(1024)
    (64, 4.0)
    """
    fifth = round(root(episodes) ** 0.4, 12)
    return max(int(fifth**3 + 1e-6), 1), fifth


def square_over(x: Any, y: float) -> Any:
    """x^2 / y where it fits into a float and x^2 does not, as for the multiplier of a reset probability of 1e-300."""
    return x / y * x


def signal(round: Round) -> float:
    """g, the cost signal of a round: every bound rests on 0 <= g <= 1, so nothing else passes."""
    g = round.cost_signal
    if 0.0 <= g <= 1.0:
        return g
    if not -SLACK <= g <= 1.0 + SLACK:
        raise InvalidInput(f"The 'cost_signal' of a round must lie in [0, 1]. Got {g!r} in round {round.k} instead.")
    return 0.0 if g < 0.0 else 1.0


def bounded(constants: dict[str, Any], bound: float, episodes: int, G: float = 1.0) -> Statement:
    """The statement of a player whose dual regret is at most `bound`: whether the theorem's dual part allows that.

    constants: B among them.  G: the largest |xi(s)|.

    The paper puts O(B sqrt(K)) there; 3 B sqrt(K) is what its own player has for any U of radius B.
    """
    constants = {**constants, "dual_regret_bound": bound}
    if G > 1.0 + SLACK:
        return Statement(constants, False, f"the theorem needs |xi(s)| at most 1, and here it is up to {G:.6g}")
    rate = bound / (constants["B"] * root(episodes))
    held = f"dual regret at most {rate:.4g} B sqrt(K) on the cost signals, against any theta in U"
    if rate > 3.0 + SLACK:
        return Statement(constants, False, f"{held}; the theorem's dual part needs at most 3 B sqrt(K)")
    return Statement(constants, True, f"{held}; this is the dual part of the theorem if theta* is in U")
