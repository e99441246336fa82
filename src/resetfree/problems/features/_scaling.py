"""States brought to one scale: what every feature map of vectors begins with.

Legend: z = (s - centre) / scale, about [-1, 1] where states are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from resetfree.core.state import require
from resetfree.problems.finite.transitions import Floats

REACH = 1e6  # z is cut there: farther states are all the same, and nothing overflows
WIDEST = 1e30  # bounds farther apart than this are written by those who mean none
STILL = 1e-12  # a coordinate whose relative spread is below this never changed
PAIRS = 2000  # distances whose median is taken


@dataclass
class Scaling:
    """z = (s - centre) / scale, cut to [least, most]."""

    centre: Floats  # [D]
    scale: Floats  # [D], positive
    least: float = -REACH
    most: float = REACH

    def check_loaded(self) -> None:
        """Scales are positive."""
        require((self.scale > 0).all() and self.least <= self.most, "scales of states must be positive")

    def __call__(self, states: Floats) -> Floats:
        """Z [n, D]."""
        with np.errstate(over="ignore"):  # what overflows is cut
            return np.clip((states - self.centre) / self.scale, self.least, self.most)


def has_bounds(low: Floats, high: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[D] which coordinates have bounds on both sides that mean something."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.isfinite(low) & np.isfinite(high) & (high > low) & (high - low < WIDEST))


def fit_scaling(states: Floats, low: Floats, high: Floats) -> Scaling:
    """From the states seen, so that they lie about in [-1, 1]; from the bounds where nothing was seen.

    A coordinate that never changed keeps the scale that its bounds give, or 1.
    """
    bounded = has_bounds(low, high)
    centre, scale = np.zeros(len(low)), np.ones(len(low))
    centre[bounded] = (low[bounded] + high[bounded]) / 2
    scale[bounded] = (high[bounded] - low[bounded]) / 2
    if len(states):
        mean, spread = states.mean(axis=0), states.std(axis=0)
        moved = spread > STILL * (1.0 + np.abs(mean))
        centre = np.where(moved | ~bounded, mean, centre)
        scale = np.where(moved, 2.0 * spread, scale)
    return Scaling(centre, scale)


def fit_ends(states: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """[D] two ends of every coordinate, apart and finite: its bounds, else the least and the greatest value seen.

    A coordinate without bounds that never changed gets an interval around where it is.
    """
    bounded = has_bounds(low, high)
    known = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    least, most = (states.min(axis=0), states.max(axis=0)) if len(states) else (known, known)
    least, most = np.where(bounded, low, least), np.where(bounded, high, most)
    with np.errstate(over="ignore"):
        still = ~bounded & ~(most - least > STILL * (1.0 + np.abs(least) + np.abs(most)))
    half = np.maximum(1.0, 1e-3 * np.abs(least))
    return np.where(still, least - half, least), np.where(still, most + half, most)


def fit_interval(states: Floats, low: Floats, high: Floats, least: float) -> Scaling:
    """The ends of `fit_ends` brought to [least, 1] with least 0 or -1; what lies outside is cut."""
    left, right = fit_ends(states, low, high)
    if least == 0.0:
        return Scaling(left, right - left, 0.0, 1.0)
    return Scaling(left + (right - left) / 2, (right - left) / 2, -1.0, 1.0)


def median_distance(z: Floats, rng: np.random.Generator) -> float:
    """The median of |z_i - z_j| over random pairs that differ; without any, what a cube [-1, 1]^D would give."""
    if len(z) > 1:
        i, j = rng.integers(0, len(z), size=(2, PAIRS))
        distance = np.sqrt(((z[i] - z[j]) ** 2).sum(axis=1))
        if distance.any():
            return float(np.median(distance[distance > 0]))
    return float(np.sqrt(2.0 * z.shape[1] / 3.0))
