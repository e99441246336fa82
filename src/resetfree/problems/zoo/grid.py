"""`grid-v0`: the default problem, twelve cells, two pits in the middle, a near small reward and a far large one."""

from __future__ import annotations

import numpy as np

from resetfree.core.settings import Fraction
from resetfree.problems.finite.grids import MOVES, cell_names, grid_transitions
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import register
from resetfree.problems.zoo._options import STEP, Horizon

ROWS = ("S..G", ".XX.", "g..S")
ACTIONS = tuple(MOVES)


@register(
    "grid-v0",
    "Twelve cells with two pits: the large reward is reached only along their edge, on slippery ground.",
    lambda slip, horizon: (60 + STEP) * horizon,
)
def grid(slip: Fraction = 0.2, horizon: Horizon = 8) -> FiniteMDP:
    """Rows `S..G / .XX. / g..S`: X reset, G pays 1 and g pays 0.3 for acting there, start and restart uniform on S."""
    cells = np.array([list(row) for row in ROWS])
    pits = cells == "X"
    transition, layout = grid_transitions(np.ones_like(pits), pits, slip, ACTIONS)
    pay = np.where(cells == "G", 1.0, np.where(cells == "g", 0.3, 0.0)).ravel()
    homes = (cells == "S").ravel()
    return FiniteMDP(
        transition,
        np.repeat(pay[:, None], len(ACTIONS), axis=1),
        pits.ravel(),
        horizon,
        start=homes / homes.sum(),
        name="grid-v0",
        state_names=cell_names(layout),
        action_names=ACTIONS,
        layout=layout,
    )
