"""Critics of imagined lives: what lies beyond their end, and with it what an actor is worth, and how it improves.

Needs the extra `neural`.

Legend: see `network_model`; g the discount; d_t the danger of step t, z_t the state before it; V the critic of reward,
C_1, C_2 those of cost, functions of (z, log(1 + lam)) for the policy that is played; L = 0.95.
  V    the reward to come,  V(z_t) = E[r_t + g (1 - d_t) V(z_t+1)]
  C_i  the discounted chance of a reset to come,  C_i(z_t) = E[d_t + g (1 - d_t) max(C_1, C_2)(z_t+1)]
  target of a critic  G_t = now + g (1 - d_t) ((1 - L) later + L G_t+1); at the end of a life G is what the critics say
  worth of an actor   the mean over starts of  (mean over members of R) - lam max over members of C
where R and C are sums over an imagined life and, beyond its end, what V and the worse of C_1 and C_2 say. So lives may
be short, and a policy is compared by what comes of it if the one that is played takes over at their end. Critics say
numbers in [0, 1]: (1 - g) V, as rewards are in [0, 1], and C_i.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from resetfree.players.neural.network_model import Imagined, Path, Scene, beside, imagine, walk
from resetfree.players.neural.networks import Layers, forward, uniform_layers
from resetfree.players.neural.skip_policy import Actor

CRITICS = 3  # of reward, and two of cost
TRACE = 0.95  # L
REUSED = 4  # gradient steps of the critics on the same imagined lives
SEEN = 0.5  # part of the steps that a critic learns from in a gradient step: each from others, so that they differ
STEEP = 1.0  # norm at which the gradient of an actor is cut
SPREAD = 0.5  # deviation of log lam around the price that is played, while networks are trained


def fresh_critics(size: int, hidden: int, rng: np.random.Generator) -> dict[str, Any]:
    """Critics that know nothing, and their optimiser; size: D."""
    layers = uniform_layers((size + 1, hidden, hidden, 1), rng, CRITICS)
    return {"critics": layers, "critic_steps": optax.adam(0.0).init(layers)}


def opinions(critics: Layers, z: Any, lam: Any) -> Any:
    """[3, ...] the log odds of what each critic says of z [..., n, D]; lam: [n]."""
    price = jnp.broadcast_to(jnp.log1p(lam)[:, None], (*z.shape[:-1], 1))
    x = beside(z, price).reshape(-1, z.shape[-1] + 1)
    with jax.default_matmul_precision("float32"):
        return forward(critics, x, jnp.tanh).reshape(CRITICS, *z.shape[:-1])


def values(critics: Layers, z: Any, lam: Any) -> tuple[Any, Any]:
    """[...] each: (1 - g) V of z [..., n, D], and the worse of C_1 and C_2."""
    said = jax.nn.sigmoid(opinions(critics, z, lam))
    return said[0], said[1:].max(axis=0)


def targets(critics: Layers, path: Path, lam: Any, discount: Any) -> Any:
    """[2, P, E, n] what critics should say of reward and of cost before each step of lives."""
    later = jnp.stack(values(critics, path.z[1:], lam), axis=1)
    now = jnp.stack([(1.0 - discount) * path.reward, path.danger], axis=1)
    lives = discount * (1.0 - path.danger[:, None])

    def one(after: Any, step: Any) -> Any:
        now, later, lives = step
        wanted = now + lives * ((1.0 - TRACE) * later + TRACE * after)
        return wanted, wanted

    wanted = jax.lax.scan(one, later[-1], (now, later, lives), reverse=True)[1]
    return jnp.clip(jnp.moveaxis(wanted, 1, 0), 0.0, 1.0)


def critics_loss(critics: Layers, path: Path, lam: Any, wanted: Any, counted: Any) -> Any:
    """The mean cross-entropy of all critics; least where they say the mean target. counted: [3, P, E, n] weights."""
    said = opinions(critics, path.z[:-1], lam)
    loss = optax.sigmoid_binary_cross_entropy(said, jnp.stack([wanted[0], wanted[1], wanted[1]]))
    return ((counted * loss).sum(axis=(1, 2, 3)) / (counted.sum(axis=(1, 2, 3)) + 1e-6)).sum()


@partial(jax.jit, static_argnames="ahead")
def learn_values(
    scene: Scene, critics: dict[str, Any], actor: Actor, *, count: Any, rate: Any, ahead: int
) -> dict[str, Any]:
    """The critics of an actor, and their optimiser, after `count` sets of imagined lives with their own luck."""

    def one(i: Any, now: Any) -> Any:
        own, drawn = _again(scene, i)
        path = walk(own, actor, ahead)

        def learn(j: Any, now: Any) -> Any:
            layers, steps = now
            some = jax.random.uniform(jax.random.fold_in(drawn, j), (CRITICS, *path.reward.shape)) < SEEN
            wanted = targets(layers, path, own.lam, own.manner.discount)
            slope = jax.grad(critics_loss)(layers, path, own.lam, wanted, path.weight[:-1] * some)
            update, steps = optax.adam(rate).update(slope, steps)
            return optax.apply_updates(layers, update), steps

        return jax.lax.fori_loop(0, REUSED, learn, now)

    layers, steps = jax.lax.fori_loop(0, count, one, (critics["critics"], critics["critic_steps"]))
    return {"critics": layers, "critic_steps": steps}


def whole_lives(scene: Scene, critics: Layers, actor: Actor, ahead: int) -> Imagined:
    """Imagined lives with what the critics say of what lies beyond their end."""
    lives = imagine(scene, actor, ahead)
    earned, cost = values(critics, lives.end, scene.lam)
    reward = lives.reward + lives.left * earned / (1.0 - scene.manner.discount)
    return lives._replace(reward=reward, reset=lives.reset + lives.left * cost)


def worth(lives: Imagined, lam: Any) -> Any:
    """The worth of an actor: the worst member's resets count."""
    return (lives.reward.mean(axis=0) - lam * lives.reset.max(axis=0)).mean()


@partial(jax.jit, static_argnames="ahead")
def compare(scene: Scene, critics: Layers, actors: list[Actor], ahead: int) -> tuple[Any, Any]:
    """[m] the worth of each actor and the resets in its worst member, on the same luck."""

    def one(actor: Actor) -> tuple[Any, Any]:
        lives = whole_lives(scene, critics, actor, ahead)
        return worth(lives, scene.lam), lives.reset.max(axis=0).mean()

    worths, resets = jax.vmap(one)(jax.tree.map(lambda *parts: jnp.stack(parts), *actors))
    return worths, resets


@partial(jax.jit, static_argnames="ahead")
def improve(scene: Scene, critics: Layers, actor: Actor, *, count: Any, rate: Any, ahead: int) -> Any:
    """The actor after `count` gradient steps on its worth per step, each with its own luck and prices."""
    optimiser = optax.chain(optax.clip_by_global_norm(STEEP), optax.adam(rate))

    def one(i: Any, now: Any) -> Any:
        (trained, steps), (own, _) = now, _again(scene, i)
        share = 1.0 - own.manner.discount
        slope = jax.grad(lambda some: -share * worth(whole_lives(own, critics, some, ahead), own.lam))(trained)
        slope = jax.tree.map(lambda part: jnp.where(jnp.isfinite(part), part, 0.0), slope)
        update, steps = optimiser.update(slope, steps)
        return optax.apply_updates(trained, update), steps

    return jax.lax.fori_loop(0, count, one, (actor, optimiser.init(actor)))[0]


def between(one: Actor, other: Actor, part: float) -> Any:
    """The actor whose weights lie this part of the way from one to the other."""
    return jax.tree.map(lambda a, b: np.asarray(a + np.float32(part) * (b - a), dtype=np.float32), one, other)


def _again(scene: Scene, i: Any) -> tuple[Scene, Any]:
    """The scene with luck and prices of its own for gradient step i, and a key for what else is drawn in it."""
    luck, prices, drawn = jax.random.split(jax.random.fold_in(jax.random.key(scene.manner.seed), i), 3)
    lam = scene.lam * jnp.exp(SPREAD * jax.random.normal(prices, scene.lam.shape))
    return scene._replace(lam=lam, manner=scene.manner._replace(seed=jax.random.bits(luck, (), jnp.uint32))), drawn
