"""Polynomials: every product of coordinates up to a total degree.

Legend: z a state in [-1, 1]^D; alpha [D] exponents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from math import comb, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.settings import Count
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import Compiled, affordable, seen
from resetfree.problems.features._kernels import monomials
from resetfree.problems.features._scaling import Scaling, fit_interval


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
