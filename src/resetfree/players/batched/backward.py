"""What every backward pass shares: it walks from the last step to the first, samples actions, and evaluates exactly.

A player's step gives its action in each state, or the probabilities; then the action that the step's
uniform picks is known for every state at once, and the rollout only looks it up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
from jax import Array

from resetfree.players.batched.rollout import Turn, fence, over_steps
from resetfree.players.batched.tables import BatchedScene, Shape, Tables, at_state, layer, summed, take

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
    dead = tables.reset
    if shape.end_resets:
        dead = jnp.where(jnp.asarray(h) == shape.n_transitions - 1, tables.last_reset, dead)
    after_r = jnp.where(dead[:, None], 0.0, after[0])
    after_c = jnp.where(dead[:, None], 1.0, after[1])
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
