"""Random Fourier features: cosines of random directions, whose inner products approximate a Gaussian kernel.

Legend: z a state on one scale [D]; w_j [D] normal directions; d features; l the kernel's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Positive, Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, seen
from resetfree.problems.features._cosines import Cosines
from resetfree.problems.features._scaling import fit_scaling, median_distance


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
