"""Features that are not negative and sum to one: the weights of multilinear interpolation on a grid of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from resetfree.core.arrays import Floats
from resetfree.core.settings import Range
from resetfree.problems.features import FeatureMap
from resetfree.problems.features._checks import MOST_FEATURES, affordable, seen
from resetfree.problems.features._grid import OnGrid, fit_marks, per_coordinate
from resetfree.problems.features._kernels import interpolated

USUAL_SIZE = 300  # features at most if 'nodes' is None


@dataclass
class Weights(OnGrid):
    """psi(s): the interpolation weights of the nodes of the grid at s."""

    @property
    def sizes(self) -> tuple[int, int]:
        """D, and the nodes per coordinate to the power D."""
        return len(self.marks), int(self.marks.shape[1] ** len(self.marks))

    def fill(self, states: Floats, out: Floats) -> bool:
        """Write psi; see `Compiled`."""
        return interpolated(states, self.marks, out)


@dataclass(frozen=True)
class Simplex(FeatureMap):
    """psi(s) >= 0, |psi(s)|_1 = 1, |psi(s)|_2 <= 1, and functions that are linear in each coordinate are exact.

    So the norms that a linear MDP requires of phi hold with psi(s) in the block of an action: P(.|s,a) is a mixture of
    d distributions per action. Nodes are even between bounds, else at quantiles of the states seen; a state outside
    the grid has the features of the nearest one inside.

    nodes: per coordinate; None: up to 12, and at most 300 features in all, but at least two.

    >>> import numpy as np
    >>> psi = Simplex(nodes=3).fit(np.empty((0, 1)), np.zeros(1), np.ones(1), 0)
    >>> psi(np.array([[0.125], [0.5], [9.0]])).tolist()
    [[0.75, 0.25, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    name: ClassVar[str] = "simplex"
    nodes: Annotated[int, Range(2, MOST_FEATURES)] | None = None

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Weights:
        """Deterministic: `seed` is not used."""
        states, low, high = seen(states, low, high, self.name)
        D = len(low)
        n = per_coordinate(D, 2, 12, USUAL_SIZE) if self.nodes is None else self.nodes
        affordable(
            n**D, D, self.name, "lower its 'nodes', or take radial-basis with 'normalised', which also sums to one"
        )
        return Weights(fit_marks(states, low, high, n))
