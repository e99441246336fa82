"""Grid worlds from masks: walls block, pits are reset states, slipping moves sideways; exact as fractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from resetfree.core.arrays import Bools, simplest_fraction
from resetfree.core.settings import expect
from resetfree.problems.finite.mdp import GridLayout

MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1), "stay": (0, 0)}


def grid_transitions(free: Bools, pits: Bools, slip: float, actions: Sequence[str]) -> tuple[Any, GridLayout]:
    """Sparse [S*A, S] of moves on the cells of `free` [R, C] (pits included), one state per cell, row by row.

    A move has its direction with probability 1 - slip and goes to each side with slip/2; "stay" never slips; a blocked
    move stays. Weights are added as integers over one denominator: each entry is a correctly rounded fraction.
    """
    good = 0 <= slip <= 1 and (slip == 0 or slip / 2 > 0)  # half of a positive slip must not underflow
    expect(good, "'slip' of a grid", "lie in [0, 1]", slip)
    n_rows, n_cols = free.shape
    cell = np.flatnonzero(free)
    state = np.full(free.size, -1, dtype=np.int64)
    state[cell] = np.arange(len(cell))
    acting = np.flatnonzero(~pits.ravel()[cell])  # rows of pits stay empty: an episode ends there
    r, c = np.divmod(cell[acting], n_cols)

    def target(move: tuple[int, int]) -> NDArray[np.int64]:
        rr, cc = np.clip(r + move[0], 0, n_rows - 1), np.clip(c + move[1], 0, n_cols - 1)
        to = state[rr * n_cols + cc]
        return np.where(to < 0, acting, to)

    fraction = simplest_fraction(float(slip))
    denominator = 2 * fraction.denominator
    exact = denominator < 2**62  # otherwise two weights overflow, and rounded ones are used
    rows, cols, weights = [], [], []
    for a, name in enumerate(actions):
        dr, dc = MOVES[name]
        ways = [((dr, dc), denominator)]
        if name != "stay" and slip > 0:
            side = fraction.numerator
            ways = [((dr, dc), denominator - 2 * side), ((dc, dr), side), ((-dc, -dr), side)]
        for move, weight in ways:
            if weight:
                rows.append(acting * len(actions) + a)
                cols.append(target(move))
                weights.append(np.full(len(acting), weight if exact else weight / denominator))
    shape = (len(cell) * len(actions), len(cell))
    counts = sparse.coo_array(
        (np.concatenate(weights), (np.concatenate(rows), np.concatenate(cols))), shape=shape
    ).tocsr()
    counts.sum_duplicates()
    data = counts.data / denominator if exact else counts.data
    probability = sparse.csr_array((data, counts.indices, counts.indptr), shape=shape)
    return probability, GridLayout(n_rows, n_cols, cell)


def cell_names(layout: GridLayout) -> list[str]:
    """The names "row,column" of the states, counted from 0."""
    return [f"{i // layout.n_cols},{i % layout.n_cols}" for i in layout.cell]
