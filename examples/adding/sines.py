"""The sine and the cosine of every number in a state: bounded, and good for angles."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.features import FeatureMap, Features

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SineFeatures(Features):
    """psi(s) = (sin(f s), cos(f s)) / sqrt(D), so that |psi(s)| = 1."""

    entries: int  # D, numbers in a state
    frequency: float

    @property
    def dimension(self) -> int:
        """Two per number."""
        return 2 * self.entries

    @property
    def norm_bound(self) -> float:
        """It is 1 for every state."""
        return 1.0

    def __call__(self, states: Floats) -> Floats:
        """Psi [n, 2 D] of states [n, D]."""
        angles = self.frequency * np.asarray(states, dtype=np.float64)
        features: Floats = np.hstack([np.sin(angles), np.cos(angles)]) / np.sqrt(self.entries)
        return features


@dataclass(frozen=True)
class Sines(FeatureMap):
    """Nothing is learned from the states that were seen."""

    name: ClassVar[str] = "sines"
    frequency: float = 1.0

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> SineFeatures:
        """The features for states with bounds low, high [D]."""
        return SineFeatures(len(low), self.frequency)
