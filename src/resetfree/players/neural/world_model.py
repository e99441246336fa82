"""Model rollouts, bootstrapped at their end by critics: the value of an actor, and its improvement.

Needs the extra `neural`.

Legend: see below; g the discount; d_t the danger of step t, z_t the state before it; V the critic of reward,
C_1, C_2 those of cost, functions of (z, log(1 + lam)) for the policy in play; L = 0.95.
  V    the reward to come,  V(z_t) = E[r_t + g (1 - d_t) V(z_t+1)]
  C_i  the discounted probability of a reset to come,  C_i(z_t) = E[d_t + g (1 - d_t) max(C_1, C_2)(z_t+1)]
  target of a critic  G_t = now + g (1 - d_t) ((1 - L) later + L G_t+1), TD(lambda); G is bootstrapped at the end
  value of an actor   the mean over starts of  (mean over members of R) - lam max over members of C
where R and C are sums over a rollout, bootstrapped at its end by V and by the worse of C_1 and C_2. So rollouts may be
short; a policy is compared as if the one in play took over at their end. Outputs of critics are in [0, 1]: (1 - g) V,
as rewards are in [0, 1], and C_i.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from resetfree.players.model_based.reset_classifier import FARTHEST
from resetfree.players.neural.networks import Layers, forward, uniform_layers
from resetfree.players.neural.skip_policy import Actor, pushes

# An ensemble of networks that predicts a machine, and model rollouts.
#
# Legend: z = (s - centre) / scale [D]; a in [-1, 1]^A; x = (z, a); y [D + 1] the output of a step, the change of z and
# the reward, each (y - mean) / deviation; E members; P steps of a rollout; lam [n] the price of a reset of each start.
#   y given x         normal with mean  line.(1, x) + m(x)  and variance e^l(x); m, l are a member's network
#   loss of a member  (y - its mean)^2 e^-l + l, summed over y, on batches of its own
#   doubt of a step   deviation of the members' means, relative to its 99 % quantile on the rows of the buffer
#   danger of a step  max(p(z'), caution (doubt / 2 - 1)) within [0, 1]; p the reset classifier of `network_search`
# Every start is rolled out in every member with the same noise (common random numbers), so members are comparable.

LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = -9.0, 0.5
DECAY = 1e-4  # of the weights of the ensemble
LATEST, LATELY = 0.25, 1000  # part of a batch that is from so many latest rows
GENTLE = 0.01  # of the last layer of a fresh network: it begins as the ridge regression


class NetworkModel(NamedTuple):
    """The ensemble, and all that model rollouts need beside it; float32."""

    layers: Layers  # of E networks
    line: Any  # [1 + D + A, D + 1] the ridge regression
    centre: Any  # [D]
    scale: Any  # [D]
    mean: Any  # [D + 1] of y
    deviation: Any  # [D + 1]
    smallest: Any  # [D + 1] what y is clipped to
    largest: Any  # [D + 1]
    least: Any  # [D] what z cannot leave
    most: Any  # [D]
    reset_classifier: Any  # [1 + 2 D] log odds of a reset state, of (1, z, z^2)
    doubt: Any  # the unit of the deviation of the members


class Path(NamedTuple):
    """Rollouts from n starts in E members, step by step."""

    z: Any  # [P + 1, E, n, D]
    reward: Any  # [P, E, n] of each step
    danger: Any  # [P, E, n] the probability of a reset in it
    weight: Any  # [P + 1, E, n] discount^t times the probability of no reset so far


class Returns(NamedTuple):
    """Sums over such rollouts."""

    reward: Any  # [E, n] expected sum, discounted
    reset: Any  # [E, n] the probability of a reset, discounted
    left: Any  # [E, n] the weight of what lies beyond their end
    end: Any  # [E, n, D] z there


class RolloutConfig(NamedTuple):
    """The settings of rollouts; numbers, so that other values need no other compiled program."""

    caution: Any
    noise: Any  # deviation of actions
    discount: Any
    seed: Any


class RolloutBatch(NamedTuple):
    """A batch of rollouts: model, starts, prices and settings."""

    model: NetworkModel
    starts: Any  # [n, D] on the scale of z
    lam: Any  # [n]
    config: RolloutConfig


def fresh_model(size: int, n_actions: int, hidden: int, members: int, rng: np.random.Generator) -> dict[str, Any]:
    """A fresh model, and its optimiser; size: D."""
    inputs, outputs = size + n_actions, size + 1
    *inner, (weight, bias) = uniform_layers((inputs, hidden, hidden, 2 * outputs), rng, members)
    layers = (*inner, (np.float32(GENTLE) * weight, np.zeros_like(bias)))
    zero, one = (partial(np.full, fill_value=value, dtype=np.float32) for value in (0.0, 1.0))
    model = NetworkModel(
        layers=layers,
        line=zero((1 + inputs, outputs)),
        centre=zero(size),
        scale=one(size),
        mean=zero(outputs),
        deviation=one(outputs),
        smallest=zero(outputs),
        largest=one(outputs),
        least=zero(size),
        most=one(size),
        reset_classifier=zero(1 + 2 * size),
        doubt=one(()),
    )
    return {"model": model, "model_steps": optax.adamw(0.0).init(layers)}


def moves(layers: Layers, line: Any, x: Any) -> tuple[Any, Any]:
    """[E, B, D + 1] mean and logarithm of the variance of y at x [B, D + A], or [E, B, D + A] of each member's own."""
    with jax.default_matmul_precision("float32"):  # a graphics card would round
        mean, log = jnp.split(forward(layers, x, jax.nn.silu), 2, axis=-1)
        straight = line[0] + x @ line[1:]
    log = MOST_LOG_VARIANCE - jax.nn.softplus(MOST_LOG_VARIANCE - log)
    return straight + mean, LEAST_LOG_VARIANCE + jax.nn.softplus(log - LEAST_LOG_VARIANCE)


def model_loss(layers: Layers, line: Any, x: Any, y: Any) -> Any:
    """The loss of all members on batches x [E, B, D + A], y [E, B, D + 1]."""
    mean, log = moves(layers, line, x)
    return ((y - mean) ** 2 * jnp.exp(-log) + log).sum(axis=-1).mean(axis=-1).sum()


@partial(jax.jit, static_argnames="batch")
def fit(
    tree: dict[str, Any], x: Any, y: Any, *, n: Any, seed: Any, first: Any, count: Any, rate: Any, batch: int
) -> Any:
    """The tree after `count` further gradient steps of the ensemble on the first n rows of x and y.

    first: the number of the first of these steps.
    """
    model = tree["model"]

    def one(i: Any, now: Any) -> Any:
        layers, steps = now
        shape = (len(model.layers[0][0]), batch)
        any_key, late_key, which_key = jax.random.split(jax.random.fold_in(jax.random.key(seed), first + i), 3)
        late = n - 1 - jax.random.randint(late_key, shape, 0, jnp.minimum(n, LATELY))
        some = jax.random.randint(any_key, shape, 0, n)
        rows = jnp.where(jax.random.uniform(which_key, shape) < LATEST, late, some)
        gradient = jax.grad(model_loss)(layers, model.line, x[rows], y[rows])
        update, steps = optax.adamw(rate, weight_decay=DECAY).update(gradient, steps, layers)
        return optax.apply_updates(layers, update), steps

    layers, steps = jax.lax.fori_loop(jnp.uint32(0), count, one, (model.layers, tree["model_steps"]))
    return {**tree, "model": model._replace(layers=layers), "model_steps": steps}


def action_of(actor: Actor, z: Any, price: Any) -> Any:
    """[..., A] the actor's action in z [..., D], without noise; price: [..., 1]."""
    with jax.default_matmul_precision("float32"):
        return jnp.tanh(pushes(actor, z, price, joined=beside, activation=jnp.tanh))


def beside(one: Any, other: Any) -> Any:
    """Two arrays side by side along their last axis."""
    return jnp.concatenate([one, other], axis=-1)


@jax.jit
def doubts(model: NetworkModel, x: Any) -> Any:
    """[B] the deviation of the members' means at x [B, D + A]."""
    return _deviation(moves(model.layers, model.line, x)[0])


def _deviation(means: Any) -> Any:
    return jnp.sqrt(means.var(axis=0).mean(axis=-1) + 1e-12)  # the root has no gradient at 0


def stepped(model: NetworkModel, z: Any, a: Any, noise: Any, caution: Any) -> tuple[Any, Any, Any]:
    """Z' [E, n, D], reward and danger [E, n] of a step from z [E, n, D] in each member; noise: [n, D + 1]."""
    members, n, size = z.shape
    every, log = moves(model.layers, model.line, beside(z, a).reshape(members * n, -1))
    doubt = _deviation(every).reshape(members, n) / model.doubt
    own = jnp.arange(members)
    mean, log = (part.reshape(members, members, n, -1)[own, own] for part in (every, log))
    y = (mean + jnp.exp(0.5 * log) * noise) * model.deviation + model.mean
    y = jnp.clip(y, model.smallest, model.largest)
    next_z = jnp.clip(z + y[..., :size], model.least, model.most)
    near = jnp.clip(next_z, -FARTHEST, FARTHEST)
    chance = jax.nn.sigmoid(
        model.reset_classifier[0]
        + near @ model.reset_classifier[1 : 1 + size]
        + near**2 @ model.reset_classifier[1 + size :]
    )
    return next_z, y[..., size], jnp.maximum(chance, jnp.clip(caution * (0.5 * doubt - 1.0), 0.0, 1.0))


def rollout(batch: RolloutBatch, actor: Actor, rollout_length: int) -> Path:
    """Rollouts of P = rollout_length steps from every start, each of them in every member."""
    model, starts, lam, config = batch
    members, (n, size) = len(model.layers[0][0]), starts.shape
    price = jnp.broadcast_to(jnp.log1p(lam)[:, None], (members, n, 1))
    n_actions = actor["skip"][1].shape[-1]
    noise = jax.random.normal(jax.random.key(config.seed), (rollout_length, n, size + 1 + n_actions), jnp.float32)

    def one(now: Any, chance: Any) -> Any:
        z, weight = now
        a = jnp.clip(action_of(actor, z, price) + config.noise * chance[:, size + 1 :], -1.0, 1.0)
        z, reward, danger = stepped(model, z, a, chance[:, : size + 1], config.caution)
        weight = weight * (1.0 - danger) * config.discount
        return (z, weight), (z, reward, danger, weight)

    begin = jnp.broadcast_to(starts, (members, n, size)), jnp.ones((members, n))
    _, (z, reward, danger, weight) = jax.lax.scan(one, begin, noise)
    z, weight = (jnp.concatenate([first[None], rest]) for first, rest in zip(begin, (z, weight), strict=True))
    return Path(z, reward, danger, weight)


def rollout_returns(batch: RolloutBatch, actor: Actor, rollout_length: int) -> Returns:
    """The sums over such rollouts, without a bootstrap at their end."""
    path = rollout(batch, actor, rollout_length)
    reward, reset = ((path.weight[:-1] * part).sum(axis=0) for part in (path.reward, path.danger))
    return Returns(reward, reset, path.weight[-1], path.z[-1])


foresee = partial(jax.jit, static_argnames="rollout_length")(rollout_returns)


@jax.jit
def open_loop(model: NetworkModel, z: Any, actions: Any) -> Any:
    """[W, D] the prediction of the mean of the members from z [W, D] under actions [k, W, A]."""
    size = z.shape[-1]

    def one(z: Any, a: Any) -> Any:
        y = moves(model.layers, model.line, beside(z, a))[0].mean(axis=0) * model.deviation + model.mean
        y = jnp.clip(y, model.smallest, model.largest)
        return jnp.clip(z + y[:, :size], model.least, model.most), None

    return jax.lax.scan(one, z, actions)[0]


def refit_line(x: NDArray[Any], y: NDArray[Any], ridge: float = 1e-2) -> NDArray[Any]:
    """[1 + d, O] the ridge regression of y [n, O] on (1, x) [n, 1 + d]."""
    inputs = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    return np.asarray(np.linalg.solve(inputs.T @ inputs + ridge * np.eye(inputs.shape[1]), inputs.T @ y))


# --------------------------------------------------------------------------------------------------------------------

CRITICS = 3  # of reward, and two of cost
TD_LAMBDA = 0.95  # L
REUSED = 4  # gradient steps of the critics on the same rollouts
SEEN = 0.5  # part of the steps that a critic learns from in a gradient step: each from others, so that they differ
STEEP = 1.0  # norm at which the gradient of an actor is clipped
SPREAD = 0.5  # deviation of log lam around the current multiplier, while networks are trained


def fresh_critics(size: int, hidden: int, rng: np.random.Generator) -> dict[str, Any]:
    """Fresh critics, and their optimiser; size: D."""
    layers = uniform_layers((size + 1, hidden, hidden, 1), rng, CRITICS)
    return {"critics": layers, "critic_steps": optax.adam(0.0).init(layers)}


def opinions(critics: Layers, z: Any, lam: Any) -> Any:
    """[3, ...] the output of each critic before the sigmoid, in z [..., n, D]; lam: [n]."""
    price = jnp.broadcast_to(jnp.log1p(lam)[:, None], (*z.shape[:-1], 1))
    x = beside(z, price).reshape(-1, z.shape[-1] + 1)
    with jax.default_matmul_precision("float32"):
        return forward(critics, x, jnp.tanh).reshape(CRITICS, *z.shape[:-1])


def values(critics: Layers, z: Any, lam: Any) -> tuple[Any, Any]:
    """[...] each: (1 - g) V of z [..., n, D], and the worse of C_1 and C_2."""
    said = jax.nn.sigmoid(opinions(critics, z, lam))
    return said[0], said[1:].max(axis=0)


def targets(critics: Layers, path: Path, lam: Any, discount: Any) -> Any:
    """[2, P, E, n] the TD(lambda) targets of reward and of cost before each step of rollouts."""
    later = jnp.stack(values(critics, path.z[1:], lam), axis=1)
    now = jnp.stack([(1.0 - discount) * path.reward, path.danger], axis=1)
    goes_on = discount * (1.0 - path.danger[:, None])

    def one(following: Any, step: Any) -> Any:
        now, later, goes_on = step
        wanted = now + goes_on * ((1.0 - TD_LAMBDA) * later + TD_LAMBDA * following)
        return wanted, wanted

    wanted = jax.lax.scan(one, later[-1], (now, later, goes_on), reverse=True)[1]
    return jnp.clip(jnp.moveaxis(wanted, 1, 0), 0.0, 1.0)


def critics_loss(critics: Layers, path: Path, lam: Any, wanted: Any, counted: Any) -> Any:
    """The mean cross-entropy of all critics, whose minimum is the mean target; counted: [3, P, E, n] weights."""
    said = opinions(critics, path.z[:-1], lam)
    loss = optax.sigmoid_binary_cross_entropy(said, jnp.stack([wanted[0], wanted[1], wanted[1]]))
    return ((counted * loss).sum(axis=(1, 2, 3)) / (counted.sum(axis=(1, 2, 3)) + 1e-6)).sum()


@partial(jax.jit, static_argnames="rollout_length")
def learn_values(
    batch: RolloutBatch, critics: dict[str, Any], actor: Actor, *, count: Any, rate: Any, rollout_length: int
) -> dict[str, Any]:
    """The critics of an actor, and their optimiser, after `count` batches of rollouts, each with its own noise."""

    def one(i: Any, now: Any) -> Any:
        own, drawn = _again(batch, i)
        path = rollout(own, actor, rollout_length)

        def learn(j: Any, now: Any) -> Any:
            layers, steps = now
            some = jax.random.uniform(jax.random.fold_in(drawn, j), (CRITICS, *path.reward.shape)) < SEEN
            wanted = targets(layers, path, own.lam, own.config.discount)
            gradient = jax.grad(critics_loss)(layers, path, own.lam, wanted, path.weight[:-1] * some)
            update, steps = optax.adam(rate).update(gradient, steps)
            return optax.apply_updates(layers, update), steps

        return jax.lax.fori_loop(0, REUSED, learn, now)

    layers, steps = jax.lax.fori_loop(0, count, one, (critics["critics"], critics["critic_steps"]))
    return {"critics": layers, "critic_steps": steps}


def bootstrapped_returns(batch: RolloutBatch, critics: Layers, actor: Actor, rollout_length: int) -> Returns:
    """The sums over rollouts, bootstrapped at their end by the critics."""
    rollouts = rollout_returns(batch, actor, rollout_length)
    earned, cost = values(critics, rollouts.end, batch.lam)
    reward = rollouts.reward + rollouts.left * earned / (1.0 - batch.config.discount)
    return rollouts._replace(reward=reward, reset=rollouts.reset + rollouts.left * cost)


def actor_value(rollouts: Returns, lam: Any) -> Any:
    """The value of an actor: the worst member's resets count."""
    return (rollouts.reward.mean(axis=0) - lam * rollouts.reset.max(axis=0)).mean()


@partial(jax.jit, static_argnames="rollout_length")
def compare(batch: RolloutBatch, critics: Layers, actors: list[Actor], rollout_length: int) -> tuple[Any, Any]:
    """[m] the value of each actor and the resets in its worst member, with common random numbers."""

    def one(actor: Actor) -> tuple[Any, Any]:
        rollouts = bootstrapped_returns(batch, critics, actor, rollout_length)
        return actor_value(rollouts, batch.lam), rollouts.reset.max(axis=0).mean()

    actor_values, resets = jax.vmap(one)(jax.tree.map(lambda *parts: jnp.stack(parts), *actors))
    return actor_values, resets


@partial(jax.jit, static_argnames="rollout_length")
def improve(batch: RolloutBatch, critics: Layers, actor: Actor, *, count: Any, rate: Any, rollout_length: int) -> Any:
    """The actor after `count` gradient steps on its value per step, each with its own noise and prices."""
    optimiser = optax.chain(optax.clip_by_global_norm(STEEP), optax.adam(rate))

    def one(i: Any, now: Any) -> Any:
        (trained, steps), (own, _) = now, _again(batch, i)
        share = 1.0 - own.config.discount
        gradient = jax.grad(
            lambda some: -share * actor_value(bootstrapped_returns(own, critics, some, rollout_length), own.lam)
        )(trained)
        gradient = jax.tree.map(lambda part: jnp.where(jnp.isfinite(part), part, 0.0), gradient)
        update, steps = optimiser.update(gradient, steps)
        return optax.apply_updates(trained, update), steps

    return jax.lax.fori_loop(0, count, one, (actor, optimiser.init(actor)))[0]


def between(one: Actor, other: Actor, part: float) -> Any:
    """The actor whose weights lie this part of the way from one to the other."""
    return jax.tree.map(lambda a, b: np.asarray(a + np.float32(part) * (b - a), dtype=np.float32), one, other)


def _again(batch: RolloutBatch, i: Any) -> tuple[RolloutBatch, Any]:
    """The batch with its own noise and prices for gradient step i, and a key for its other random numbers."""
    noise, prices, drawn = jax.random.split(jax.random.fold_in(jax.random.key(batch.config.seed), i), 3)
    lam = batch.lam * jnp.exp(SPREAD * jax.random.normal(prices, batch.lam.shape))
    return batch._replace(lam=lam, config=batch.config._replace(seed=jax.random.bits(noise, (), jnp.uint32))), drawn
