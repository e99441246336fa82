"""What the acting side knows itself of pairs that must not be tried again, applied to a plan that may be older.

Learning what an episode showed takes microseconds, planning takes long: the acting side keeps the sets of support
elimination up to date itself, and plays old plans inside them.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput


def masked(policy: Floats, allowed: Bools) -> Floats:
    """The policy inside the allowed actions: what is not allowed is left out, and what is left is scaled to sum to 1.

    policy: [H, S, A].  allowed: [1 or H, S, A], of an `EliminationState` that has learned every round so far.
    A state in which nothing is left of the policy takes the first allowed action; where none is allowed, the policy
    stays, since a reset can no longer be avoided for certain.

    Theorem. Where Assumption 1 holds, plans of any age that are played inside the sets of all rounds so far lead to no
    more resets than there are unsafe pairs; nothing need wait, not even after a reset.
    Proof. Inside W the masked policy takes no pair that S_{k-1} excludes, so that the proof of `delay.before_resets`
    applies with j = k - 1, whatever the plan rests on.

    >>> policy = np.array([[[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    >>> allowed = np.array([[[True, False, True], [True, False, True], [False, False, False]]])
    >>> masked(policy, allowed)[0].round(3).tolist()
    [[0.667, 0.0, 0.333], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    table = np.asarray(policy, dtype=np.float64)
    if table.ndim != 3 or allowed.shape[1:] != table.shape[1:] or len(allowed) not in (1, len(table)):
        raise InvalidInput(
            "A policy must be a table [H, S, A] to be masked, with sets [1 or H, S, A]. "
            f"Got {table.shape} and {allowed.shape} instead."
        )
    may = np.broadcast_to(allowed, table.shape)
    inside = np.where(may, table, 0.0)
    total = inside.sum(axis=2, keepdims=True)
    first = may & (may.cumsum(axis=2) == 1)
    with np.errstate(invalid="ignore"):
        kept = np.where(total > 0, inside / total, first)
    return np.asarray(np.where(may.any(axis=2, keepdims=True), kept, table))
