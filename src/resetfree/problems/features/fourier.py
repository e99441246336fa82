"""The Fourier basis: cosines of integer frequencies along the coordinates and combinations of them.

Legend: x a state in [0, 1]^D; c [D] integer frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import comb, pi, sqrt
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import PositiveInt
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import affordable, seen
from resetfree.problems.features._cosines import Cosines
from resetfree.problems.features._scaling import fit_interval


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
