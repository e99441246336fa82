"""Ridge regression of next-state values, for many rows at once, in the form that the features allow.

Legend as in `ridge`: Lam = reg I + sum phi phi^T, b = sum phi r, M = sum phi e_{s'}^T.
  one-hot   Lam is diagonal: counts suffice, Phi Lam^-1 (b + M V) = (sum r + sum_t N_t V(t)) / (reg + n);
  features  Lam^-1, M^T and b, by Sherman-Morrison in float64, and the squared widths |phi|^2_{Lam^-1} of all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from resetfree.players.batched.rollout import Path, over_steps
from resetfree.players.batched.tables import Shape, Tables, layer, summed, take
from resetfree.players.tabular import batched_counts as counts
from resetfree.problems.contract import Problem


class RidgeRows(NamedTuple):
    """What has been learned in the features form."""

    gram: Any  # [L, d, d, rows] Lam^-1
    cross: Any  # [L, S, d, rows] M^T
    pay: Any  # [L, d, rows] b
    width2: Any  # [L, A, S, rows]
    known: Any  # [S, rows]
    known_last: Any  # [S, rows]


@dataclass(frozen=True)
class BatchedRidge:
    """How to regress: a static description; `phi` travels beside it."""

    n_layers: int
    one_hot: bool

    def begin(self, shape: Shape, phi: Any, reg: Any) -> Any:
        """No samples, on the host; reg [rows]."""
        rows = len(reg)
        if self.one_hot:
            return counts.no_counts(shape, self.n_layers, rows)
        L, S, d = self.n_layers, shape.n_states, len(phi)
        nothing = np.zeros((S, rows), dtype=np.bool_)
        gram = np.broadcast_to(np.eye(d)[:, :, None] / reg, (L, d, d, rows))
        width2 = np.broadcast_to((phi**2).sum(axis=0)[:, :, None] / reg, (L, *phi.shape[1:], rows))
        cross, pay = np.zeros((L, S, d, rows)), np.zeros((L, d, rows))
        return RidgeRows(gram, cross, pay, width2, known=nothing, known_last=nothing)

    def learn(self, shape: Shape, phi: Any, state: Any, path: Path) -> Any:
        """Add the steps that were taken."""
        if self.one_hot:
            return counts.count(shape, state, path)
        pair = path.action * shape.n_states + path.state  # [H, rows]
        x = take(phi.reshape(len(phi), -1).T, pair).swapaxes(1, 2)  # [H, d, rows]
        x = jnp.where(path.taken[:, None], x, 0.0)  # a step that was not taken changes nothing
        arrived = jnp.where(path.moved, path.arrived, -1)
        old = (state.gram, state.cross, state.pay, state.width2)
        if self.n_layers > 1:
            new = jax.vmap(partial(_sherman_morrison, phi))(old, x, arrived, path.reward)
        else:
            one, _ = over_steps(
                lambda parts, h: (_sherman_morrison(phi, parts, x[h], arrived[h], path.reward[h]), None),
                jax.tree.map(lambda part: part[0], old),
                shape,
            )
            new = jax.tree.map(lambda part: part[None], one)
        known, known_last = counts.learn_resets(shape, state.known, state.known_last, path)
        return RidgeRows(*new, known, known_last)

    def regress(
        self, tables: Tables, phi: Any, reg: Array, state: Any, h: Any, with_pay: list[Array], without: list[Array]
    ) -> tuple[list[list[Array]], list[list[Array]], list[Array]]:
        """Regressions of r + V(s') and of V(s'), per V and action [S, rows]; and squared widths per action."""
        n = len(with_pay)
        if self.one_hot:
            inverse = [1.0 / (reg + times) for times in counts.tries(state, h)]
            earned = counts.earnings(tables, state, h)
            sums = counts.over_successors(tables, state, h, *with_pay, *without)
            first = [[(earned[a] + part[a]) * w for a, w in enumerate(inverse)] for part in sums[:n]]
            second = [[part[a] * w for a, w in enumerate(inverse)] for part in sums[n:]]
            return first, second, inverse
        gram, cross, pay, width2 = (layer(x, h) for x in state[:4])
        results = []
        for i, v in enumerate([*with_pay, *without]):
            y = (cross * v[:, None]).sum(axis=0)
            w = (gram * (y + pay if i < n else y)).sum(axis=1)  # [d, rows]
            values = _along_features(phi, w)
            results.append([values[a] for a in range(len(values))])
        return results[:n], results[n:], [width2[a] for a in range(len(width2))]


def _along_features(phi: Any, w: Array) -> Array:
    """sum_k phi[k] w[k], for all pairs: [A, S, rows]."""
    return summed(len(phi), lambda k: phi[k][..., None] * w[k][..., None, None, :])


def _sherman_morrison(
    phi: Any, old: tuple[Array, Array, Array, Array], x: Array, arrived: Array, reward: Array
) -> tuple[Array, Array, Array, Array]:
    """Lam^-1 -= u u^T / q with u = Lam^-1 x, q = 1 + x.u; one sample per row, in one layer."""
    gram, cross, pay, width2 = old
    u = (gram * x).sum(axis=1)
    q = 1.0 + (x * u).sum(axis=0)
    v = _along_features(phi, u)
    gram = gram - (u / q)[:, None] * u[None]
    here = jnp.arange(len(cross), dtype=jnp.int32)[:, None] == arrived  # [S, rows]
    return gram, cross + here[:, None] * x, pay + reward * x, jnp.maximum(width2 - v * v / q, 0.0)


def ridge_of(problem: Problem, pooled: bool) -> tuple[BatchedRidge, NDArray[np.float64]]:
    """In which form to regress (one-hot where there are no features), and the features as [d, A, S]."""
    n_layers = 1 if pooled else problem.horizon
    assert problem.n_states is not None
    if problem.phi is None:
        return BatchedRidge(n_layers, True), np.zeros((0, problem.n_actions, problem.n_states))
    flat = problem.phi.reshape(problem.n_states * problem.n_actions, -1)
    ones = flat == 1.0
    one_hot = bool((ones | (flat == 0.0)).all() and (ones.sum(axis=1) == 1).all() and (ones.sum(axis=0) <= 1).all())
    return BatchedRidge(n_layers, one_hot), np.ascontiguousarray(problem.phi.transpose(2, 1, 0))
