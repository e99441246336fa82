"""Counts in which moves that were never tried are those of other places: what to plan the search for a reward with.

As long as all rewards were the same, there is nothing to gain but to find another one, and that is most likely where
one never was. So pairs of visited states that were not tried yet are filled in with the effects of their action
elsewhere, and only states that were never visited promise anything. As soon as rewards differ, or if nothing is left
to visit, the counts are used as they are: an effect that is wrong somewhere can delay what is found, not prevent it.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.players.elimination.landings import Landings
from resetfree.players.tabular.count_players import TIE, CountState
from resetfree.players.tabular.counts import Counts

OFTEN = 1000  # times that an effect counts as seen: no bonus to speak of


def mean_pay(data: CountState) -> Floats:
    """What each pair that was tried paid on average."""
    tried = data.tried > 0
    return np.asarray(data.earned[tried] / data.tried[tried])


def all_alike(data: CountState) -> bool:
    """Whether all pairs that were tried pay the same, on average."""
    pay = mean_pay(data)
    return bool(len(pay) == 0 or pay.max() - pay.min() <= TIE)


def filled(data: CountState, landings: Landings, visited: Bools) -> tuple[Counts, float] | None:
    """The counts, and the value of finding nothing, where all pairs pay alike; None if nothing can be filled in."""
    tried = data.tried > 0
    usual = float(data.earned.sum() / max(data.tried.sum(), 1))
    effects = landings.ways.any(axis=1)
    states, actions = np.nonzero(~tried[0] & (visited & landings.placed & ~data.known)[:, None] & effects)
    if len(states) == 0:
        return None
    width = max(data.seen.shape[3], landings.ways.shape[1])
    shape = (*data.seen.shape[:3], width)
    successor, seen = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int64)
    successor[..., : data.seen.shape[3]], seen[..., : data.seen.shape[3]] = data.successor, data.seen
    # Effects that an action has are put in front: kernels read successors until one has no times.
    order = np.argsort(-landings.ways, axis=1, kind="stable")
    for a in np.flatnonzero(effects).tolist():
        here, ways = states[actions == a], order[a][landings.ways[a, order[a]] > 0.0]
        successor[0, here, a, : len(ways)] = landings.target[ways][:, here].T
        seen[0, here, a, : len(ways)] = np.maximum(1, np.rint(OFTEN * landings.ways[a, ways])).astype(np.int64)
    pairs = (0, states, actions)
    times, earned, moved = data.tried.copy(), data.earned.copy(), data.moved.copy()
    moved[pairs] = seen[pairs].sum(axis=1)
    times[pairs] = moved[pairs]
    earned[pairs] = usual * times[pairs]
    counts = Counts(times, earned, moved, successor, seen, data.known, data.known_last)
    return counts, usual * data.horizon
