"""Cosines of states: the Fourier basis and random Fourier features.

Legend: x a state in [0, 1]^D; c [D] integer frequencies.
"""

from dataclasses import dataclass
from itertools import combinations, product
from math import comb, pi, sqrt
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Positive, PositiveInt, Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._kernels import cosines
from resetfree.problems.features.scaling import (
    MOST_FEATURES,
    Compiled,
    Scaling,
    affordable,
    fit_interval,
    fit_scaling,
    median_distance,
    seen,
)


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
