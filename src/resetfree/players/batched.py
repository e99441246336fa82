"""What every backward pass shares: it walks from the last step to the first, samples actions, and evaluates exactly.

A player's step gives its action in each state, or the probabilities; then the action that the step's
uniform picks is known for every state at once, and the rollout only looks it up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import ndtri
from numpy.typing import NDArray

from resetfree.problems import FiniteMDP

# A finite problem as arrays of fixed shape, seeds last: what every compiled pass reads.
#
# Legend: S states, A actions, H steps, W successors at most, T layers of transitions (1 or H), R of rewards (1 or H),
# m contexts. A pair is a * S + s. `Shape` is what a program is compiled for, `Tables` what it is given.

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


# One episode of every row at once, from pre-drawn uniforms.
#
# Legend: rows n last; `taken` whether a step was really taken (steps after a reset are not), `slot` which of the listed
# successors came.

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


class EpisodePaths(NamedTuple):
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


def roll(shape: Shape, tables: Tables, actions: Any, s1: Array, u: Uniforms) -> EpisodePaths:
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
    return EpisodePaths._make((*walked, last, was_reset, steps, total, begin))


def next_start(shape: Shape, tables: Tables, last: Array, was_reset: Array, u: Uniforms) -> Array:
    """The last state, or a restart; a new context for it where there are contexts."""
    if shape.n_contexts == 1:
        return jnp.where(was_reset, pick(tables.restart, shape.n_states, jnp.zeros_like(last), u.start), last)
    n_base = shape.n_states // shape.n_contexts
    context = pick(tables.context, shape.n_contexts, last // n_base, u.context)
    base = jnp.where(was_reset, pick(tables.restart, n_base, context, u.start), last % n_base)
    return context * n_base + base


# --------------------------------------------------------------------------------------------------------------------

Values: TypeAlias = tuple[Array, ...]  # each [S, rows]
Choice: TypeAlias = Array | list[Array]  # an action [S, rows], or probabilities [S, rows] per action
Step: TypeAlias = Callable[[Values, Any], tuple[Values, Choice]]


class BatchedPlan(NamedTuple):
    """What is played, and the player's own estimates at the start."""

    actions: Any  # [H][S, rows] int8 or int32
    v_r: Array  # [rows]
    v_c: Array
    upper: Array
    exact: Any  # V_r and V_c [rows] of the policy on the model, or None
    policy: Any  # [H, A, S, rows] if the player needs it, else None


def backward(
    shape: Shape, tables: Tables, step: Step, n_values: int, u_action: Any, rows: int, *, evaluate: bool, keep: bool
) -> tuple[Values, Any, Values | None, Any]:
    """Values at step 1 [S, rows], action tables, exact V_r and V_c, and the policy if it is to be kept."""
    kind = jnp.int8 if shape.n_actions <= 127 else jnp.int32
    zero = jnp.zeros((shape.n_states, rows))

    def body(carry: tuple[Values, Values], h: Any) -> tuple[tuple[Values, Values], tuple[Any, Any]]:
        values, exact = carry
        values, choice = step(values, h)
        weights = None
        if evaluate or keep:
            weights = choice if isinstance(choice, list) else [(choice == a) * 1.0 for a in range(shape.n_actions)]
        if evaluate and weights is not None:
            exact = evaluate_step(shape, tables, h, weights, exact)
        action = (choose(choice, u_action[h]) if isinstance(choice, list) else choice).astype(kind)
        values, exact, action = fence(shape, (values, exact, action))
        return (values, exact), (action, jnp.stack(weights) if keep and weights is not None else None)

    start: tuple[Values, Values] = ((zero,) * n_values, (zero, zero) if evaluate else ())
    (values, exact), (actions, policy) = over_steps(body, start, shape, reverse=True)
    if shape.unrolled:
        policy = jnp.stack(policy) if keep else None
    return values, actions, exact if evaluate else None, policy


def greedy_backward(scene: BatchedScene, turn: Turn, step: Step, n_values: int, evaluate: bool) -> BatchedPlan:
    """The plan of a player whose values are V, V_r and V_c (and perhaps more) and whose choice is one action."""
    walk = backward(
        scene.shape, scene.tables, step, n_values, turn.u.action, rows=len(turn.lam), evaluate=evaluate, keep=False
    )
    values, actions, exact, _ = walk
    v, v_r, v_c = (at_state(x, turn.s1) for x in values[:3])
    return BatchedPlan(actions, v_r, v_c, upper=v, exact=exact_at(exact, turn.s1), policy=None)


def choose(weights: list[Array], u: Array) -> Array:
    """The action on which u falls; rounding at the end falls on the last positive probability."""
    total = weights[0]
    found = u < total
    action = jnp.zeros(total.shape, dtype=jnp.int32)
    for a in range(1, len(weights)):
        positive = weights[a] > 0
        total = total + weights[a]
        action = jnp.where(~found & positive, a, action)
        found = found | (positive & (u < total))
    return action


def evaluate_step(shape: Shape, tables: Tables, h: Any, weights: list[Array], after: Values) -> Values:
    """V_r and V_c at step h of a policy on the model, from those at step h + 1."""
    is_reset = tables.reset
    if shape.end_resets:
        is_reset = jnp.where(jnp.asarray(h) == shape.n_transitions - 1, tables.last_reset, is_reset)
    after_r = jnp.where(is_reset[:, None], 0.0, after[0])
    after_c = jnp.where(is_reset[:, None], 1.0, after[1])
    successor, probability, reward = (layer(x, h) for x in (tables.successor, tables.probability, tables.reward))
    moves = jnp.asarray(h) < shape.n_transitions
    v_r = v_c = jnp.zeros_like(after_r)
    for a, weight in enumerate(weights):
        q_r, q_c = _expected(probability[a], successor[a], after_r), _expected(probability[a], successor[a], after_c)
        v_r = v_r + weight * (jnp.where(moves, q_r, 0.0) + reward[a][:, None])
        v_c = v_c + weight * jnp.where(moves, q_c, 0.0)
    alive = ~tables.reset[:, None]
    return jnp.where(alive, v_r, 0.0), jnp.where(alive, v_c, 0.0)


def _expected(probability: Array, successor: Array, after: Array) -> Array:
    """[S, rows] the mean of `after` [S, rows]; probability, successor [W, S]."""
    return summed(len(successor), lambda j: probability[j][..., None] * take(after, successor[j]))


def known_at(shape: Shape, known: Array, known_last: Array, h: Any) -> Array:
    """[S, rows] states whose entering after step h is known to be a reset."""
    if not shape.end_resets:
        return known
    return known | (known_last & (jnp.asarray(h) == shape.n_transitions - 1))


def exact_at(exact: Values | None, s1: Array) -> tuple[Array, Array] | None:
    """V_r and V_c at the start."""
    return None if exact is None else (at_state(exact[0], s1), at_state(exact[1], s1))
