"""`pits-v0`: a square field with pits, from one corner to the other, as large as memory allows."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from resetfree.core.arrays import Bools
from resetfree.core.settings import Count, Fraction, Range
from resetfree.problems.finite.checks import LONGEST
from resetfree.problems.finite.grids import cell_names, grid_transitions
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.safety import close
from resetfree.problems.registry import STEP, Size, register

ACTIONS = ("up", "down", "left", "right")
PITS_OF_5 = ((1, 1), (1, 3), (2, 2), (3, 1), (3, 3))
USUAL_DENSITY = 0.15
NAMED = 100  # cells of larger fields have numbers as names


@register(
    "pits-v0",
    "An n x n field with pits: walk from the first corner to the last, which pays 1 per step.",
    lambda n, slip, horizon, **_: Size(4 * n * n * (3 if slip else 1), 4 * n * n * (horizon or 2 * n) + STEP * horizon),
)
def pits(
    n: Annotated[int, Range(2)] = 5,
    slip: Fraction = 0.0,
    horizon: Annotated[int, Range(0, LONGEST)] = 0,
    density: Annotated[float, Range(most=1)] = -1.0,
    seed: Count = 0,
) -> FiniteMDP:
    """Four moves, start in the first corner, acting in the last corner pays 1, a reset puts the agent on any live cell.

    Cells from which a reset cannot be avoided are not live: ending an episode there is a reset (`assumptions.close`).
    Random fields have no pits on their two outer rings (one if n < 7): pushing against the wall is safe there, so
    the outermost ring is live for every slip, and the second ring makes it passable.

    horizon: 0 means 2 n.
    density: the probability of a pit on each cell inside the free rings, drawn with `seed`. Negative means the usual
    field: five fixed pits for n = 5, else density 0.15.
    """
    holes = _holes(n, density, seed)
    transition, layout = grid_transitions(np.ones_like(holes), holes, slip, ACTIONS)
    reward = np.zeros((n * n, len(ACTIONS)))
    reward[-1] = 1.0
    field = FiniteMDP(
        transition,
        reward,
        holes.ravel(),
        horizon or 2 * n,
        start=0,
        restart=~holes.ravel() / np.count_nonzero(~holes),
        name="pits-v0",
        state_names=cell_names(layout) if n <= NAMED else None,
        action_names=ACTIONS,
        layout=layout,
    )
    return close(field)


def _holes(n: int, density: float, seed: int) -> Bools:
    """[n, n] the cells that are pits."""
    holes = np.zeros((n, n), dtype=np.bool_)
    if density < 0 and n == 5:
        holes[tuple(zip(*PITS_OF_5, strict=True))] = True
    else:
        ring = 2 if n >= 7 else 1
        inner = holes[ring:-ring, ring:-ring]
        inner[:] = np.random.default_rng(seed).random(inner.shape) < (USUAL_DENSITY if density < 0 else density)
    return holes
