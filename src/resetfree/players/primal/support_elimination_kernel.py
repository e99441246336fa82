"""What can still be safe, given what was seen.

Legend: an edge (s, a, s') is observed or not; bad states are those whose entering was a reset; allowed[l, s, a] whether
s can still be safe and all observed successors of a can. One layer l for all steps (a life without end: greatest
fixpoint), or one per step (sets of an episode of H steps, backwards).
"""

from __future__ import annotations

import numpy as np

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts
from resetfree.problems.finite.backward import Bools


@jit
def _stays(c: Counts, layer: int, s: int, a: int, good: Bools) -> bool:
    for j in range(c.seen.shape[3]):
        if c.seen[layer, s, a, j] == 0:
            return True
        if not good[c.successor[layer, s, a, j]]:
            return False
    return True


@jit
def endless_sets(c: Counts, allowed: Bools) -> None:
    """Greatest fixpoint: s is inside iff it is not bad and some action has all its observed successors inside."""
    n_states, n_actions = allowed.shape[1:]
    good = np.empty(n_states, dtype=np.bool_)
    for s in range(n_states):
        good[s] = not (c.known[s] or c.known_last[s])
    changed = True
    while changed:
        changed = False
        for s in range(n_states):
            if good[s]:
                some = False
                for a in range(n_actions):
                    allowed[0, s, a] = _stays(c, 0, s, a, good)
                    some = some or allowed[0, s, a]
                if not some:
                    good[s] = False
                    changed = True
    for s in range(n_states):
        if not good[s]:
            allowed[0, s] = False


@jit
def episode_sets(c: Counts, n_transitions: int, allowed: Bools) -> None:
    """The sets of each step of an episode: successors at the end must not be bad there, before that be inside."""
    horizon, n_states, n_actions = allowed.shape
    good, after = np.empty(n_states, dtype=np.bool_), np.empty(n_states, dtype=np.bool_)
    for s in range(n_states):
        after[s] = not c.known_last[s]
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        for s in range(n_states):
            some = False
            for a in range(n_actions):
                allowed[h, s, a] = h >= n_transitions or _stays(c, layer, s, a, after)
                some = some or allowed[h, s, a]
            good[s] = some and not c.known[s]
            if not good[s]:
                allowed[h, s] = False
        if h < n_transitions:
            after[:] = good
