"""The two rewards that a run is compared with: what is possible within an episode, and in the long run.

The paper's comparator is the best policy that is never reset, over one episode from where it begins. The other one has
for ever. A learner that stands in a poor place may earn all of the first and little of the second.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import NotCertifiable
from resetfree.core.readable import number
from resetfree.theory.oracle.dynamic_programming import Solution

LATE = 10  # the last such part of a run is what it had learned


class Possible(NamedTuple):
    """Rewards per episode of the best policies that are never reset; None where they are not known."""

    within_episode: float | None  # mean over the starts of the last tenth of the episodes
    long_run: float | None  # on average for ever, from the best of all places where an episode began


def possible(solution: Any, starts: NDArray[np.int64]) -> Possible:
    """What was possible in a run whose episodes began in these states.

    >>> import resetfree as rf
    >>> [round(one, 9) for one in possible(rf.solve(rf.make("grid-v0")), np.array([8] * 100))]  # on the small gold
    [2.4, 8.0]
    """
    if not isinstance(solution, Solution) or not len(starts):
        return Possible(None, None)
    within = float(np.mean(solution.value[starts[-max(1, len(starts) // LATE) :]]))
    try:
        found = solution.long_run.per_episode[np.unique(starts)]
    except NotCertifiable:
        found = np.full(1, np.nan)
    best = float(np.nanmax(found)) if not np.isnan(found).all() else None
    return Possible(None if np.isnan(within) else within, None if best is None else round(best, 12))


def in_words(reward: float, found: Possible) -> list[str]:
    """How much of what is possible a reward per episode is, as far as that is known.

    >>> in_words(2.4, Possible(2.4, 8.0))
    ['100 % of what is possible from there within an episode (2.4)', '30 % of what is possible in the long run (8)']
    """
    ways = (("from there within an episode", found.within_episode), ("in the long run", found.long_run))
    return [
        f"{100 * reward / best:.1f}".removesuffix(".0") + f" % of what is possible {way} ({number(best, 4)})"
        for way, best in ways
        if best is not None and best > 0
    ]
