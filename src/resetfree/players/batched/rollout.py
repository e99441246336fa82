"""One episode of every row at once, from pre-drawn uniforms.

Legend: rows n last; `taken` whether a step was really taken (steps after a reset are not), `slot` which of the listed
successors came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri

from resetfree.players.batched.tables import Shape, Tables, at_state, layer, pick, take

C = TypeVar("C")


class Uniforms(NamedTuple):
    """The draws of an episode by purpose; None where they are not used."""

    action: Any  # [H, rows]
    move: Any  # [H, rows]
    noise: Any  # [H, rows]
    start: Any  # [rows]
    context: Any  # [rows]


class Turn(NamedTuple):
    """What a primal player's program plans for."""

    s1: Array  # [rows] starts
    lam: Array  # [rows] multipliers
    k: Array  # the round, from 1
    u: Uniforms


class Path(NamedTuple):
    """What happened in one episode."""

    state: Array  # [H, rows]
    action: Array  # [H, rows]
    slot: Array  # [H, rows]
    arrived: Array  # [H, rows] the state after the step (unchanged where the step does not move)
    taken: Array  # [H, rows]
    moved: Array  # [H, rows] taken, and not the last step of the literal boundary
    reward: Array  # [H, rows]
    last: Array  # [rows] last state seen
    reset: Array
    steps: Array
    total: Array  # sum of rewards
    next_start: Array


def over_steps(
    body: Callable[[C, Any], tuple[C, Any]], start: C, shape: Shape, *, reverse: bool = False
) -> tuple[C, Any]:
    """body(carry, h) for each step in turn; its results as lists (steps written out) or stacked arrays (a loop)."""
    steps = range(shape.horizon - 1, -1, -1) if reverse else range(shape.horizon)
    if not shape.unrolled:
        return jax.lax.scan(body, start, jnp.arange(shape.horizon, dtype=jnp.int32), reverse=reverse)
    results: list[Any] = []
    carry = start
    for h in steps:
        carry, result = body(carry, h)
        results.append(result)
    if reverse:
        results.reverse()
    return carry, jax.tree.map(lambda *parts: list(parts), *results, is_leaf=lambda x: x is None)


def fence(shape: Shape, values: C) -> C:
    """Where steps are unrolled, optimise each by itself: the compiler would compute much twice to save a kernel."""
    if not shape.unrolled:
        return values
    fenced: C = jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]
    return fenced


def offsets_of(shape: Shape, samples_actions: bool) -> dict[str, Sequence[int]]:
    """Which of an episode's uniforms are used, by purpose."""
    H = shape.horizon
    wanted = {
        "action": range(H) if samples_actions else range(0),
        "move": range(H, 2 * H) if shape.n_successors > 1 else range(0),
        "noise": range(2 * H, 3 * H) if shape.noise != "none" else range(0),
        "start": range(3 * H, 3 * H + 1),
        "context": range(3 * H + 1, 3 * H + 2) if shape.n_contexts > 1 else range(0),
    }
    return {name: list(offsets) for name, offsets in wanted.items()}


def by_purpose(u: Array, offsets: dict[str, Sequence[int]]) -> Uniforms:
    """The uniforms [n, rows] in the order of `offsets`."""
    found, begin = {}, 0
    for name, which in offsets.items():
        part = u[begin : begin + len(which)]
        found[name] = (part[0] if name in ("start", "context") else part) if len(which) else None
        begin += len(which)
    return Uniforms(**found)


def roll(shape: Shape, tables: Tables, actions: Any, s1: Array, u: Uniforms) -> Path:
    """Play the action tables [H][S, rows] from s1."""
    A, S = shape.n_actions, shape.n_states
    reward, successor = tables.reward.reshape(len(tables.reward), -1), tables.successor
    by_row = successor.transpose(0, 1, 3, 2).reshape(-1)  # [(layer, action, state, slot)]

    def body(carry: tuple[Array, ...], h: Any) -> tuple[tuple[Array, ...], tuple[Any, ...]]:
        s, taken, was_reset, steps, total = carry
        a = at_state(actions[h], s).astype(jnp.int32)
        pair = a * S + s
        pay = take(layer(reward, h), pair)
        if shape.noise == "bernoulli":
            pay = (u.noise[h] < pay).astype(jnp.float64)
        elif shape.noise == "gaussian":
            pay = pay + tables.deviation * ndtri(jnp.clip(u.noise[h], 1e-16, 1 - 1e-16))
        row = pair + (h * (A * S) if len(successor) > 1 else 0)
        if shape.n_successors > 1:
            slot = pick(tables.move, shape.n_successors, row, u.move[h])
            arrived = take(by_row, row * shape.n_successors + slot)
        else:
            slot, arrived = jnp.zeros_like(s), take(by_row, row)
        moves = taken & (h < shape.n_transitions)
        arrived = jnp.where(moves, arrived, s)
        bad = take(tables.reset, arrived)
        if shape.end_resets:
            bad = bad | (take(tables.last_reset, arrived) & (h == shape.n_transitions - 1))
        hit = moves & bad
        after = (arrived, taken & ~hit, was_reset | hit, steps + taken, total + jnp.where(taken, pay, 0.0))
        after, a = fence(shape, (after, a))
        return after, (s, a, slot, after[0], taken, moves, pay)

    nothing = jnp.zeros_like(s1)
    start: tuple[Array, ...] = (s1, nothing == 0, nothing > 0, nothing, nothing.astype(jnp.float64))
    (last, _, was_reset, steps, total), path = over_steps(body, start, shape)
    walked = (jnp.stack(part) if shape.unrolled else part for part in path)
    begin = next_start(shape, tables, last, was_reset, u)
    return Path._make((*walked, last, was_reset, steps, total, begin))


def next_start(shape: Shape, tables: Tables, last: Array, was_reset: Array, u: Uniforms) -> Array:
    """The last state, or a restart; a new context for it where there are contexts."""
    if shape.n_contexts == 1:
        return jnp.where(was_reset, pick(tables.restart, shape.n_states, jnp.zeros_like(last), u.start), last)
    n_base = shape.n_states // shape.n_contexts
    context = pick(tables.context, shape.n_contexts, last // n_base, u.context)
    base = jnp.where(was_reset, pick(tables.restart, n_base, context, u.start), last % n_base)
    return context * n_base + base
