"""Where a learned policy may act beside a controller: among the states that were safe so far, and a little beyond.

Counted states are those that were seen. States that are vectors lie in a box, and in the ellipsoid with the shape of
the cloud of safe states: a box alone has corners in which no state ever was, and from which no controller recovers.

Legend: D numbers in a state; C [D, D] the covariance of safe states, m their mean; |s - m|_C the Mahalanobis distance.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.state import require
from resetfree.problems.contract import Problem, State

MARGIN = 0.1  # share of its size by which a learned policy may leave the region of the states that were safe
UNSAFE = 20  # steps before a reset whose states do not count as safe
ROUND = 1e-4  # of each number's variance: what keeps C invertible where numbers depend on each other
EVEN = 1e-12


@dataclass
class SafeStates:
    """What is known of the states that were safe."""

    ends: NDArray[Any]  # bool [S], or a box [2, D]
    known: int = 0  # so many
    mean: Floats = field(default_factory=lambda: np.zeros(0))  # [D]
    squares: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # [D, D] sum of products of deviations
    farthest: float = 0.0  # the largest distance |s - m|_C of them

    @classmethod
    def none(cls, problem: Problem) -> "SafeStates":
        """Before any was seen."""
        n, d = problem.n_states, 0 if problem.low is None else len(problem.low)
        ends = np.zeros((2, d)) if n is None else np.zeros(n, dtype=np.bool_)
        return cls(ends, mean=np.zeros(d), squares=np.zeros((d, d)))

    def check_loaded(self) -> None:
        """Raise InvalidInput for what is no covariance."""
        require((np.diag(self.squares) >= 0.0).all() and self.farthest >= 0.0, "safe states must have a covariance")

    def see(self, states: NDArray[Any], *, reset: bool) -> None:
        """Take the states of an episode for safe, but those shortly before a reset."""
        safe = states[: max(len(states) - UNSAFE, 1)] if reset else states
        if self.ends.dtype == np.bool_:
            self.ends[safe] = True
        elif self.ends.shape[1]:
            ends = np.array([safe.min(axis=0), safe.max(axis=0)], dtype=np.float64)
            if self.known:
                ends = np.array([np.minimum(ends[0], self.ends[0]), np.maximum(ends[1], self.ends[1])])
            self.ends = ends
            self._add(np.asarray(safe, dtype=np.float64))
        self.known += len(safe)

    def _add(self, safe: Floats) -> None:
        n, total = len(safe), self.known + len(safe)
        mean = safe.mean(axis=0)
        apart, away = mean - self.mean, safe - mean
        self.squares = self.squares + away.T @ away + np.outer(apart, apart) * (self.known * n / total)
        self.mean = self.mean + apart * (n / total)
        distances = np.linalg.norm((safe - self.mean) @ self._whitening(total).T, axis=1)
        self.farthest = max(self.farthest, float(distances.max()))

    def _whitening(self, n: int) -> Floats:
        """[D, D] W with |W (s - m)| = |s - m|_C."""
        c = self.squares / max(n, 1)
        inner = c + np.diag(ROUND * np.diag(c) + EVEN)
        return np.asarray(np.linalg.inv(np.linalg.cholesky(inner)))

    def allowed(self) -> NDArray[Any]:
        """Where a learned policy may act: bool [S], or [3 + D, D] the ends of a box, m, and W / (how far it may go)."""
        if self.ends.dtype == np.bool_:
            return self.ends.copy()
        wider = MARGIN * (self.ends[1] - self.ends[0])
        box = np.array([self.ends[0] - wider, self.ends[1] + wider, self.mean])
        reach = (1.0 + MARGIN) * max(self.farthest, EVEN)
        return np.concatenate([box, self._whitening(self.known) / reach])


def within_region(region: NDArray[Any], s: State) -> bool:
    """Whether a state lies in what `allowed` gave; all do in one without axes.

    >>> safe = SafeStates(np.zeros((2, 2)), mean=np.zeros(2), squares=np.zeros((2, 2)))
    >>> safe.see(np.array([[-1.0, -1.0], [-0.5, -0.5], [0.5, 0.5], [1.0, 1.0]]), reset=False)
    >>> [within_region(safe.allowed(), np.array(s)) for s in ([1.0, 1.0], [1.05, 1.05], [1.2, 1.2], [1.0, -1.0])]
    [True, True, False, False]
    """
    if region.dtype == np.bool_:
        return bool(region[s])
    if not region.shape[1]:
        return True
    low, high, mean, whitening = region[0], region[1], region[2], region[3:]
    inside = bool((low <= s).all() and (s <= high).all())
    return inside and float(np.linalg.norm(whitening @ (s - mean))) <= 1.0
