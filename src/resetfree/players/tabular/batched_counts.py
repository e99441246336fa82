"""What was seen of a finite problem, as counts: enough for one-hot features and for the players on counts.

Legend: L layers of data (1 if pooled over the steps, else H), W listed successors, rows last. Where rewards are no
noise their sum is tries times reward and is not stored; where a pair has one successor its moves are its tries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.players.batched.rollout import Path
from resetfree.players.batched.tables import Shape, Tables, layer, summed, take


class CountRows(NamedTuple):
    """How often what was seen."""

    tried: Any  # [L, A, S, rows] int32
    seen: Any  # [L, A, W, S, rows] int32, or None: as tried
    earned: Any  # [L, A, S, rows], or None: tries times reward
    known: Any  # [S, rows] states whose entering was a reset
    known_last: Any  # [S, rows] likewise at the end of an episode


def no_counts(shape: Shape, n_layers: int, rows: int) -> CountRows:
    """Nothing seen, on the host."""
    S, pairs = shape.n_states, (n_layers, shape.n_actions)
    return CountRows(
        np.zeros((*pairs, S, rows), dtype=np.int32),
        np.zeros((*pairs, shape.n_successors, S, rows), dtype=np.int32) if shape.counts_moves else None,
        np.zeros((*pairs, S, rows)) if shape.noise != "none" else None,
        np.zeros((S, rows), dtype=np.bool_),
        np.zeros((S, rows), dtype=np.bool_),
    )


def count(shape: Shape, c: CountRows, path: Path) -> CountRows:
    """Add the steps that were taken."""
    n_layers, A, S, rows = c.tried.shape
    W = shape.n_successors
    kind = jnp.int64 if n_layers * A * W * S * rows >= 2**31 else jnp.int32
    row, step = jnp.arange(rows, dtype=kind), jnp.arange(shape.horizon, dtype=kind)[:, None]
    pair = path.action.astype(kind) + (step * A if n_layers > 1 else 0)
    where = (pair * S + path.state) * rows + row
    tried = _added(c.tried, where, path.taken, n_layers > 1)
    seen, earned = c.seen, c.earned
    if seen is not None:
        seen = _added(seen, ((pair * W + path.slot) * S + path.state) * rows + row, path.moved, n_layers > 1)
    if earned is not None:
        pay = jnp.where(path.taken, path.reward, 0.0)
        if n_layers > 1:
            earned = _added(earned, where, pay, True)
        else:  # steps may meet, and the order in which numbers are added is kept
            for h in range(shape.horizon):
                earned = _added(earned, where[h], pay[h], True)
    return CountRows(tried, seen, earned, *learn_resets(shape, c.known, c.known_last, path))


def _added(table: Array, where: Array, what: Array, unique: bool) -> Array:
    """Add at flat places; `unique` where no two of them are the same."""
    flat = (
        table.reshape(-1)
        .at[where]
        .add(what.astype(table.dtype), mode="promise_in_bounds", unique_indices=unique, wrap_negative_indices=False)
    )
    return flat.reshape(table.shape)


def learn_resets(shape: Shape, known: Array, known_last: Array, path: Path) -> tuple[Array, Array]:
    """Remember the state in which an episode was reset; a reset at its end may show nothing about other steps."""
    here = (jnp.arange(shape.n_states, dtype=jnp.int32)[:, None] == path.last) & path.reset
    sure = here & (path.steps < shape.n_transitions) if shape.end_resets else here
    return known | sure, known_last | here


def tries(c: CountRows, h: Any) -> list[Array]:
    """[S, rows] per action."""
    table = layer(c.tried, h)
    return [table[a].astype(jnp.float64) for a in range(len(table))]


def earnings(tables: Tables, c: CountRows, h: Any) -> list[Array]:
    """Sum of rewards, [S, rows] per action."""
    if c.earned is not None:
        table = layer(c.earned, h)
        return [table[a] for a in range(len(table))]
    pay = layer(tables.reward, h)
    return [n * pay[a][:, None] for a, n in enumerate(tries(c, h))]


def over_successors(tables: Tables, c: CountRows, h: Any, *values: Array) -> list[list[Array]]:
    """sum_t N(s, a, t) V(t) for each V [S, rows]: per V and per action [S, rows].

    Learners know no successor list; one that was never seen has count zero, so this is the sum over what was seen.
    """
    successor = layer(tables.successor, h)  # [A, W, S]
    seen = layer(c.seen, h) if c.seen is not None else layer(c.tried, h)[:, None]  # [A, W, S, rows]
    n_actions, width = successor.shape[:2]

    def total(a: int, v: Array) -> Array:
        return summed(width, lambda j: seen[a, j] * take(v, successor[a, j]))

    return [[total(a, v) for a in range(n_actions)] for v in values]
