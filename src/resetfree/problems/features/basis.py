"""Maps by basis functions: listed states, polynomials and radial bumps.

Legend: z a state on one scale [D]; alpha [D] exponents; p_j [D] centres; l the length of a bump.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from math import comb, prod, sqrt
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.settings import Count, Positive, Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._kernels import bumps, matches, monomials
from resetfree.problems.features.scaling import (
    MOST_FEATURES,
    Compiled,
    Scaling,
    Shares,
    affordable,
    fit_interval,
    fit_scaling,
    has_bounds,
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
