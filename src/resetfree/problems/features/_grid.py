"""Grids on the coordinates of states: even between bounds, else at quantiles of the states seen.

Legend: marks [D, m] of each coordinate, increasing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.state import require
from resetfree.problems.features._checks import Shares
from resetfree.problems.features._scaling import fit_ends, has_bounds


@dataclass
class OnGrid(Shares):
    """Features of the place of a state on a grid."""

    marks: Floats  # [D, m] the ends of cells, or the nodes

    def check_loaded(self) -> None:
        """Raise InvalidInput unless the marks increase."""
        with np.errstate(over="ignore"):
            apart = np.diff(self.marks, axis=1)
        require(((apart > 0) & np.isfinite(apart)).all(), "marks of a grid must increase")


def fit_marks(states: Floats, low: Floats, high: Floats, m: int) -> Floats:
    """[D, m] marks on each coordinate, from end to end.

    If quantiles of the states seen are not all different, the marks are even between the ends.

    >>> seen = np.array([[0.0], [1.0], [2.0], [30.0], [90.0]])
    >>> fit_marks(seen, np.array([-np.inf]), np.array([np.inf]), 3).tolist()
    [[0.0, 2.0, 90.0]]
    >>> fit_marks(seen, np.array([0.0]), np.array([100.0]), 3).tolist()
    [[0.0, 50.0, 100.0]]
    """
    left, right = fit_ends(states, low, high)
    marks = np.linspace(left, right, m, axis=1)
    free = np.flatnonzero(~has_bounds(low, high))
    if len(states) > 1 and len(free):
        at = np.quantile(states[:, free], np.linspace(0.0, 1.0, m), axis=0).T
        distinct = (np.diff(at, axis=1) > 1e-12 * (1.0 + np.abs(at[:, 1:]))).all(axis=1)
        marks[free[distinct]] = at[distinct]
    return np.ascontiguousarray(marks)


def per_coordinate(D: int, least: int, most: int, size: int) -> int:
    """The largest number of marks or cells per coordinate in least .. most whose D-th power is at most `size`.

    >>> [per_coordinate(D, 2, 10, 500) for D in (1, 2, 4, 8, 9)]
    [10, 10, 4, 2, 2]
    """
    best = least
    while best < most and (best + 1) ** D <= size:
        best += 1
    return best
