"""Common parts of the feature maps: compiled features, and checks of sizes and states."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect
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
