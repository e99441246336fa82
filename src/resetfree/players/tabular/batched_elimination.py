"""What can still be safe, given what was seen, for many rows at once: `support_elimination`, rows last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from resetfree.players.batched.rollout import over_steps
from resetfree.players.batched.tables import Shape, Tables, layer, take
from resetfree.players.tabular.batched_counts import CountRows


def _stays(tables: Tables, c: CountRows, h: Any, good: Array) -> Array:
    """[A, S, rows] whether all successors seen of a pair are good [S, rows]."""
    successor = layer(tables.successor, h)  # [A, W, S]
    seen = layer(c.seen, h) if c.seen is not None else layer(c.tried, h)[:, None]
    return jnp.all((seen == 0) | take(good, successor), axis=1)


def endless_sets(tables: Tables, c: CountRows, allowed: Array) -> Array:
    """Greatest fixpoint, from the last one: what is seen only grows, so the new one lies inside it."""

    def narrower(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        good, _, _ = state
        may = _stays(tables, c, 0, good) & good
        left = jnp.any(may, axis=0)
        return left, may, jnp.any(left != good)

    good = jnp.any(allowed[0], axis=0) & ~(c.known | c.known_last)
    good, may, _ = jax.lax.while_loop(lambda s: s[2], narrower, (good, allowed[0], jnp.asarray(True)))
    return may[None]


def episode_sets(shape: Shape, tables: Tables, c: CountRows) -> Array:
    """The sets of each step of an episode: successors at the end must not be bad there, before that be inside."""

    def step(after: Array, h: Any) -> tuple[Array, Array]:
        moves = jnp.asarray(h) < shape.n_transitions
        may = ~moves | _stays(tables, c, h, after)
        good = jnp.any(may, axis=0) & ~c.known
        return jnp.where(moves, good, after), may & good

    _, allowed = over_steps(step, ~c.known_last, shape, reverse=True)
    return jnp.stack(allowed) if shape.unrolled else allowed
