"""Rare prizes: a few steps earn the same, and all others one and the same.

No smooth function fits such rewards: what it says elsewhere sums up to more than the prize. So it is expected where the
nearest known state won it.

Legend: z [D] a scaled state.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from resetfree.core.arrays import Bools, Floats

RARE = 0.05  # part of the steps up to which those that pay more than all others are a prize
LATEST = 50  # of them, near which a prize is expected
NEIGHBOURS = 10  # states beside each that paid, that decide how far it reaches
SOONER = 0.5  # how much more a prize at once counts than one at the end of a rollout


class Prize(NamedTuple):
    """Where a prize is expected."""

    near: cKDTree  # states that paid, then the nearest others
    n_paid: int
    height: float

    def wins(self, z: Floats) -> Bools:
        """[n] whether a step from z [n, D] is expected to win it."""
        return np.asarray(self.near.query(z)[1] < self.n_paid)


def prizes(earned: Floats) -> Bools:
    """[n] the steps that earned the same rare prize, where all others earned one and the same; else none.

    >>> [int(prizes(np.array([0.0] * 30 + more)).sum()) for more in ([1.0], [0.5, 1.0])]
    [1, 0]
    """
    won = np.asarray(earned == earned.max(initial=-np.inf))
    rest = earned[~won]
    return won & bool(len(rest) and rest.min() == rest.max() and won.sum() <= max(1.0, RARE * len(earned)))


def expected_prize(z: Floats, won: Bools, height: float) -> Prize | None:
    """Where a prize is expected after steps from z [n, D], some of which won it; None if none did."""
    if not won.any() or won.all():
        return None
    paid, others = z[won][-LATEST:], z[~won]
    beside = cKDTree(others).query(paid, k=min(NEIGHBOURS, len(others)))[1]
    return Prize(cKDTree(np.concatenate([paid, others[np.unique(beside)]])), len(paid), height)
