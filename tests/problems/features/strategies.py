"""Random states, bounds and settings for every feature map."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from resetfree.problems.features import FeatureMap, discover
from resetfree.problems.features.basis import FourierBasis, Polynomial, RadialBasis, RandomFourier
from resetfree.problems.features.partitions import Aggregation, Simplex, TileCoding

Floats = NDArray[np.float64]
examples = settings(derandomize=True, max_examples=60, database=None)  # the first one compiles

# Every map as it comes, and with settings that lead elsewhere.
MAPS: list[FeatureMap] = [cls() for cls in discover().values()] + [
    Aggregation(cells=3),
    Aggregation(cells=1),
    FourierBasis(order=2, mixed=30),
    Polynomial(degree=0),
    Polynomial(degree=4),
    RadialBasis(d=7, normalised=True),
    RadialBasis(d=1),
    RadialBasis(d=30, width=1e-4, normalised=True),
    RandomFourier(d=1),
    RandomFourier(d=7, bandwidth=1e-6),
    Simplex(nodes=2),
    Simplex(nodes=5),
    TileCoding(tilings=3, tiles=1),
    TileCoding(tilings=5, tiles=6, at_most=77),
]


class World(NamedTuple):
    """States that were seen, bounds, and states that are asked for."""

    seen: Floats  # [n, D]
    low: Floats  # [D]
    high: Floats  # [D]
    asked: Floats  # [m, D], some far outside


@st.composite
def worlds(draw: st.DrawFn, most: int = 6, D: int | None = None) -> World:
    """Few or many states, coordinates that never change, whole numbers, bounds of every kind."""
    D = draw(st.integers(1, most)) if D is None else D
    n = draw(st.sampled_from([0, 1, 2, 3, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = 10.0 ** rng.integers(-6, 7, D)
    seen: Floats = rng.normal(size=(n, D)) * scale + rng.normal(size=D) * scale * rng.integers(0, 2, D)
    low, high = np.full(D, -np.inf), np.full(D, np.inf)
    for k in range(D):
        kind = draw(st.sampled_from(["free", "still", "bounded", "whole", "half", "huge", "point"]))
        if kind == "still":
            seen[:, k] = seen[:1, k]
        elif kind == "bounded":
            low[k], high[k] = -2.0 * scale[k], 3.0 * scale[k]
            seen[:, k] = np.clip(seen[:, k], low[k], high[k])
        elif kind == "whole":
            low[k], high[k] = 0.0, float(rng.integers(1, 5))
            seen[:, k] = rng.integers(0, int(high[k]) + 1, n)
        elif kind == "half":
            low[k] = 0.0
            seen[:, k] = np.abs(seen[:, k])
        elif kind == "huge":
            low[k], high[k] = -3.4e38, 3.4e38
        elif kind == "point":
            low[k] = high[k] = scale[k]
            seen[:, k] = scale[k]
    near = rng.normal(size=(5, D)) * scale
    far = rng.normal(size=(5, D)) * 10.0 ** rng.uniform(0, 300, (5, D))
    edges = np.clip(np.stack([low, high, np.full(D, np.inf), np.full(D, -np.inf), np.zeros(D)]), -1e308, None)
    return World(seen, low, high, np.concatenate([seen, near, far, edges]))


def fitted(features: FeatureMap, world: World, seed: int = 0) -> Any:
    return features.fit(world.seen, world.low, world.high, seed)
