"""Features on a grid in the space of states: cells, weights of the corners of simplices, and tiles.

Legend: marks [D, m] of each coordinate, increasing.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core import Floats, PositiveInt, Range, expect, require
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._kernels import cells, interpolated, tiles
from resetfree.problems.features.scaling import MOST_FEATURES, Shares, affordable, fit_ends, has_bounds, seen


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


USUAL_NODES = 300  # features at most if 'nodes' is None


@dataclass
class Weights(OnGrid):
    """psi(s): the interpolation weights of the nodes of the grid at s."""

    @property
    def sizes(self) -> tuple[int, int]:
        """D, and the nodes per coordinate to the power D."""
        return len(self.marks), int(self.marks.shape[1] ** len(self.marks))

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        return interpolated(states, self.marks, out)


@dataclass(frozen=True)
class Simplex(FeatureMap):
    """psi(s) >= 0, |psi(s)|_1 = 1, |psi(s)|_2 <= 1, and functions that are linear in each coordinate are exact.

    So the norms that a linear MDP requires of phi hold with psi(s) in the block of an action: P(.|s,a) is a mixture of
    d distributions per action. Nodes are even between bounds, else at quantiles of the states seen; a state outside
    the grid has the features of the nearest one inside.

    nodes: per coordinate; None: up to 12, and at most 300 features in all, but at least two.

    >>> import numpy as np
    >>> psi = Simplex(nodes=3).fit(np.empty((0, 1)), np.zeros(1), np.ones(1), 0)
    >>> psi(np.array([[0.125], [0.5], [9.0]])).tolist()
    [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "simplex"
    nodes: Annotated[int, Range(2, MOST_FEATURES)] | None = None

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Weights:
        """Deterministic: `seed` is not used."""
        states, low, high = seen(states, low, high, self.name)
        D = len(low)
        n = per_coordinate(D, 2, 12, USUAL_NODES) if self.nodes is None else self.nodes
        affordable(
            n**D, D, self.name, "lower its 'nodes', or take radial-basis with 'normalised', which also sums to one"
        )
        return Weights(fit_marks(states, low, high, n))


@dataclass
class Tiles(OnGrid):
    """psi(s) is 1/sqrt(T) for one tile in each of T tilings, and 0 for the others."""

    shift: Floats = field(metadata={"fixed": True})  # [T, D] the shift of each tiling, in tiles
    block: int = field(metadata={"fixed": True})  # features of one tiling
    hashed: bool = field(metadata={"fixed": True})  # whether tiles share features

    @property
    def sizes(self) -> tuple[int, int]:
        """D, and T times the features of one tiling."""
        return len(self.marks), len(self.shift) * self.block

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        return tiles(states, self.marks, self.shift, self.block, self.hashed, out)


@dataclass(frozen=True)
class TileCoding(FeatureMap):
    """psi(s) = (one-hot of the tile of s in tiling 1, .., in tiling T) / sqrt(T), so |psi(s)| = 1.

    Tiling t is shifted by (t (2k+1) mod T) / T tiles in coordinate k = 0, 1, ..: uneven, so that the tilings are not
    all on one diagonal. Tiles are even between bounds, else at quantiles of the states seen; a state outside has the
    features of the nearest one inside.

    T tilings have T (tiles + 1)^D tiles. If these are more than `at_most`, the tiles of each tiling share at_most/T
    features by a fixed hash: two distant tiles may have one feature, but never two tiles of the same state, so |psi| is
    still 1. Of n tiles in use, about (n-1) T/at_most share the feature of a given one.

    tilings: T.  tiles: per coordinate in one tiling.  at_most: the largest number of features.

    >>> psi = TileCoding(tilings=2, tiles=2).fit(np.empty((0, 1)), np.zeros(1), np.ones(1), 0)
    >>> (psi(np.array([[0.1], [0.3]])) * 2**0.5).round(9).tolist()   # the second tiling's tiles end at 0.25 and 0.75
    [[1.0, 0.0, 0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]]
    """

    name: ClassVar[str] = "tile-coding"
    tilings: PositiveInt = 8
    tiles: Annotated[int, Range(1, MOST_FEATURES)] = 4
    at_most: Annotated[int, Range(1, MOST_FEATURES)] = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        least = f"be at least its 'tilings', {self.tilings}"
        expect(self.at_most >= self.tilings, f"'at_most' of {self.name}", least, self.at_most)

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Tiles:
        """Deterministic: `seed` is not used."""
        states, low, high = seen(states, low, high, self.name)
        D, T = len(low), self.tilings
        shift = np.outer(np.arange(T), 2 * np.arange(D) + 1) % T / T
        block = (self.tiles + 1) ** D
        hashed = T * block > self.at_most
        marks = fit_marks(states, low, high, self.tiles + 1)
        return Tiles(marks, shift, self.at_most // T if hashed else block, hashed)
