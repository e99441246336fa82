"""`ledge-v0`: as few states as one likes, an action that is always safe, and one that pays more and may fall."""

from __future__ import annotations

from typing import Annotated

from resetfree.core.settings import Range
from resetfree.problems.finite.checks import Horizon
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import STEP, Size, register
from resetfree.problems.zoo._tables import table_mdp

ACTIONS = ("careful", "hasty")


@register(
    "ledge-v0",
    "A ledge of a few places, where haste pays more and may fall: so small that proved bounds say something.",
    lambda places, horizon, fall: Size(6 * places, (STEP + 2 * places) * horizon),
)
def ledge(
    places: Annotated[int, Range(1, 1000)] = 1,
    horizon: Horizon = 1,
    fall: Annotated[float, Range(above=0, most=1)] = 0.5,
) -> FiniteMDP:
    """A step that is "careful" pays 0.5 and stays; "hasty" pays 1 and falls, or arrives at the next place.

    Never falling has the value H/2, and the best that a fall can bring is 0.5 in the last step, so that the multiplier
    is 0.5 / fall at every place.

    places: states outside the pit.  fall: the probability of a hasty fall.
    """
    names = [f"place {i}" for i in range(places)]
    moves: dict[tuple[str, str], dict[str, float]] = {}
    pay: dict[tuple[str, str], float] = {}
    for i, here in enumerate(names):
        after = {"pit": fall} | ({names[(i + 1) % places]: 1.0 - fall} if fall < 1 else {})
        moves |= {(here, "careful"): {here: 1.0}, (here, "hasty"): after}
        pay |= {(here, "careful"): 0.5, (here, "hasty"): 1.0}
    start = [1.0 / places] * places + [0.0]
    return table_mdp("ledge-v0", (*names, "pit"), ACTIONS, moves, pay, horizon=horizon, start=start)
