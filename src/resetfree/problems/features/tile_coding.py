"""Tile coding: several shifted grids, with one feature for each tile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import PositiveInt, Range, expect
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, seen
from resetfree.problems.features._grid import OnGrid, fit_marks
from resetfree.problems.features._kernels import tiles


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
