"""One-hot features: one for each state, where there are few."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.settings import Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, Shares, seen
from resetfree.problems.features._kernels import matches
from resetfree.problems.features._scaling import has_bounds
from resetfree.problems.finite.transitions import Floats


@dataclass
class Listed(Shares):
    """psi(s) is 1 for the row that s is equal to and 0 for the others."""

    rows: Floats = field(metadata={"grows": (0,)})  # [m, D] in lexicographic order
    other: bool  # whether a last feature stands for every state that is not listed

    @property
    def dimension(self) -> int:
        """How many rows there are, and one more for the others."""
        return len(self.rows) + self.other

    @property
    def width(self) -> int:
        """D."""
        return int(self.rows.shape[1])

    def fill(self, states: Floats, out: Floats) -> bool:
        """See `Compiled`."""
        return matches(states, self.rows, self.other, out)


@dataclass(frozen=True)
class OneHot(FeatureMap):
    """psi_i(s) = 1[s = s_i] for a list of states.

    If the bounds are whole numbers, no state seen contradicts that states are too, and there are at most `capacity` of
    them, then all of them are listed, in order, and any other vector has features 0. Else those that were seen are
    listed, the most frequent ones if they are more than `capacity`, and one more feature stands for all other states.

    capacity: how many states at most.

    >>> psi = OneHot().fit(np.empty((0, 1)), np.zeros(1), np.full(1, 3.0), 0)
    >>> psi(np.array([[2.0], [0.0]])).tolist()
    [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    """

    name: ClassVar[str] = "one-hot"
    capacity: Annotated[int, Range(1, MOST_FEATURES - 1)] = 1000

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Listed:
        """Nothing is random here."""
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
