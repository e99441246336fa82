"""Actor and critics, trained in rollouts of the ensemble by backpropagation through time. Needs the extra `neural`.

Legend: see `world_model`; u the utility of a step's reward (`Objective`), d the probability of a fall in a step, l the
probability not to have fallen before; g, g_f the discounts of utility and of falls; V, F the critics: discounted
utility and falls to come (two networks each, of which the worse counts); T steps of a rollout; L = 0.95.
  value of a rollout   sum_t g^t l_t (1 - d_t) u_t + g^T l_T V  -  price (sum_t g_f^t l_t d_t + g_f^T l_T F)
  actor                maximises the mean over members - pessimism x their deviation, from the same starts and noise
  targets              V_t = (1 - d_t)(u_t + g ((1 - L) V + L V_t+1)),  F_t = d_t + (1 - d_t) g_f ((1 - L) F + L F_t+1)

An actor is a linear policy and a small network that corrects it; as a policy of a run file it needs no JAX. D numbers
in a state, A in an action; u, v units of the hidden layers; z = (s - centre) / scale. It is {"skip": (weight [D, A],
bias [A]), "net": layers (D -> u -> v -> A)}, on the scale of z:  a = tanh(skip(z) + net(z)).
"""

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtri

from resetfree.core.arrays import Floats
from resetfree.core.extras import Deferred, jitted
from resetfree.core.state import require
from resetfree.players.neural.networks import FAR, LEAST_CHANCE, Layers, forward, normal_layers, uniform_layers
from resetfree.players.neural.world_model import Normaliser, StepRows, Tree, draw_rows, fit_step, fresh_model, stepped
from resetfree.problems.action_spaces import Box, from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.formula import Formula

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")


Actor: TypeAlias = dict[str, Any]


def first_actor(theta: Floats, hidden: int, rng: np.random.Generator) -> Actor:
    """The actor that begins as the policy theta [A, D + 1]: the last layer of its network is 0."""
    n_actions, size = theta.shape[0], theta.shape[1] - 1
    *inner, (weight, bias) = uniform_layers((size, hidden, hidden, n_actions), rng)
    layers = (*inner, (np.zeros_like(weight), np.zeros_like(bias)))
    narrow = theta.astype(np.float32)
    return {"skip": (np.ascontiguousarray(narrow[:, :-1].T), narrow[:, -1].copy()), "net": layers}


def pushes(actor: Actor, z: Any, activation: Any) -> Any:
    """[..., A] the actor's output before tanh, in z [..., D]; the same for NumPy and JAX."""
    weight, bias = actor["skip"]
    return z @ weight + bias + forward(actor["net"], z, activation)


@dataclass
class SkipPolicy(Policy):
    """The action middle + half (tanh(weight.s + bias + network(s)) + noise n) of a box; n is standard normal."""

    kind = "SkipPolicy"
    axes: ClassVar[dict[str, str]] = dict(weight="AD", bias="A", first="Du", first_bias="u", second="uv") | dict(
        second_bias="v", last="vA", last_bias="A", low="A", high="A"
    )
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]
    first: Floats  # [D, u]
    first_bias: Floats = field(metadata={"saved_as": "first_offset"})  # [u]
    second: Floats  # [u, v]
    second_bias: Floats = field(metadata={"saved_as": "second_offset"})  # [v]
    last: Floats  # [v, A]
    last_bias: Floats = field(metadata={"saved_as": "last_offset"})  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]
    noise: float = 0.0  # deviation of actions on [-1, 1], while it learns

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box and a noise."""
        require((self.low <= self.high).all() and self.noise >= 0.0, "policy must have a box of actions and a noise")

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action of the quantiles u; of u = 1/2 the one without noise."""
        x = np.clip(np.atleast_1d(np.asarray(s, dtype=np.float64)), -FAR, FAR)
        layers = (self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias)
        pushed = np.tanh(self.weight @ x + self.bias + forward(layers, x, np.tanh))
        normal = ndtri(np.clip(u, LEAST_CHANCE, 1.0 - LEAST_CHANCE))
        return from_unit(np.clip(pushed + self.noise * normal, -1.0, 1.0), self.low, self.high)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export."""
        x = state.clip(-FAR, FAR)
        layers = (self.first, self.first_bias), (self.second, self.second_bias), (self.last, self.last_bias)
        pushed = x.affine(self.weight.T, self.bias).add(x.layers(layers, smooth=True))
        return pushed.tanh().in_box(self.low, self.high)


def skip_policy(actor: Actor, scaling: Scaling, box: Box, noise: float = 0.0) -> SkipPolicy:
    """The policy of an actor, for states that are not scaled."""
    weight, bias, *rest = (np.asarray(part, dtype=np.float64) for part in (*actor["skip"], *_flat(actor["net"])))
    first, first_bias, *others = rest
    inner, outer = first / scaling.scale[:, None], weight / scaling.scale[:, None]
    first_bias = first_bias - scaling.centre @ inner
    second, second_bias, last, last_bias = others
    low, high = box.ends
    return SkipPolicy(
        weight=np.ascontiguousarray(outer.T),
        bias=bias - scaling.centre @ outer,
        first=inner,
        first_bias=first_bias,
        second=second,
        second_bias=second_bias,
        last=last,
        last_bias=last_bias,
        low=low,
        high=high,
        noise=noise,
    )


def _flat(layers: Layers) -> list[Any]:
    return [part for layer in layers for part in layer]


DISCOUNT, FALL_DISCOUNT, LAMBDA = 0.99, 0.995, 0.95
SATIATED = 0.5  # the weight of reward beyond the cap, against it, as a part of that below
VALUES = 30.0  # units of utility in an output of a critic
LOSS = 5.0  # units of utility in the actor's loss
ACTOR_RATE, MOST_GRADIENT = 5e-4, 0.5
CRITIC_RATE, MOST_CRITIC_GRADIENT, CRITIC_STEPS = 1e-3, 5.0, 2
FALL_LOSS = 0.3  # weight of the loss of F beside that of V
FOLLOW = 0.04  # the share by which targets follow the critics
MOST_CREDIT = 50.0  # units of utility: the largest gradient that one state of a rollout passes back
RECENT, HALF = 1500, 0.5  # latest rows from which half of the rollouts start
LEAST_SPREAD = 1e-4


class Objective(NamedTuple):
    """What actor and planner strive for: numbers that change during a run; no part of the compiled program."""

    base: Any  # the reward that counts 0
    unit: Any  # the range of rewards
    weight: Any  # of rewards beside falls
    cap: Any  # the reward beyond which more counts less
    price: Any  # of a fall, in the unit of rewards
    pessimism: Any  # deviations over members; negative where disagreement is sought
    spread: Any  # deviation of the planner's first samples, on [-1, 1]
    noise: Any  # of actions in rollouts


class PlanSizes(NamedTuple):
    """Sizes that a compiled program depends on."""

    batch: int  # transitions of a member in a gradient step
    starts: int  # of rollouts
    steps: int  # T
    members: int  # in the planner's rollouts
    samples: int  # of the planner
    rounds: int


def utility(reward: Any, aim: Objective) -> Any:
    """The utility of rewards in units of their range: weight (min(r, cap) - base - max(r - cap, 0) / 2)."""
    beyond = jnp.maximum(reward - aim.cap, 0.0)
    return aim.weight * (jnp.minimum(reward, aim.cap) - aim.base - SATIATED * beyond) / aim.unit


def fresh_learner(theta: Any, hidden: int, members: int, units: int, rng: np.random.Generator) -> Tree:
    """Everything that learns: the ensemble, an actor that begins as the linear policy theta, the critics.

    theta: [A, D + 1] on the scale of z.  hidden, units: of the ensemble's layers, and of actor and critics.
    """
    n_actions, size = theta.shape[0], theta.shape[1] - 1
    critics = normal_layers((size, units, units, 2), rng, last=0.1, copies=2)
    actor = first_actor(theta, units, rng)
    parts = {"actor": actor, "critics": critics, "targets": critics}
    steps = {"actor_steps": _actor_optimiser().init(actor), "critic_steps": _critic_optimiser().init(critics)}
    return {**parts, **steps, **fresh_model(size, n_actions, hidden, members, rng)}


def _actor_optimiser() -> Any:
    clip = optax.clip_by_global_norm(MOST_GRADIENT)
    return optax.chain(optax.zero_nans(), clip, optax.adam(ACTOR_RATE))


def _critic_optimiser() -> Any:
    clip = optax.clip_by_global_norm(MOST_CRITIC_GRADIENT)
    return optax.chain(optax.zero_nans(), clip, optax.adam(CRITIC_RATE))


def action_of(actor: Actor, z: Any) -> Any:
    """[..., A] the actor's action on [-1, 1]."""
    return jnp.tanh(pushes(actor, z, jnp.tanh))


def worst_values(critics: Layers, z: Any) -> tuple[Any, Any]:
    """The smaller V and the larger F [...] of the two critics at z [..., D]."""
    value, fall = _outputs(critics, z)
    return value.min(axis=0), jax.nn.sigmoid(fall.max(axis=0))


def _outputs(critics: Layers, z: Any) -> tuple[Any, Any]:
    """[2, ...] each: V, and the log odds of F, of both critics."""
    flat = z.reshape(-1, z.shape[-1])
    out = forward(critics, flat, jax.nn.silu).reshape(2, *z.shape[:-1], 2)
    return VALUES * out[..., 0], out[..., 1]


@cache
def _limited() -> Any:
    """The identity, which passes back a gradient of at most a given norm: long rollouts would let it explode."""

    @jax.custom_vjp
    def identity(z: Any, most: Any) -> Any:
        return z

    def back(most: Any, g: Any) -> Any:
        norm = jnp.sqrt((g**2).sum(axis=-1, keepdims=True))
        return jnp.where(jnp.isfinite(norm), g * jnp.minimum(1.0, most / (norm + 1e-12)), 0.0), jnp.zeros_like(most)

    identity.defvjp(lambda z, most: (z, most), back)
    return identity


class Rollout(NamedTuple):
    """Rollouts [T, E, B] of an actor in every member, and where they end."""

    z: Any  # [T, E, B, D] before each step
    alive: Any  # [T, E, B] l before it
    reward: Any
    fall: Any  # d
    last: Any  # [E, B, D] after the last step
    left: Any  # [E, B] l after it


def roll(actor: Actor, model: Layers, scales: Normaliser, z: Any, key: Any, aim: Objective, steps: int) -> Rollout:
    """Rollouts from z [B, D], with the same noise for all members."""
    members, n = model[0][0].shape[0], z.shape[0]
    most = MOST_CREDIT / (LOSS * n * members)

    def one(carry: Any, key: Any) -> Any:
        z, alive = carry
        first, second = jax.random.split(key)
        z = _limited()(z, jnp.float32(most))
        a = action_of(actor, z)
        a = jnp.clip(a + aim.noise * jax.random.normal(first, a.shape[1:]), -1.0, 1.0)
        noise = jax.random.normal(second, (n, z.shape[-1] + 1))
        after, reward, fall = stepped(model, scales, z, a, noise)
        return (after, alive * (1.0 - fall)), (z, alive, reward, fall)

    begin = jnp.broadcast_to(z, (members, *z.shape)), jnp.ones((members, n))
    (last, left), trace = jax.lax.scan(one, begin, jax.random.split(key, steps))
    z, alive, reward, fall = trace
    return Rollout(z=z, alive=alive, reward=reward, fall=fall, last=last, left=left)


def rollout_value(taken: Rollout, critics: Layers, aim: Objective) -> Any:
    """[E, B] the value of each rollout, see the legend."""
    steps = taken.reward.shape[0]
    t = jnp.arange(steps)[:, None, None]
    beyond, falls = worst_values(critics, taken.last)
    earned = (DISCOUNT**t * taken.alive * (1.0 - taken.fall) * utility(taken.reward, aim)).sum(axis=0)
    fallen = (FALL_DISCOUNT**t * taken.alive * taken.fall).sum(axis=0)
    earned += DISCOUNT**steps * taken.left * beyond
    return earned - aim.price * (fallen + FALL_DISCOUNT**steps * taken.left * falls)


def over_members(value: Any, aim: Objective) -> Any:
    """[...] the mean over members [E, ...] less their deviation times the pessimism."""
    return value.mean(axis=0) - aim.pessimism * jnp.sqrt(value.var(axis=0) + LEAST_SPREAD)


def improve_step(tree: Tree, rows: StepRows, n: Any, key: Any, aim: Objective, sizes: PlanSizes) -> Tree:
    """One gradient step of the actor, and steps of the critics on the same rollouts."""
    first, second = jax.random.split(key)
    starts = rows.z[draw_rows(first, (sizes.starts,), n, RECENT, HALF)]

    def loss(actor: Actor) -> Any:
        taken = roll(actor, tree["model"], tree["scales"], starts, second, aim, sizes.steps)
        return -over_members(rollout_value(taken, tree["critics"], aim), aim).mean() / LOSS, taken

    gradient, taken = jax.grad(loss, has_aux=True)(tree["actor"])
    update, actor_steps = _actor_optimiser().update(gradient, tree["actor_steps"])
    actor = optax.apply_updates(tree["actor"], update)
    taken = of_one_member(taken)
    value, fall = td_targets(taken, tree["targets"], aim)
    part = taken.alive / (taken.alive.mean() + 1e-6)

    def critic_loss(critics: Layers) -> Any:
        v, odds = _outputs(critics, taken.z)
        wrong = (((v - value) / VALUES) ** 2 * part).mean(axis=(1, 2, 3)).sum()
        return wrong + FALL_LOSS * ((jax.nn.softplus(odds) - odds * fall) * part).mean(axis=(1, 2, 3)).sum()

    critics, steps = tree["critics"], tree["critic_steps"]
    for _ in range(CRITIC_STEPS):
        update, steps = _critic_optimiser().update(jax.grad(critic_loss)(critics), steps)
        critics = optax.apply_updates(critics, update)
    targets = optax.incremental_update(critics, tree["targets"], FOLLOW)
    new = {"actor": actor, "actor_steps": actor_steps, "critics": critics, "critic_steps": steps, "targets": targets}
    return {**tree, **new}


def of_one_member(taken: Rollout) -> Rollout:
    """[T, 1, B] of each start the rollout in one member, in turn: critics need no more of states so much alike."""
    members, n = taken.left.shape
    at = (jnp.arange(n) % members)[None], jnp.arange(n)
    return Rollout(*(part[:, *at] for part in taken[:4]), *(part[at] for part in taken[4:]))


def td_targets(taken: Rollout, targets: Layers, aim: Objective) -> tuple[Any, Any]:
    """[T, E, B] each: the lambda-returns of V and F."""
    beyond = worst_values(targets, jnp.concatenate([taken.z[1:], taken.last[None]]))

    def back(carry: Any, now: Any) -> Any:
        value, falls = carry
        u, d, v, f = now
        value = (1.0 - d) * (u + DISCOUNT * ((1.0 - LAMBDA) * v + LAMBDA * value))
        falls = d + (1.0 - d) * FALL_DISCOUNT * ((1.0 - LAMBDA) * f + LAMBDA * falls)
        return (value, falls), (value, falls)

    last = beyond[0][-1], beyond[1][-1]
    _, found = jax.lax.scan(back, last, (utility(taken.reward, aim), taken.fall, *beyond), reverse=True)
    value, falls = found
    return jax.lax.stop_gradient(value), jax.lax.stop_gradient(falls)


class Work(NamedTuple):
    """How much is learned in one call; no part of the compiled program."""

    seed: Any
    first: Any  # the number of the first gradient step
    model: Any  # gradient steps of the ensemble
    actor: Any  # and of the actor


def learn_from(tree: Tree, rows: StepRows, n: Any, aim: Objective, work: Work, sizes: PlanSizes) -> Tree:
    """The learner after further gradient steps on the first n rows; may be mapped over learners."""
    key = jax.random.key(work.seed)

    def fit(i: Any, tree: Tree) -> Tree:
        return fit_step(tree, rows, n, jax.random.fold_in(key, 2 * (work.first + i)), sizes.batch)

    def improve(i: Any, tree: Tree) -> Tree:
        return improve_step(tree, rows, n, jax.random.fold_in(key, 2 * (work.first + i) + 1), aim, sizes=sizes)

    tree = jax.lax.fori_loop(0, work.model, fit, tree)
    return dict(jax.lax.fori_loop(0, work.actor, improve, tree))


@jitted("sizes")
def learn(tree: Tree, rows: StepRows, n: Any, aim: Objective, work: Work, sizes: PlanSizes) -> Tree:
    """`learn_from`, compiled."""
    return learn_from(tree, rows, n, aim, work, sizes=sizes)
