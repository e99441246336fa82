"""A ring of cells with a pit."""

import numpy as np

import resetfree as rf
from resetfree.problems.registry import register


@register("ring-v0", "A ring of cells with one pit; the cell before the pit pays most.", lambda n, **_: 40 * n)
def ring(n: int = 8, slip: float = 0.1, horizon: int = 6) -> rf.FiniteMDP:
    """Go one cell back, stay, or go one cell on; with probability `slip` the agent stays."""
    if n < 2 or not 0 <= slip <= 1:
        raise rf.InvalidInput(f"The ring needs n >= 2 and 0 <= slip <= 1. Got n={n} and slip={slip} instead.")
    moves = [np.roll(np.eye(n), step, axis=1) for step in (-1, 0, 1)]
    transition = np.stack([(1 - slip) * move + slip * np.eye(n) for move in moves], axis=1)
    reward = np.repeat(np.arange(n)[:, None] / n, len(moves), axis=1)
    pit = np.arange(n) == n - 1
    return rf.FiniteMDP(transition, reward, pit, horizon, start=0, restart=0, name="ring-v0")
