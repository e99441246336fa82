"""Proximal policy optimisation as one compiled program: many gradient steps on minibatches (extra neural).

Legend: x an action before tanh, normal with mean m(s) and deviation e^log; old its log density under the policy that
played it (the derivative of tanh is the same in both, and cancels in their ratio); V the value network.
  loss  -min(w A, clip(w, 1 - c, 1 + c) A) + v (V(s) - return)^2 - e entropy,  w = e^(new - old),  A the advantage
"""

from __future__ import annotations

from math import log, pi
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from resetfree.players.neural.networks import LEAST_LOG, MOST_LOG, forward, orthogonal_layers

LARGEST_LOG_RATIO = 20.0
NETWORKS = ("actor", "log", "value")


class Clipping(NamedTuple):
    """Numbers that a gradient step depends on."""

    rate: Any
    clip: Any  # c
    value_weight: Any  # v
    entropy_weight: Any  # e
    largest_gradient: Any  # norm to which the gradient of all networks is cut


class Played(NamedTuple):
    """Steps that the policy itself has played, the same leading axes in each field."""

    state: Any  # [..., D]
    x: Any  # [..., A]
    old: Any  # [...]
    advantage: Any  # [...]
    wanted: Any  # [...] the return that the value network is to predict


def _optimiser(rate: Any, largest: Any) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(largest), optax.adam(rate, eps=1e-5))


def fresh_policy_gradient(size: int, n_actions: int, hidden: int, rng: np.random.Generator) -> dict[str, Any]:
    """Networks before the first step, and their optimiser; size: D."""
    networks = {
        "actor": orthogonal_layers((size, hidden, hidden, n_actions), rng, last=0.01),
        "log": np.zeros(n_actions, dtype=np.float32),
        "value": orthogonal_layers((size, hidden, hidden, 1), rng, last=1.0),
    }
    return {**networks, "steps": _optimiser(0.0, 0.0).init(networks)}


def clipped_loss(networks: dict[str, Any], played: Played, how: Clipping) -> Any:
    """The loss on one minibatch, its advantages brought to mean 0 and deviation 1."""
    spread = jnp.clip(networks["log"], LEAST_LOG, MOST_LOG)
    z = (played.x - forward(networks["actor"], played.state, jnp.tanh)) * jnp.exp(-spread)
    new = (-0.5 * z**2 - spread - 0.5 * log(2.0 * pi)).sum(axis=-1)
    ratio = jnp.exp(jnp.clip(new - played.old, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    gain = (played.advantage - played.advantage.mean()) / (played.advantage.std(ddof=1) + 1e-8)
    near = jnp.clip(ratio, 1.0 - how.clip, 1.0 + how.clip)
    value = forward(networks["value"], played.state, jnp.tanh)[..., 0]
    entropy = (spread + 0.5 * log(2.0 * pi) + 0.5).sum()
    return (
        -jnp.minimum(ratio * gain, near * gain).mean()
        + how.value_weight * ((value - played.wanted) ** 2).mean()
        - how.entropy_weight * entropy
    )


@jax.jit
def climb(tree: dict[str, Any], minibatches: Played, count: Any, how: Clipping) -> dict[str, Any]:
    """The networks after the first `count` of the minibatches [n, B, ...]."""

    def one(i: Any, tree: dict[str, Any]) -> dict[str, Any]:
        networks = {name: tree[name] for name in NETWORKS}
        played = jax.tree.map(lambda field: field[i], minibatches)
        slope = jax.grad(clipped_loss)(networks, played, how)
        update, steps = _optimiser(how.rate, how.largest_gradient).update(slope, tree["steps"])
        return {**optax.apply_updates(networks, update), "steps": steps}

    return dict(jax.lax.fori_loop(0, count, one, tree))
