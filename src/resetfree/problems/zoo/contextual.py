"""`contexts-v0`: the grid of `grid-v0` with a goal that moves from episode to episode."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Range
from resetfree.problems.finite.contexts import with_contexts
from resetfree.problems.finite.mdp import FiniteMDP, GridLayout
from resetfree.problems.registry import register
from resetfree.problems.zoo.grid import grid

GOALS = ("0,3", "2,3", "0,0", "2,1", "0,2", "1,0", "1,3", "0,1", "2,2", "2,0")  # the first is the goal of `grid-v0`


@register(
    "contexts-v0",
    "The grid of grid-v0 with a goal that changes with the context, in a cycle or at random.",
    lambda m, order: 1000 * m * m,
)
def contexts(m: Annotated[int, Range(1, len(GOALS))] = 3, order: Literal["cycle", "random"] = "cycle") -> FiniteMDP:
    """In context c acting in the c-th goal cell pays 1 (and the small reward of 0.3 stays where it is in `grid-v0`).

    order: "cycle" (the next episode has the next context) or "random" (any context, each equally likely).
    """
    base = grid()
    tasks = [base.replace(reward=_move_goal(base, goal)) for goal in GOALS[:m]]
    chain = np.roll(np.eye(m), 1, axis=1) if order == "cycle" else np.full((m, m), 1.0 / m)
    assert base.layout is not None
    return with_contexts(tasks, chain).replace(name="contexts-v0", layout=_side_by_side(base.layout, m))


def _move_goal(base: FiniteMDP, goal: str) -> Floats:
    reward = np.where(base.reward[0] == 1.0, 0.0, base.reward[0])
    reward[base.state_names.index(goal)] = 1.0
    return reward


def _side_by_side(layout: GridLayout, m: int) -> GridLayout:
    """One map per context, from left to right, with an empty column between two of them."""
    row, column = np.divmod(layout.cell, layout.n_cols)
    n_cols = m * (layout.n_cols + 1) - 1
    cells = [row * n_cols + column + c * (layout.n_cols + 1) for c in range(m)]
    return GridLayout(layout.n_rows, n_cols, np.concatenate(cells))
