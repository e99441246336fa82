"""Radial basis functions: Gaussian bumps around centres chosen among the states seen.

Legend: z a state on one scale [D]; p_j [D] centres; l the width of the bumps; d their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Positive, Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, Shares, seen
from resetfree.problems.features._kernels import bumps
from resetfree.problems.features._scaling import Scaling, fit_scaling

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
