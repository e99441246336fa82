"""Cosines of linear functions of a state, for both Fourier maps."""

from __future__ import annotations

from dataclasses import dataclass

from resetfree.core.arrays import Floats
from resetfree.problems.features._checks import Compiled
from resetfree.problems.features._kernels import cosines
from resetfree.problems.features._scaling import Scaling


@dataclass
class Cosines(Compiled):
    """psi(s) = amplitude cos(z W + b)."""

    scaling: Scaling
    weight: Floats  # [D, d] W
    phase: Floats  # [d] b
    amplitude: float
    bound: float  # on |psi(s)|, set by the map

    @property
    def sizes(self) -> tuple[int, int]:
        """D and d."""
        return len(self.weight), len(self.phase)

    @property
    def norm_bound(self) -> float:
        """The bound of the map."""
        return self.bound

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        at = self.scaling
        return cosines(states, at.centre, at.scale, at.ends, self.weight, self.phase, self.amplitude, out)
