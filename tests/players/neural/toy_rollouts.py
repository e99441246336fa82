"""Models of a machine by hand, in which lives can be computed on paper."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from resetfree.players.neural.skip_policy import first_actor
from resetfree.players.neural.world_model import NetworkModel, RolloutBatch, RolloutConfig, fresh_critics, fresh_model


def f32(*numbers: Any) -> Any:
    return np.array(numbers, dtype=np.float32)


def toy(*changes: float, reset_classifier: Any = (-20.0, 0.0, 0.0, 0.0, 0.0), push: float = 0.0) -> NetworkModel:
    """D = 2, A = 1: members that each move z_0 by a constant, and all of them by push a; every step earns 1."""
    model: NetworkModel = fresh_model(2, 1, 16, len(changes), np.random.default_rng(0))["model"]
    layers = jax.tree.map(np.zeros_like, model.layers)
    layers[-1][1][:, 0, 0], layers[-1][1][:, 0, 3:] = changes, -99.0
    line = np.zeros((4, 3), dtype=np.float32)
    line[3, 0], line[0, 2] = push, 1.0
    ends = {"smallest": f32(-9, -9, -9), "largest": f32(9, 9, 9), "least": f32(-9, -9), "most": f32(9, 9)}
    return model._replace(layers=layers, line=line, reset_classifier=f32(*reset_classifier), **ends)


def idle(hidden: int = 8) -> Any:
    return first_actor(np.zeros((1, 3)), hidden, np.random.default_rng(1))


def toy_batch(
    model: NetworkModel, lam: float, starts: Any = ((0.0, 0.0),) * 8, discount: float = 1.0 - 1e-6
) -> RolloutBatch:
    """Without caution and noise."""
    zero, seed = np.float32(0.0), np.uint32(1)
    config = RolloutConfig(caution=zero, noise=zero, discount=np.float32(discount), seed=seed)
    return RolloutBatch(model, f32(*starts), np.full(len(starts), lam, np.float32), config)


def nothing_beyond() -> Any:
    """Critics that say 0 of everything."""
    critics = jax.tree.map(np.zeros_like, fresh_critics(2, 4, np.random.default_rng(0))["critics"])
    critics[-1][1][:] = -99.0
    return critics
