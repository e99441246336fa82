"""Maps by basis functions: listed states, polynomials, radial bumps, cosines, and functions that the user gives.

Legend: z a state on one scale [D]; alpha [D] exponents; p_j [D] centres; l the width of the bumps; d their number.
Of cosines: x a state in [0, 1]^D; c [D] integer frequencies.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement, product
from math import comb, inf, pi, prod, sqrt
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Count, Floats, InvalidInput, Positive, PositiveInt, Range, expect, imported
from resetfree.problems.features import FeatureMap, Features
from resetfree.problems.features._kernels import bumps, cosines, matches, monomials
from resetfree.problems.features.scaling import (
    MOST_FEATURES,
    Compiled,
    Scaling,
    Shares,
    affordable,
    fit_interval,
    fit_scaling,
    has_bounds,
    median_distance,
    seen,
)


@dataclass
class Listed(Shares):
    """psi(s) is 1 for the row equal to s and 0 for the others."""

    rows: Floats = field(metadata={"grows": (0,)})  # [m, D] in lexicographic order
    other: bool  # whether there is a last feature for all states that are not listed

    @property
    def sizes(self) -> tuple[int, int]:
        """D, and the number of rows, with one more for the others."""
        return int(self.rows.shape[1]), len(self.rows) + self.other

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        return matches(states, self.rows, self.other, out)


@dataclass(frozen=True)
class OneHot(FeatureMap):
    """psi_i(s) = 1[s = s_i] for a list of states.

    If the bounds and all states seen are integers, and at most `capacity` integer vectors lie within the bounds, all of
    these are listed, in order, and any other vector has features 0. Otherwise the states seen are listed, the most
    frequent ones if they are more than `capacity`, and one more feature is for all other states.

    capacity: the largest number of states.

    >>> psi = OneHot().fit(np.empty((0, 1)), np.zeros(1), np.full(1, 3.0), 0)
    >>> psi(np.array([[2.0], [0.0]])).tolist()
    [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    """

    name: ClassVar[str] = "one-hot"
    capacity: Annotated[int, Range(1, MOST_FEATURES - 1)] = 1000

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Listed:
        """Deterministic: `seed` is not used."""
        states, low, high = seen(states, low, high, self.name)
        still = np.isfinite(low) & (low == high)
        if (has_bounds(low, high) | still).all() and (low == np.rint(low)).all() and (high == np.rint(high)).all():
            inside = ((states == np.rint(states)) & (states >= low) & (states <= high)).all()
            sizes = [int(b - a) + 1 for a, b in zip(low, high, strict=True)]
            if inside and prod(sizes) <= self.capacity:
                values = (np.arange(n) + a for n, a in zip(sizes, low, strict=True))
                return Listed(np.array(list(product(*values))), False)
        rows, count = np.unique(states, axis=0, return_counts=True)
        if len(rows) > self.capacity:
            rows = rows[np.sort(np.argsort(-count, kind="stable")[: self.capacity])]
        return Listed(rows.reshape(-1, len(low)), True)


@dataclass
class Monomials(Compiled):
    """psi_0 = amplitude, and psi_j = psi_{parent j} z_{variable j}."""

    scaling: Scaling
    parent: NDArray[np.int64] = field(metadata={"fixed": True})  # [d] the product that lacks one factor
    variable: NDArray[np.int64] = field(metadata={"fixed": True})  # [d] that factor
    amplitude: float

    @property
    def sizes(self) -> tuple[int, int]:
        """D and d."""
        return len(self.scaling.centre), len(self.parent)

    @property
    def norm_bound(self) -> float:
        """The bound 1: no monomial of z in [-1, 1] is larger than the constant."""
        return 1.0

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        at = self.scaling
        return monomials(states, at.centre, at.scale, at.ends, self.parent, self.variable, self.amplitude, out)


@dataclass(frozen=True)
class Polynomial(FeatureMap):
    """psi_alpha(s) = z^alpha / sqrt(d) for every alpha with sum at most `degree`.

    z is s scaled to [-1, 1] by its bounds, or by the least and greatest value seen if it has none, and clipped, because
    polynomials do not extrapolate. The constant is the first. |psi(s)| <= 1.

    >>> psi = Polynomial(degree=2).fit(np.empty((0, 2)), -np.ones(2), np.ones(2), 0)
    >>> (psi(np.array([[0.5, -1.0]])) * 6**0.5).round(9).tolist()   # 1, x, y, x^2, xy, y^2
    [[1.0, 0.5, -1.0, 0.25, -0.5, 1.0]]
    """

    name: ClassVar[str] = "polynomial"
    degree: Count = 2

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Monomials:
        """Deterministic; only the ends of coordinates without bounds are fitted."""
        states, low, high = seen(states, low, high, self.name)
        D = len(low)
        d = comb(D + self.degree, self.degree)
        affordable(d, D, self.name, "lower its 'degree'")
        index: dict[tuple[int, ...], int] = {}
        for degree in range(self.degree + 1):
            for factors in combinations_with_replacement(range(D), degree):
                index[factors] = len(index)
        parent = np.array([index[factors[:-1]] for factors in index], dtype=np.int64)
        variable = np.array([factors[-1] if factors else 0 for factors in index], dtype=np.int64)
        return Monomials(fit_interval(states, low, high, -1.0), parent, variable, 1.0 / sqrt(d))


CANDIDATES = 5000  # states among which centres are chosen


@dataclass
class Bumps(Shares):
    """psi_j(s) = amplitude exp(-|z - p_j|^2 / (2 l^2)), or these divided by their sum."""

    scaling: Scaling
    place: Floats  # [D, d] centres
    bandwidth: float  # l
    amplitude: float
    normalised: bool = field(metadata={"fixed": True})

    @property
    def sizes(self) -> tuple[int, int]:
        """D and d."""
        return len(self.place), int(self.place.shape[1])

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        at, form = self.scaling, (self.bandwidth, self.amplitude)
        return bumps(states, at.centre, at.scale, at.ends, self.place, form, self.normalised, out)


@dataclass(frozen=True)
class RadialBasis(FeatureMap):
    """psi_j(s) = a exp(-|z - p_j|^2 / (2 l^2)) with |psi(s)| <= 1; `normalised` divides them by their sum instead.

    Centres are drawn from the states seen, with probabilities proportional to the squared distance from those drawn
    before (k-means++). If fewer than d states differ, the rest of the centres are drawn from the cube [-1, 1]^D of
    scaled states. Bumps vanish far from all centres; normalised, the nearest centre dominates there, and psi is in the
    simplex: psi >= 0 with sum 1.

    d: the number.  width: l as a multiple of the median distance of a centre from its nearest neighbour.

    >>> rng = np.random.default_rng(0)
    >>> psi = RadialBasis(d=30, normalised=True).fit(rng.normal(size=(99, 2)), np.full(2, -9.0), np.full(2, 9.0), 0)
    >>> psi.dimension, float(psi(np.array([[0.3, 40.0]])).sum().round(12))
    (30, 1.0)
    """

    name: ClassVar[str] = "radial-basis"
    d: Annotated[int, Range(1, MOST_FEATURES)] = 100
    width: Positive = 2.0
    normalised: bool = False

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Bumps:
        """Centres are drawn from `seed`, the scale is fitted to `states`."""
        states, low, high = seen(states, low, high, self.name)
        rng = np.random.default_rng([seed, self.d, len(low)])
        scaling = fit_scaling(states, low, high)
        if len(states) > CANDIDATES:
            states = states[rng.choice(len(states), CANDIDATES, replace=False)]
        place = _spread(scaling(states), self.d, rng)
        squared = ((place[:, None] - place) ** 2).sum(axis=2) if self.d * self.d * len(low) < 10**7 else _gram(place)
        np.fill_diagonal(squared, np.inf)
        nearest = np.sqrt(squared.min(axis=1)) if self.d > 1 else np.ones(1)
        bandwidth = self.width * float(np.median(nearest))
        np.fill_diagonal(squared, 0.0)
        # |psi|^2 = a^2 sum_j k(z, p_j) with k = exp(-|.|^2 / l^2), and sum_j k(z, p_j) <= sqrt(sum_ij k(p_i, p_j)) by
        # Cauchy-Schwarz in the space of k, where every z has norm 1.
        total = float(np.exp(-squared / bandwidth**2).sum())
        return Bumps(scaling, np.ascontiguousarray(place.T), bandwidth, total**-0.25, self.normalised)


def _spread(z: Floats, d: int, rng: np.random.Generator) -> Floats:
    """[d, D] different rows of z, chosen by k-means++; points of the cube if z has too few."""
    chosen = np.empty((d, z.shape[1]))
    distance, n = np.full(len(z), 1.0), 0
    while n < d and distance.any():
        at = np.searchsorted(distance.cumsum(), rng.random() * distance.sum(), side="right")
        chosen[n] = z[min(int(at), int(np.flatnonzero(distance)[-1]))]
        apart = ((z - chosen[n]) ** 2).sum(axis=1)
        distance = apart if n == 0 else np.minimum(distance, apart)
        n += 1
    chosen[n:] = rng.uniform(-1.0, 1.0, size=(d - n, z.shape[1]))
    return chosen


def _gram(place: Floats) -> Floats:
    """[d, d] squared distances, one coordinate at a time to save memory."""
    squared = np.zeros((len(place), len(place)))
    for column in place.T:
        squared += np.subtract.outer(column, column) ** 2
    return squared


Function: TypeAlias = Callable[[Floats], ArrayLike]
ROUNDING = 1e-9  # by which a norm may exceed its bound


@dataclass
class Given(Features):
    """psi(s) = f(s), or (s, 1) without an f; a run saves the dimension and the bound, not the code."""

    function: Function | None = field(metadata={"saved": False})
    batched: bool = field(metadata={"fixed": True})
    d: int = field(metadata={"fixed": True})
    bound: Annotated[float, Range(above=0, most=inf)] = field(metadata={"fixed": True})
    not_negative: bool = field(metadata={"fixed": True})

    @property
    def dimension(self) -> int:
        """The number of entries that the function returned."""
        return self.d

    @property
    def norm_bound(self) -> float:
        """The user's `bound`."""
        return self.bound

    @property
    def non_negative(self) -> bool:
        """The user's `non_negative`."""
        return self.not_negative

    def __call__(self, states: Floats) -> Floats:
        """Psi [n, d]; raises InvalidInput if it is not finite, exceeds the bound or is negative against its setting."""
        states = np.asarray(states, dtype=np.float64)
        if self.function is None:
            psi = np.concatenate([states, np.ones((len(states), 1))], axis=1)
        elif self.batched:
            psi = np.array(self.function(states), dtype=np.float64)
        else:
            psi = np.array([np.asarray(self.function(s), dtype=np.float64).ravel() for s in states], dtype=np.float64)
            psi = psi.reshape(len(states), -1) if len(states) else np.empty((0, self.dimension))
        # Called at every step of an episode: messages are made only if something is wrong.
        if psi.shape != (len(states), self.dimension) or not np.isfinite(psi).all():
            got = f"shape {psi.shape} for {len(states)} states"
            expect(False, "'function' of user", f"give {self.dimension} finite numbers per state", got=got)
        if self.norm_bound < inf:
            largest = float(np.sqrt((psi**2).sum(axis=1)).max(initial=0.0))
            if largest > self.norm_bound * (1.0 + ROUNDING):
                got = f"{self.norm_bound:g} and a norm of {largest:g}"
                expect(False, "'bound' of user", "be at least every |psi(s)|", got=got)
        if self.non_negative and (psi < 0).any():
            expect(False, "'function' of user", "not be negative with 'non_negative'", got="a negative number")
        return psi


@dataclass(frozen=True)
class UserFeatures(FeatureMap):
    """psi(s) = function(s); without a function psi(s) = (s, 1).

    The run file has the name of the function and not its code: to continue a run it must be given again.

    function: of a state [D], returns d numbers; or "module:name" of one.  bound: on |psi(s)|, inf if it is unknown; a
    state that exceeds it raises.  batched: whether the function takes states [n, D] and returns [n, d]; its rows must
    not depend on each other.  non_negative: whether psi(s) >= 0 for every state.

    >>> psi = UserFeatures(lambda s: (s[0] * s[1], 1.0)).fit(np.empty((0, 2)), np.zeros(2), np.ones(2), 0)
    >>> psi(np.array([[2.0, 3.0]])).tolist(), psi.norm_bound
    ([[6.0, 1.0]], inf)
    """

    name: ClassVar[str] = "user"
    function: Function | str | None = None
    bound: Annotated[float, Range(above=0, most=inf)] = inf
    batched: bool = False
    non_negative: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.function, str):
            found_function(self.function)

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Given:
        """Calls the function on a state seen, or on the middle of the bounds, to find its dimension."""
        states, low, high = seen(states, low, high, self.name)
        function = found_function(self.function) if isinstance(self.function, str) else self.function
        d = len(low) + 1
        if function is not None:
            at = states[0] if len(states) else fit_interval(states, low, high, -1.0).centre
            d = np.asarray(function(at[None] if self.batched else at), dtype=np.float64).size
        expect(d >= 1, "'function' of user", "give at least one number", got="none")
        affordable(d, len(low), self.name, "give fewer numbers")
        return Given(function, self.batched, d, float(self.bound), self.non_negative)


def found_function(name: str) -> Function:
    """Import `module:name`; raises InvalidInput if it is not a function.

    >>> found_function("math:fsum")([1.0, 2.0])
    3.0
    """
    what = "The 'function' of user must be module:name of a function."
    found: Function = imported(name, what)
    if not callable(found):
        raise InvalidInput(f"{what} Got {name!r} instead.")
    return found


@dataclass
class Cosines(Compiled):
    """psi(s) = amplitude cos(z W + b)."""

    scaling: Scaling
    weight: Floats  # [D, d] W
    phase: Floats  # [d] b
    amplitude: float
    bound: float  # on |psi(s)|, set by the map

    @property
    def sizes(self) -> tuple[int, int]:
        """D and d."""
        return len(self.weight), len(self.phase)

    @property
    def norm_bound(self) -> float:
        """The bound of the map."""
        return self.bound

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        at = self.scaling
        return cosines(states, at.centre, at.scale, at.ends, self.weight, self.phase, self.amplitude, out)


@dataclass(frozen=True)
class FourierBasis(FeatureMap):
    """psi_c(s) = cos(pi c.x) / sqrt(d) for every c with entries 0..order of which at most `mixed` are not zero.

    x is s scaled to [0, 1] by its bounds, or by the least and greatest value seen if it has none, and clipped. The
    constant is among them. |psi(s)| <= 1.

    order: the highest frequency.  mixed: the most coordinates in one cosine (D for the full basis).

    >>> psi = FourierBasis(order=3).fit(np.empty((0, 2)), np.zeros(2), np.ones(2), 0)
    >>> psi.dimension, (psi(np.zeros((1, 2))) * 4).round(9).min()
    (16, np.float64(1.0))
    """

    name: ClassVar[str] = "fourier-basis"
    order: PositiveInt = 3
    mixed: PositiveInt = 2

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Cosines:
        """Deterministic; only the ends of coordinates without bounds are fitted."""
        states, low, high = seen(states, low, high, self.name)
        D, order = len(low), self.order
        mixed = min(self.mixed, D)
        d = sum(comb(D, size) * order**size for size in range(mixed + 1))
        affordable(d, D, self.name, "lower its 'order' or 'mixed'")
        weight, column = np.zeros((D, d)), 0
        for size in range(mixed + 1):
            for coordinates in combinations(range(D), size):
                for frequency in product(range(1, order + 1), repeat=size):
                    weight[list(coordinates), column] = frequency
                    column += 1
        return Cosines(fit_interval(states, low, high, 0.0), pi * weight, np.zeros(d), 1.0 / sqrt(d), 1.0)


@dataclass(frozen=True)
class RandomFourier(FeatureMap):
    """psi(s).psi(t) is about exp(-|z(s) - z(t)|^2 / (2 l^2)), with an error whose deviation is at most 1/sqrt(d).

    Each direction gives a cosine and a sine, so |psi(s)| = 1 for even d: for each pair of features the squares of the
    two sum to 2/d. The error of one pair of states is a mean of d/2 numbers cos(w.(z - z')) with variance at most 1/2.

    d: the number.  bandwidth: l as a multiple of the median distance of states.

    >>> rng = np.random.default_rng(0)
    >>> psi = RandomFourier(d=200).fit(rng.normal(size=(50, 2)), np.full(2, -9.0), np.full(2, 9.0), 0)
    >>> psi(np.zeros((3, 2))).shape, psi.dimension, psi.norm_bound
    ((3, 200), 200, 1.0)
    """

    name: ClassVar[str] = "random-fourier"
    d: Annotated[int, Range(1, MOST_FEATURES)] = 200
    bandwidth: Positive = 1.0

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Cosines:
        """Directions are drawn from `seed`, the scale is fitted to `states`."""
        states, low, high = seen(states, low, high, self.name)
        rng = np.random.default_rng([seed, self.d, len(low)])
        pairs = (self.d + 1) // 2
        direction = rng.normal(size=(len(low), pairs))
        # A sine is a shifted cosine. An odd d leaves one cosine without its sine, so its phase must be random.
        phase = np.tile([0.0, -pi / 2], pairs)[: self.d]
        if self.d % 2:
            phase[-1] = rng.uniform(0.0, 2.0 * pi)
        scaling = fit_scaling(states, low, high)
        length = self.bandwidth * median_distance(scaling(states), rng)
        weight = np.repeat(direction, 2, axis=1)[:, : self.d] / length
        return Cosines(scaling, weight, phase, sqrt(2.0 / self.d), sqrt(2.0 * pairs / self.d))
