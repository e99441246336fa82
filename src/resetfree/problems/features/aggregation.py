"""State aggregation: one feature for each cell of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from resetfree.core.arrays import Floats
from resetfree.core.settings import Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, affordable, seen
from resetfree.problems.features._grid import OnGrid, fit_marks, per_coordinate
from resetfree.problems.features._kernels import cells

USUAL_SIZE = 500  # features at most if 'cells' is None


@dataclass
class Cells(OnGrid):
    """psi(s) is 1 for the cell of s and 0 for the others."""

    @property
    def sizes(self) -> tuple[int, int]:
        """D, and the cells per coordinate to the power D."""
        return len(self.marks), int((self.marks.shape[1] - 1) ** len(self.marks))

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        return cells(states, self.marks, out)


@dataclass(frozen=True)
class Aggregation(FeatureMap):
    """psi_c(s) = 1[s in cell c] on a grid: even between bounds, else with its ends at quantiles of the states seen.

    A state outside the grid belongs to the cell at its edge. A cell includes its left end, the last one both.

    cells: per coordinate; None: up to 10, and at most 500 features in all.

    >>> import numpy as np
    >>> psi = Aggregation(cells=4).fit(np.empty((0, 1)), np.zeros(1), np.ones(1), 0)
    >>> psi(np.array([[0.3], [7.0]])).tolist()
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "aggregation"
    cells: Annotated[int, Range(1, MOST_FEATURES)] | None = None

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Cells:
        """Deterministic: `seed` is not used."""
        states, low, high = seen(states, low, high, self.name)
        D = len(low)
        n = per_coordinate(D, 2, 10, USUAL_SIZE) if self.cells is None else self.cells
        affordable(n**D, D, self.name, "lower its 'cells', or take tile-coding, radial-basis or random-fourier")
        return Cells(fit_marks(states, low, high, n + 1))
