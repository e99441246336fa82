"""One-hot features: one for each state of a short list."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, Shares, seen
from resetfree.problems.features._kernels import matches
from resetfree.problems.features._scaling import has_bounds


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
