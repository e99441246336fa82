"""Greedy LSVI-UCB on the composite (`greedy-composite`) for many rows at once: `composite.greedy_plan`."""

from dataclasses import dataclass
from functools import partial, reduce
from math import log
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.core import Floats, InvalidInput
from resetfree.players import BatchedForm
from resetfree.players.batched import (
    BatchedPlan,
    BatchedScene,
    EpisodePaths,
    Shape,
    Tables,
    Turn,
    Values,
    at_state,
    backward,
    exact_at,
    greedy_backward,
    known_at,
    layer,
    over_steps,
    summed,
    take,
)
from resetfree.players.linear.greedy_composite import GreedyComposite
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.linear.ridge import TIE
from resetfree.players.tabular import batched as counts
from resetfree.problems import Problem

# Ridge regression of next-state values, for many rows at once, in the form that the features allow.
#
# Legend as in `ridge`: Lam = reg I + sum phi phi^T, b = sum phi r, M = sum phi e_{s'}^T.
#   one-hot   Lam is diagonal: counts suffice, Phi Lam^-1 (b + M V) = (sum r + sum_t N_t V(t)) / (reg + n);
#   features  Lam^-1, M^T and b, by Sherman-Morrison in float64, and the squared widths |phi|^2_{Lam^-1} of all pairs.


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

    def learn(self, shape: Shape, phi: Any, state: Any, path: EpisodePaths) -> Any:
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


def ridge_of(problem: Problem, pooled: bool) -> tuple[BatchedRidge, Floats]:
    """In which form to regress (one-hot where there are no features), and the features as [d, A, S]."""
    n_layers = 1 if pooled else problem.horizon
    assert problem.n_states is not None
    if problem.phi is None:
        return BatchedRidge(n_layers, True), np.zeros((0, problem.n_actions, problem.n_states))
    flat = problem.phi.reshape(problem.n_states * problem.n_actions, -1)
    ones = flat == 1.0
    one_hot = bool((ones | (flat == 0.0)).all() and (ones.sum(axis=1) == 1).all() and (ones.sum(axis=0) <= 1).all())
    return BatchedRidge(n_layers, one_hot), np.ascontiguousarray(problem.phi.transpose(2, 1, 0))


# The primal player of Algorithm 1 (`linear-ucb`) for many rows at once: `ridge.softmax_plan`.


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
            is_reset = known_at(shape, data.known, data.known_last, h)
            v_r, v_c = jnp.where(is_reset, 0.0, values[0]), jnp.where(is_reset, 1.0, values[1])
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

    def learn(
        self, scene: BatchedScene, state: SoftmaxRows, path: EpisodePaths, lam: Array, plan: BatchedPlan
    ) -> SoftmaxRows:
        """Add the steps that were taken."""
        return SoftmaxRows(self.ridge.learn(scene.shape, scene.given["phi"], state.data, path), plan.policy)


# --------------------------------------------------------------------------------------------------------------------


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
            is_reset = known_at(shape, state.known, state.known_last, h)
            v, v_r = jnp.where(is_reset, -lam, values[0]), jnp.where(is_reset, 0.0, values[1])
            v_c = jnp.where(is_reset, 1.0, values[2])
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

    def learn(self, scene: BatchedScene, state: Any, path: EpisodePaths, lam: Array, plan: BatchedPlan) -> Any:
        """Add the steps that were taken."""
        return self.ridge.learn(scene.shape, scene.given["phi"], state, path)


def greedy_form(player: GreedyComposite, problem: Problem, episodes: int) -> BatchedForm:
    """The same regression in every row; a plan that is kept from episode to episode has no batched form."""
    if player.width == "proved":
        raise InvalidInput(
            "The 'width' of greedy-composite must be tuned or theory in the batched engine. Got 'proved' instead."
        )
    if player.switching == "rare":
        raise InvalidInput(
            "The 'switching' of greedy-composite must be every in the batched engine. "
            f"Got {player.switching!r} instead."
        )
    ridge, phi = ridge_of(problem, player.pooled)
    beta_r, beta_c = player.betas(problem, episodes)
    numbers = {"beta_r": beta_r, "beta_c": beta_c, "reg": player.ridge(), "phi": phi}
    return BatchedForm(Greedy(ridge, player.variance_aware and player.width == "tuned"), numbers)


def softmax_form(player: LinearUCB, problem: Problem, episodes: int) -> BatchedForm:
    """The same regression and softmax in every row."""
    if player.width == "proved":
        raise InvalidInput(
            "The 'width' of linear-ucb must be tuned, theory or paper in the batched engine. Got 'proved' instead."
        )
    ridge, phi = ridge_of(problem, player.pooled)
    beta_r, beta_c = player.betas(problem, episodes)
    numbers = {"beta_r": beta_r, "beta_c": beta_c, "alpha": player.temperature(problem, episodes)}
    return BatchedForm(Softmax(ridge, player.anytime, player.lagged), numbers | {"reg": player.ridge(), "phi": phi})
