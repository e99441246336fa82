"""Greedy LSVI-UCB on the composite (`greedy-composite`) for many rows at once: `composite.greedy_plan`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax.numpy as jnp
from jax import Array

from resetfree.players.batched.backward import BatchedPlan, Values, greedy_backward, known_at
from resetfree.players.batched.rollout import Path, Turn
from resetfree.players.batched.tables import BatchedScene, Shape
from resetfree.players.linear.batched_ridge import BatchedRidge
from resetfree.players.linear.composite import TIE


@dataclass(frozen=True)
class Greedy:
    """What of a `GreedyComposite` a program is compiled for; its numbers travel beside it."""

    ridge: BatchedRidge
    variance_aware: bool
    samples_actions: bool = False

    def begin(self, shape: Shape, given: dict[str, Any]) -> Any:
        """No samples, on the host."""
        return self.ridge.begin(shape, given["phi"], given["reg"])

    def plan(self, scene: BatchedScene, state: Any, turn: Turn, evaluate: bool) -> BatchedPlan:
        """Q = clip(regression of r + V + bonus, -lam, H-h+1), V = max Q; V_r and V_c of the greedy policy, no bonus."""
        (shape, tables, given), lam = scene, turn.lam

        def step(values: Values, h: Any) -> tuple[Values, Array]:
            dead = known_at(shape, state.known, state.known_last, h)
            v, v_r = jnp.where(dead, -lam, values[0]), jnp.where(dead, 0.0, values[1])
            v_c = jnp.where(dead, 1.0, values[2])
            [mean, mean_r], [mean_c], width2 = self.ridge.regress(
                tables, given["phi"], given["reg"], state, h, with_pay=[v, v_r], without=[v_c]
            )
            cap = jnp.asarray(shape.horizon - h, dtype=jnp.float64)
            q = []
            for a, w in enumerate(width2):
                width = jnp.sqrt(w)
                bonus = given["beta_r"] * width + lam * self._cost_bonus(given["beta_c"] * width, mean_c[a])
                q.append(jnp.maximum(jnp.minimum(mean[a] + bonus, cap), -lam))
            best = reduce(jnp.maximum, q)
            chosen, least = jnp.full(best.shape, -1, dtype=jnp.int32), jnp.full(best.shape, jnp.inf)
            v = v_r = v_c = jnp.zeros_like(best)
            for a, w in enumerate(width2):  # of those that tie the one of smallest width, which was tried most
                better = (q[a] >= best - TIE) & (w < least - TIE)
                chosen, least = jnp.where(better, a, chosen), jnp.where(better, w, least)
                v, v_r = jnp.where(better, q[a], v), jnp.where(better, mean_r[a], v_r)
                v_c = jnp.where(better, mean_c[a], v_c)
            return (v, jnp.maximum(jnp.minimum(v_r, cap), 0.0), jnp.maximum(jnp.minimum(v_c, 1.0), 0.0)), chosen

        return greedy_backward(scene, turn, step, 3, evaluate)

    def _cost_bonus(self, x: Array, mean_c: Array) -> Array:
        if not self.variance_aware:
            return x
        q = jnp.maximum(jnp.minimum(mean_c, 1.0), 0.0)
        return jnp.minimum(x, 2.0 * jnp.sqrt(q * (1.0 - q)) * x + x * x)

    def learn(self, scene: BatchedScene, state: Any, path: Path, lam: Array, plan: BatchedPlan) -> Any:
        """Add the steps that were taken."""
        return self.ridge.learn(scene.shape, scene.given["phi"], state, path)
