"""Cosines of linear functions of a state: what the Fourier maps have in common."""

from __future__ import annotations

from dataclasses import dataclass

from resetfree.problems.features._checks import Compiled
from resetfree.problems.features._kernels import cosines
from resetfree.problems.features._scaling import Scaling
from resetfree.problems.finite.transitions import Floats


@dataclass
class Cosines(Compiled):
    """psi(s) = amplitude cos(z W + b)."""

    scaling: Scaling
    weight: Floats  # [D, d] W
    phase: Floats  # [d] b
    amplitude: float
    bound: float  # set by the map, which knows what the waves are

    @property
    def dimension(self) -> int:
        """How many features there are."""
        return len(self.phase)

    @property
    def width(self) -> int:
        """D."""
        return len(self.weight)

    @property
    def norm_bound(self) -> float:
        """What the map says."""
        return self.bound

    def fill(self, states: Floats, out: Floats) -> bool:
        """See `Compiled`."""
        at = self.scaling
        return cosines(
            states, at.centre, at.scale, at.least, at.most, self.weight, self.phase, self.amplitude, out
        )  # fmt: skip
