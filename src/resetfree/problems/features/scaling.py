"""What all feature maps need: checked states, states on one scale, and features that are computed row by row.

Legend: z = (s - centre) / scale, about in [-1, 1] for the states seen; centre, scale [D].
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from resetfree.core import Floats, InvalidInput, expect, require
from resetfree.problems.features import Features

MOST_FEATURES = 2000  # a linear player has a square matrix of this size for each action
FARTHEST = 1e100  # states are clipped to this, so that squared distances do not overflow


class Compiled(Features):
    """Features computed by compiled code; one state costs a few microseconds."""

    name = "feature map"  # in messages

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """The length D of a state, and the number d of features."""

    @property
    def dimension(self) -> int:
        """The number d of features."""
        return self.sizes[1]

    @abstractmethod
    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi [n, d] into `out`; False if a state holds a nan."""

    def __call__(self, states: Floats) -> Floats:
        """Psi [n, d] of states [n, D]."""
        states = np.ascontiguousarray(states, dtype=np.float64)
        width, d = self.sizes
        if states.ndim != 2 or states.shape[1] != width:
            raise InvalidInput(f"States for {self.name} must have shape [n, {width}]. Got {states.shape} instead.")
        out = np.empty((len(states), d))
        if not self.fill(states, out):
            raise InvalidInput(f"A state for {self.name} must hold numbers. Got one with a nan instead.")
        return out


class Shares(Compiled):
    """Features that are not negative, with |psi(s)| <= 1; each map explains why."""

    @property
    def norm_bound(self) -> float:
        """The bound 1."""
        return 1.0

    @property
    def non_negative(self) -> bool:
        """True: no feature is negative."""
        return True


def affordable(d: int, D: int, name: str, advice: str) -> None:
    """Raise InvalidInput for a dimension that is too large for linear players.

    advice: what to do instead, the end of the message.
    """
    if d > MOST_FEATURES:
        size = str(d) if d < 10**9 else f"{float(d):.1e}"
        raise InvalidInput(
            f"The feature map {name} must have at most {MOST_FEATURES} features. Got {size} for states of {D} numbers "
            f"instead: {advice}."
        )


def seen(states: Floats, low: Floats, high: Floats, name: str) -> tuple[Floats, Floats, Floats]:
    """The states and bounds for a map's `fit` as arrays; raises InvalidInput."""
    states, low, high = (np.asarray(x, dtype=np.float64) for x in (states, low, high))
    good = low.ndim == 1 and len(low) and low.shape == high.shape and (low <= high).all()
    expect(good, f"bounds for {name}", "be numbers of one shape [D] with low <= high", (low.tolist(), high.tolist()))
    shaped = states.ndim == 2 and states.shape[1] == len(low)
    expect(shaped, f"states for {name}", f"be numbers of shape [n, {len(low)}]", got=f"shape {states.shape}")
    expect(not np.isnan(states).any(), f"states for {name}", "be numbers", got="one with a nan")
    return np.clip(states, -FARTHEST, FARTHEST), low, high


REACH = 1e6  # z is clipped to it, so that nothing overflows
WIDEST = 1e30  # bounds farther apart than this count as none
STILL = 1e-12  # a coordinate whose relative spread is below this never changed
PAIRS = 2000  # distances whose median is taken


@dataclass
class Scaling:
    """z = (s - centre) / scale, clipped to [least, most]."""

    centre: Floats  # [D]
    scale: Floats  # [D], positive
    least: float = -REACH
    most: float = REACH

    def check_loaded(self) -> None:
        """Raise InvalidInput unless scales are positive."""
        require((self.scale > 0).all() and self.least <= self.most, "scales of states must be positive")

    @property
    def ends(self) -> tuple[float, float]:
        """The interval that z is clipped to."""
        return self.least, self.most

    def __call__(self, states: Floats) -> Floats:
        """Z [n, D] of states [n, D]."""
        with np.errstate(over="ignore"):  # overflows are clipped
            return np.clip((states - self.centre) / self.scale, self.least, self.most)


def has_bounds(low: Floats, high: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[D] the coordinates that have finite bounds on both sides."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.isfinite(low) & np.isfinite(high) & (high > low) & (high - low < WIDEST))


def fit_scaling(states: Floats, low: Floats, high: Floats) -> Scaling:
    """A scaling of the states seen to about [-1, 1]; by the bounds if there are no states.

    A coordinate that never changed has the scale of its bounds, or 1.
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
    """[D] two different finite ends of every coordinate: its bounds, else the least and the greatest value seen.

    A coordinate without bounds that never changed gets an interval around its value.
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
    """A scaling of the ends of `fit_ends` to [least, 1], with least 0 or -1; states outside are clipped."""
    left, right = fit_ends(states, low, high)
    if least == 0.0:
        return Scaling(left, right - left, 0.0, 1.0)
    return Scaling(left + (right - left) / 2, (right - left) / 2, -1.0, 1.0)


def median_distance(z: Floats, rng: np.random.Generator) -> float:
    """The median of |z_i - z_j| over random pairs that differ; without any, that of a cube [-1, 1]^D."""
    if len(z) > 1:
        i, j = rng.integers(0, len(z), size=(2, PAIRS))
        distance = np.sqrt(((z[i] - z[j]) ** 2).sum(axis=1))
        if distance.any():
            return float(np.median(distance[distance > 0]))
    return float(np.sqrt(2.0 * z.shape[1] / 3.0))
