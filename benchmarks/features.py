"""`python benchmarks/features.py`: measures how well each map approximates functions of states.

Legend: f a function of states; its error is |f - psi.w| / |f - mean of f| in root mean square on fresh states, with w
the ridge regression of f on states seen: 0 is exact, 1 is as bad as a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.problems.features import FeatureMap, discover
from resetfree.problems.features.basis import RadialBasis, RandomFourier

SEEN = 2000  # states for the fit, and as many fresh ones
RIDGE = 1e-6


@dataclass(frozen=True)
class Target:
    """A function of states, and the distribution of states."""

    title: str
    D: int
    bounded: bool  # uniform in [-1, 1]^D with bounds known, else normal of different scales with no bounds
    f: Callable[[Floats], Floats]  # of states on one scale

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Random states [n, D] and their values f [n]."""
        if self.bounded:
            states = rng.uniform(-1.0, 1.0, size=(n, self.D))
            return states, self.f(states)
        z = rng.normal(size=(n, self.D))
        return z * 10.0 ** np.linspace(-2.0, 2.0, self.D), self.f(z)

    @property
    def high(self) -> Floats:
        """Upper bounds [D]; the lower ones are their negatives."""
        return np.full(self.D, 1.0 if self.bounded else np.inf)


WAVE = np.array([1.0, 0.5, -0.5, 0.2])
TARGETS = [
    Target("smooth, 2 numbers", 2, True, lambda x: np.sin(2 * x[:, 0]) + x[:, 0] * np.cos(3 * x[:, 1])),
    Target("edge, 2 numbers", 2, True, lambda x: np.where(x[:, 0] + x[:, 1] / 2 > 0.3, 1.0, 0.0)),
    Target("smooth, 4 numbers", 4, False, lambda x: np.sin(x @ WAVE) + 0.3 * x[:, 0] * x[:, 3]),
    Target("edge, 4 numbers", 4, False, lambda x: np.where(np.abs(x[:, :2]).max(axis=1) < 1, 1.0, 0.0)),
    Target("smooth, 10 numbers", 10, False, lambda x: np.tanh(x[:, 0] + x[:, 1] * x[:, 2] / 2) + x[:, 3:].sum(1) / 5),
]


def error(features: FeatureMap, target: Target, seed: int = 0) -> tuple[int, float]:
    """The dimension d, and the error of the regression on fresh states."""
    rng = np.random.default_rng(seed)
    states, y = target.draw(SEEN, rng)
    fresh, truth = target.draw(SEEN, rng)
    psi = features.fit(states, -target.high, target.high, seed)
    x = psi(states)
    mean = y.mean()
    w = np.linalg.solve(x.T @ x + RIDGE * np.eye(psi.dimension), x.T @ (y - mean))
    return psi.dimension, float(np.sqrt(((psi(fresh) @ w - (truth - mean)) ** 2).mean()) / truth.std())


def kernel_error(d: int, seed: int = 0) -> tuple[float, float]:
    """The root mean square and the largest of |psi(s).psi(t) - k(s, t)| over pairs of 300 states of 4 numbers."""
    states = np.random.default_rng(seed).normal(size=(300, 4))
    psi = RandomFourier(d=d).fit(states, np.full(4, -np.inf), np.full(4, np.inf), seed)
    apart = ((states[:, None] - states) / psi.scaling.scale)[np.triu_indices(300, 1)]
    # The kernel's length is the ratio of the normal directions, drawn again by the same seed, to the weights.
    direction = np.random.default_rng([seed, d, 4]).normal(size=(4, (d + 1) // 2))
    length = direction[0, 0] / psi.weight[0, 0]
    exact = np.exp(-(apart**2).sum(axis=1) / (2.0 * length**2))
    x = psi(states)
    off = np.abs((x @ x.T)[np.triu_indices(300, 1)] - exact)
    return float(np.sqrt((off**2).mean())), float(off.max())


def maps() -> dict[str, FeatureMap]:
    """The maps to measure: every one with its defaults, and some with other settings."""
    found: dict[str, FeatureMap] = {name: cls() for name, cls in discover().items()}
    found["radial-basis, normalised"] = RadialBasis(normalised=True)
    found["radial-basis, d=300"] = RadialBasis(d=300)
    found["random-fourier, d=800"] = RandomFourier(d=800)
    return dict(sorted(found.items()))


def table() -> list[str]:
    """The errors as lines of Markdown."""
    lines = ["| map | " + " | ".join(target.title for target in TARGETS) + " |", "|---" * (len(TARGETS) + 1) + "|"]
    for name, features in maps().items():
        cells = []
        for target in TARGETS:
            try:
                cells.append("{1:.3f} ({0})".format(*error(features, target)))
            except InvalidInput:
                cells.append("refused")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def kernel_table() -> list[str]:
    """The errors of random Fourier features against the Gaussian kernel as lines of Markdown."""
    lines = ["| d | root mean square | largest | 1/sqrt(d) |", "|---|---|---|---|"]
    for d in (50, 200, 800):
        typical, largest = kernel_error(d)
        lines.append(f"| {d} | {typical:.3f} | {largest:.3f} | {d**-0.5:.3f} |")
    return lines


if __name__ == "__main__":
    print("\n".join([*table(), "", *kernel_table()]))
