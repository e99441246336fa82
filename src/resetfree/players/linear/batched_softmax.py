"""The primal player of Algorithm 1 (`linear-ucb`) for many rows at once: `ridge.softmax_plan`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import log
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.players.batched.backward import BatchedPlan, Values, backward, exact_at, known_at
from resetfree.players.batched.rollout import Path, Turn
from resetfree.players.batched.tables import BatchedScene, Shape, at_state
from resetfree.players.linear.batched_ridge import BatchedRidge


class SoftmaxRows(NamedTuple):
    """The regression, and the last policy if it is averaged with."""

    data: Any
    old: Any  # [H, A, S, rows] or None


@dataclass(frozen=True)
class Softmax:
    """What of a `LinearUCB` a program is compiled for; its numbers travel beside it."""

    ridge: BatchedRidge
    anytime: bool
    lagged: bool
    samples_actions: bool = True

    def begin(self, shape: Shape, given: dict[str, Any]) -> SoftmaxRows:
        """No data; the policy before the first is uniform."""
        old = None
        if self.lagged:
            dims = (shape.horizon, shape.n_actions, shape.n_states, len(given["reg"]))
            old = np.full(dims, 1.0 / shape.n_actions)
        return SoftmaxRows(self.ridge.begin(shape, given["phi"], given["reg"]), old)

    def plan(self, scene: BatchedScene, state: SoftmaxRows, turn: Turn, evaluate: bool) -> BatchedPlan:
        """Optimistic Q_r and Q_c, softmax of alpha (Q_r - lam Q_c), values under it."""
        (shape, tables, given), (s1, lam, k, u), data = scene, turn, state.data
        beta_r, beta_c = given["beta_r"], given["beta_c"]
        alpha = given["alpha"] * k if self.anytime else given["alpha"]

        def step(values: Values, h: Any) -> tuple[Values, list[Array]]:
            dead = known_at(shape, data.known, data.known_last, h)
            v_r, v_c = jnp.where(dead, 0.0, values[0]), jnp.where(dead, 1.0, values[1])
            [mean_r], [mean_c], width2 = self.ridge.regress(
                tables, given["phi"], given["reg"], data, h, with_pay=[v_r], without=[v_c]
            )
            cap = jnp.asarray(shape.horizon - h, dtype=jnp.float64)
            q_r, q_c, composite = [], [], []
            for r, c, w in zip(mean_r, mean_c, width2, strict=True):
                width = jnp.sqrt(w)
                q_r.append(jnp.maximum(jnp.minimum(r + beta_r * width, cap), 0.0))
                q_c.append(jnp.maximum(jnp.minimum(c - beta_c * width, 1.0), 0.0))
                composite.append(q_r[-1] - lam * q_c[-1])
            best = reduce(jnp.maximum, composite)
            weights = []
            for q in composite:
                exponent = alpha * (q - best)
                weights.append(jnp.where(exponent > -745.0, jnp.exp(exponent), 0.0))
            norm = 1.0 / sum(weights[1:], weights[0])
            weights = [w * norm for w in weights]
            averaged = weights if state.old is None else [state.old[h][a] for a in range(shape.n_actions)]
            v_r = sum((p * q for p, q in zip(averaged[1:], q_r[1:], strict=True)), averaged[0] * q_r[0])
            v_c = sum((p * q for p, q in zip(averaged[1:], q_c[1:], strict=True)), averaged[0] * q_c[0])
            return (v_r, v_c), weights

        values, actions, exact, policy = backward(
            shape, tables, step, 2, u.action, rows=len(lam), evaluate=evaluate, keep=self.lagged
        )
        v_r, v_c = at_state(values[0], s1), at_state(values[1], s1)
        entropy = shape.horizon * log(shape.n_actions)
        slack = jnp.where(alpha > 0, entropy / alpha, jnp.inf) if entropy > 0 else 0.0
        upper = v_r - lam * v_c + slack
        return BatchedPlan(actions, v_r, v_c, upper=upper, exact=exact_at(exact, s1), policy=policy)

    def learn(self, scene: BatchedScene, state: SoftmaxRows, path: Path, lam: Array, plan: BatchedPlan) -> SoftmaxRows:
        """Add the steps that were taken."""
        return SoftmaxRows(self.ridge.learn(scene.shape, scene.given["phi"], state.data, path), plan.policy)
