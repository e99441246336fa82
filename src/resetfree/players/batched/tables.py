"""A finite problem as arrays of fixed shape, seeds last: what every compiled pass reads.

Legend: S states, A actions, H steps, W successors at most, T layers of transitions (1 or H), R of rewards (1 or H),
m contexts. A pair is a * S + s. `Shape` is what a program is compiled for, `Tables` what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from resetfree.problems.finite.mdp import FiniteMDP

FEW = 8  # up to this many terms are unrolled, more are a reduction


@dataclass(frozen=True)
class Shape:
    """Sizes, and which parts a program needs at all."""

    horizon: int
    n_states: int
    n_actions: int
    n_successors: int  # W
    n_transitions: int
    n_contexts: int
    noise: str  # "none", "bernoulli" or "gaussian"
    end_resets: bool
    unrolled: bool  # whether the steps of an episode are unrolled, or a loop

    @property
    def n_uniforms(self) -> int:
        """Draws per episode, as in `FiniteProblem`: actions, transitions, noise, start, context."""
        return 3 * self.horizon + 2

    @property
    def counts_moves(self) -> bool:
        """Whether successors must be counted: with one successor and a transition at every step tries suffice."""
        return self.n_successors > 1 or self.n_transitions < self.horizon


class Draw(NamedTuple):
    """Distributions by inverse cumulative sums: rows padded with infinity to a power of two."""

    cumulative: Any  # [rows * P]
    last: Any  # [rows] what rounding at the end falls on


class Tables(NamedTuple):
    """The arrays of a finite model, states and rows last."""

    move: Draw  # rows T * A * S
    successor: Any  # [T, A, W, S] int32
    probability: Any  # [T, A, W, S]
    reward: Any  # [R, A, S]
    reset: Any  # [S]
    last_reset: Any  # [S]
    restart: Draw  # rows m
    context: Draw  # rows m
    deviation: Any  # of Gaussian noise


class BatchedScene(NamedTuple):
    """What a player's program is given in every round: the problem, and the player's own numbers."""

    shape: Shape
    tables: Tables
    given: dict[str, Any]  # [rows] each, and arrays


def shape_of(mdp: FiniteMDP, unrolled: bool) -> Shape:
    """The sizes of a problem."""
    rows = np.diff(mdp.transition.indptr)
    noise = "bernoulli" if mdp.noise == "bernoulli" else "gaussian" if mdp.noise else "none"
    return Shape(
        horizon=mdp.horizon,
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        n_successors=int(rows.max(initial=1)),
        n_transitions=mdp.n_transitions,
        n_contexts=1 if mdp.contexts is None else len(mdp.contexts),
        noise=noise,
        end_resets=bool((mdp.last_reset != mdp.reset).any()),
        unrolled=unrolled,
    )


def tables_of(mdp: FiniteMDP, shape: Shape) -> Tables:
    """The arrays of a problem, on the host."""
    t = mdp.transition
    n_rows, width = len(t.indptr) - 1, shape.n_successors
    place = np.arange(len(t.indices)) - np.repeat(t.indptr[:-1], np.diff(t.indptr))
    row = np.repeat(np.arange(n_rows), np.diff(t.indptr))
    successor, probability = np.zeros((n_rows, width), dtype=np.int32), np.zeros((n_rows, width))
    successor[row, place], probability[row, place] = t.indices, t.prob
    dims = (t.n_layers, mdp.n_states, mdp.n_actions, width)
    by_pair = probability.reshape(dims).transpose(0, 2, 1, 3).reshape(-1, width)  # rows (layer, action, state)
    last = np.where(by_pair > 0, np.arange(1, width + 1), 0).max(axis=1) - 1
    chain = np.ones((1, 1)) if mdp.contexts is None else mdp.contexts
    return Tables(
        move=_by_inverse(by_pair, last),
        successor=successor.reshape(dims).transpose(0, 2, 3, 1),
        probability=probability.reshape(dims).transpose(0, 2, 3, 1),
        reward=mdp.reward.transpose(0, 2, 1),
        reset=mdp.reset,
        last_reset=mdp.last_reset,
        restart=_by_inverse(mdp.restart),
        context=_by_inverse(chain),
        deviation=np.float64(mdp.noise if shape.noise == "gaussian" else 0.0),
    )


def _by_inverse(rows: NDArray[np.float64], last: NDArray[Any] | None = None) -> Draw:
    """Sums in the order of the reference engine, so that a uniform falls where it falls there.

    last: what rounding at the end falls on (default: where the sum is reached; the reference differs in this).
    """
    n, width = rows.shape
    padded = np.full((n, power_above(width)), np.inf)
    padded[:, :width] = sums = np.cumsum(rows, axis=1)
    last = (sums >= sums[:, -1:]).argmax(axis=1) if last is None else np.maximum(last, 0)
    return Draw(padded.ravel(), last.astype(np.int32))


def power_above(width: int) -> int:
    """The smallest power of two above `width`.

    >>> [power_above(n) for n in (1, 2, 3, 4)]
    [2, 4, 4, 8]
    """
    return 1 << width.bit_length()


def pick(draw: Draw, width: int, row: Array, u: Array) -> Array:
    """The index in each row on which u falls: how many sums are at most u, by halving."""
    stride = power_above(width)
    found, step = row * stride, stride // 2
    while step:
        found = jnp.where(take(draw.cumulative, found + (step - 1)) <= u, found + step, found)
        step //= 2
    return jnp.minimum(found - row * stride, take(draw.last, row))


def summed(n: int, term: Callable[[Any], Array]) -> Array:
    """The sum of term(j) over j < n: few terms are written out, more are one reduction of term(all j) over axis 0."""
    if n > FEW:
        return term(slice(None)).sum(axis=0)
    return reduce(add, map(term, range(n)))


def take(table: Array, index: Array) -> Array:
    """table[index] for an index that is known to be inside."""
    return table.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def at_state(table: Array, s: Array) -> Array:
    """[.., rows] the entry of each row's state, from a table [S, rows]."""
    n_states, rows = table.shape
    kind = jnp.int64 if n_states * rows >= 2**31 else jnp.int32
    return take(table.reshape(-1), s.astype(kind) * rows + jnp.arange(rows, dtype=kind))


def layer(table: Array, h: Any) -> Array:
    """The part of step h, from one part per step or one for all."""
    return table[h if len(table) > 1 else 0]
