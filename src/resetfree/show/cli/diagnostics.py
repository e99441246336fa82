"""Diagnostics of a run's settings from its columns, during or after the run; each is one sentence.

Legend: a stretch is the number of steps from a start or a reset to the next reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECENT = 12  # stretches that are used: earlier ones say little about the current policy
LEAST = 4  # fewer give no warning
FARTHER = 4  # times as far as now is the most that is advised: the time to plan grows with it


def steps_between_resets(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Steps between resets, over the ends of episodes: `steps` and `reset` of every round (`Run.columns`).

    >>> steps_between_resets({"steps": np.array([10, 4, 10, 10, 7]), "reset": np.array([0, 1, 0, 0, 1])}).tolist()
    [14, 27]
    """
    steps = np.asarray(columns["steps"], dtype=np.int64).cumsum()
    ends = steps[np.asarray(columns["reset"], dtype=np.bool_)]
    return np.diff(ends, prepend=0)


def past_horizon(columns: Mapping[str, NDArray[Any]], planning: int) -> str | None:
    """A warning if at least half of the last resets came later than the planning horizon, otherwise None.

    A danger beyond the planning horizon costs nothing in any plan: a cart may drift for 150 steps before it hits the
    rail. The last 12 stretches are used, if there are at least 4.

    planning: steps that the player plans ahead: its setting `planning`, or the horizon of an episode without one.

    >>> played = {"steps": np.full(60, 50), "reset": np.arange(60) % 3 == 2}
    >>> print(past_horizon(played, 50))
    12 of the last 12 resets came more than 50 steps after the one before (150 at the median), farther than plans look
    ahead: plan farther, for example with --set planning=200, which takes 4 times as long.
    >>> past_horizon(played, 150) is None
    True
    """
    recent = steps_between_resets(columns)[-RECENT:]
    late = recent[recent > planning]
    if len(recent) < LEAST or 2 * len(late) < len(recent):
        return None
    median = int(np.median(late))
    advised = min(2 * median, FARTHER * planning)
    return (
        f"{len(late)} of the last {len(recent)} resets came more than {planning} steps after the one before "
        f"({median} at the median), farther than plans look ahead: plan farther, for example with "
        f"--set planning={advised}, which takes {advised / planning:.2g} times as long."
    )
