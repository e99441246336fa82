"""A model of a machine, an ensemble of networks: how it is trained, and one step of it. Needs the extra `neural`.

Legend: E members; D numbers in a state, A in an action; z = (s - centre) / scale, clipped; a the action on [-1, 1]; y =
(change of z, reward), of which networks predict (y - mean) / deviation: a normal distribution each, mean and log
variance. A fall is predicted where z leaves [low, high], thresholds that no survivor has passed, and, for falls that no
threshold explains, by the network's own log odds. Random numbers follow from a seed and the number of a gradient step.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from resetfree.core.extras import Deferred
from resetfree.players.neural.networks import FAR, Layers, forward, normal_layers

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")

Tree: TypeAlias = dict[str, Any]
LEAST_LOG, MOST_LOG = -12.0, 2.0  # log variance of a prediction
EDGE = 0.05  # deviations of a sensor beyond its threshold at which a fall has the odds e to 1
SURE = 12.0  # log odds at which a fall is certain
LATELY = 2000  # latest rows from which a part of each batch is drawn: the policy of today visits others than before
PART = 0.375  # of a batch
RATES = {0: 1e-3, 3000: 0.4}  # the learning rate, and its factor from a gradient step on
DECAY, MOST_GRADIENT = 1e-5, 50.0
FALL_LOSS = 0.1  # weight of the loss of falls beside that of the motion


class Normaliser(NamedTuple):
    """What relates a machine's units to those of its networks; float32, see the legend."""

    centre: Any  # [D]
    scale: Any  # [D]
    mean: Any  # [D + 1]
    deviation: Any  # [D + 1]
    least: Any  # [D] of z in rollouts: what was visited, and a margin
    most: Any  # [D]
    low: Any  # [D] thresholds of z; far away where there is none
    high: Any  # [D]
    unexplained: Any  # part of the falls that no threshold explains


class StepRows(NamedTuple):
    """Transitions on the scale of z, float32; there may be more room than transitions."""

    z: Any  # [room, D]
    action: Any  # [room, A] on [-1, 1]
    change: Any  # [room, D] of z
    reward: Any  # [room]
    fell: Any  # [room] 1 where the transition ends in a reset state


def first_scales(size: int) -> Normaliser:
    """Before any data."""
    zero, one = np.zeros(size, np.float32), np.ones(size, np.float32)
    mean, deviation = np.zeros(size + 1, np.float32), np.ones(size + 1, np.float32)
    far = np.full(size, FAR, np.float32)
    ends = {"least": -1e3 * one, "most": 1e3 * one, "low": -far, "high": far}
    return Normaliser(zero, one, mean, deviation, **ends, unexplained=np.zeros((), np.float32))


def fresh_model(size: int, n_actions: int, hidden: int, members: int, rng: np.random.Generator) -> Tree:
    """The ensemble before its first gradient step, its optimiser and its scales."""
    sizes = (size + n_actions, hidden, hidden, hidden, 2 * (size + 1) + 1)
    model = normal_layers(sizes, rng, last=0.1, copies=members)
    return {"model": model, "model_steps": _optimiser().init(model), "scales": first_scales(size)}


def _optimiser() -> Any:
    rate = optax.piecewise_constant_schedule(RATES[0], {at: by for at, by in RATES.items() if at})
    clip = optax.clip_by_global_norm(MOST_GRADIENT)
    return optax.chain(optax.zero_nans(), clip, optax.adamw(rate, weight_decay=DECAY))


def predict(model: Layers, z: Any, a: Any) -> tuple[Any, Any, Any]:
    """Means and log variances [E, B, D + 1] of the normalised y, and log odds [E, B] of a fall; z, a [E, B, ...]."""
    out = forward(model, jnp.concatenate([z, a], axis=-1), jax.nn.silu)
    n = (out.shape[-1] - 1) // 2
    log = LEAST_LOG + (MOST_LOG - LEAST_LOG) * jax.nn.sigmoid((out[..., n : 2 * n] + 2.0) / 3.5)
    return out[..., :n], log, out[..., 2 * n]


def stepped(model: Layers, scales: Normaliser, z: Any, a: Any, noise: Any) -> tuple[Any, Any, Any]:
    """One step of every member: the next z [E, B, D], the reward and the probability of a fall [E, B].

    noise: standard normal numbers [..., D + 1], 0 for the mean.
    """
    mean, log, odds = predict(model, z, a)
    y = (mean + jnp.exp(0.5 * log) * noise) * scales.deviation + scales.mean
    after = jnp.clip(z + y[..., :-1], scales.least, scales.most)
    beyond = jnp.maximum(after - scales.high, scales.low - after).max(axis=-1)
    fall = jax.nn.sigmoid(jnp.clip(beyond / EDGE, -SURE, SURE))
    amid = jnp.where(scales.unexplained > 0.0, jax.nn.sigmoid(odds), 0.0)
    return after, y[..., -1], 1.0 - (1.0 - fall) * (1.0 - amid)


def draw_rows(key: Any, shape: tuple[int, ...], n: Any, lately: int, part: float) -> Any:
    """Indices below n, a part of those along the last axis among the latest."""
    recent = jnp.arange(shape[-1]) < part * shape[-1]
    span = jnp.where(recent, jnp.minimum(n, lately), n)
    return jnp.clip((n - 1 - jax.random.uniform(key, shape) * span).astype(jnp.int32), 0, n - 1)


def fit_step(tree: Tree, rows: StepRows, n: Any, key: Any, batch: int) -> Tree:
    """One gradient step of the ensemble on the first n rows, each member on a batch of its own.

    The loss is the beta-weighted negative log-likelihood (beta 1/2) of Seitzer et al. (2022), which does not give up
    what is noisy at first, and the cross-entropy of falls.
    """
    scales, members = tree["scales"], tree["model"][0][0].shape[0]
    index = draw_rows(key, (members, batch), n, LATELY, PART)
    z, a, fell = rows.z[index], rows.action[index], rows.fell[index]
    y = jnp.concatenate([rows.change[index], rows.reward[index][..., None]], axis=-1)
    goal = (y - scales.mean) / scales.deviation

    def loss(model: Layers) -> Any:
        mean, log, odds = predict(model, z, a)
        likely = ((mean - goal) ** 2 * jnp.exp(-log) + log) * jax.lax.stop_gradient(jnp.exp(0.5 * log))
        falls = jax.nn.softplus(odds) - odds * fell
        return likely.mean(axis=(1, 2)).sum() + FALL_LOSS * falls.mean(axis=1).sum()

    update, steps = _optimiser().update(jax.grad(loss)(tree["model"]), tree["model_steps"], tree["model"])
    return {**tree, "model": optax.apply_updates(tree["model"], update), "model_steps": steps}


def rescaled(tree: Tree, new: Normaliser) -> Tree:
    """The same functions of states in a machine's units, on new scales: first and last layers change. In NumPy."""
    old = tree["scales"]
    ratio, shift = new.scale / old.scale, (new.centre - old.centre) / old.scale
    size = len(ratio)

    def first(layers: Layers) -> Layers:
        (weight, bias), *rest = layers
        added = np.einsum("d,...dk->...k", shift, weight[..., :size, :])
        bias = bias + (added[..., None, :] if bias.ndim > 1 else added)
        weight = np.concatenate([weight[..., :size, :] * ratio[:, None], weight[..., size:, :]], axis=-2)
        return ((weight, bias), *rest)

    *inner, (weight, bias) = first(tree["model"])
    n = size + 1  # a change of z is larger where the scale is smaller
    units = np.append(old.scale / new.scale, np.float32(1.0))
    by, to = units * old.deviation / new.deviation, (units * old.mean - new.mean) / new.deviation
    weight = np.concatenate([weight[..., :n] * by, weight[..., n:]], axis=-1)
    bias = np.concatenate([bias[..., :n] * by + to, bias[..., n:]], axis=-1)
    actor = tree["actor"]
    skip, net = first((actor["skip"],))[0], first(actor["net"])
    critics = {name: first(tree[name]) for name in ("critics", "targets")}
    return {**tree, **critics, "actor": {"skip": skip, "net": net}, "model": (*inner, (weight, bias)), "scales": new}
