"""Model-based policy optimisation with a price on falls: soft actor-critic on short rollouts of an ensemble.

After Janner, Fu, Zhang and Levine (2019, "When to trust your model") and Thomas, Luo and Ma (2021, "Safe reinforcement
learning by imagining the near future"). Kept: an ensemble of networks that predict means and variances, rollouts of a
few steps from visited states, one member drawn at each step, many gradient steps of the actor-critic per step, a small
share of real transitions in each batch, a large price for predicted falls. Adapted: falls are predicted by the ensemble
too (Thomas et al. know which states are unsafe); the ensemble is trained for a fixed number of gradient steps at the
end of each episode, in place of a validation set and elite members; transitions of rollouts are not kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.extras import Deferred, jitted
from resetfree.core.settings import Fraction, Range
from resetfree.players.neural.networks import (
    Layers,
    Minibatch,
    NeuralState,
    Price,
    Rate,
    Size,
    forward,
    narrow,
    replayed,
    uniform_layers,
)
from resetfree.players.neural.sac import SAC, Draw, draw_actions

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")


# An ensemble of networks that predicts a machine, and short model rollouts (extra neural).
#
# Legend: z = (s - centre) / scale; y = ((s' - s) / change, (r - mean of r) / deviation of r) [D + 1] what a step
# brings, normal with mean m and variance e^l given (z, a); p the probability of a fall given (z, a, z'); E members,
# each of two networks (the first would drown the second, for falls are rare) and with batches of its own.
#   loss of a member  (y - m)^2 e^-l + l, summed over y, and the cross-entropy of p

Model: TypeAlias = dict[str, Layers]
LEAST_LOG_VARIANCE, MOST_LOG_VARIANCE = -10.0, 0.5
LEAST_SCALE = 1e-3  # of a sensor that does not move


class ModelScales(NamedTuple):
    """The scales of the transitions seen; float32."""

    centre: Any  # [D]
    scale: Any  # [D]
    change: Any  # [D] deviation of s' - s
    low: Any  # [D] what states of rollouts are clipped to: the visited range, and its width on both sides
    high: Any  # [D]
    mean: Any  # of the reward
    deviation: Any
    least: Any  # reward seen
    most: Any
    odds: Any  # log odds of a fall in any step: the output of a fresh network


def scales_of(seen: Minibatch) -> ModelScales:
    """The scales of transitions [n]."""
    least, most = (
        np.minimum(seen.state.min(0), seen.next_state.min(0)),
        np.maximum(seen.state.max(0), seen.next_state.max(0)),
    )
    made = ModelScales(
        centre=seen.state.mean(axis=0),
        scale=np.maximum(seen.state.std(axis=0), LEAST_SCALE),
        change=np.maximum((seen.next_state - seen.state).std(axis=0), LEAST_SCALE),
        low=least - (most - least),
        high=most + (most - least),
        mean=seen.reward.mean(),
        deviation=np.maximum(seen.reward.std(), LEAST_SCALE),
        least=seen.reward.min(),
        most=seen.reward.max(),
        odds=np.log((seen.terminated.sum() + 0.5) / ((1.0 - seen.terminated).sum() + 0.5)),
    )
    return ModelScales(*(narrow(one) for one in made))


def fresh_ensemble(size: int, n_actions: int, hidden: int, members: int, rng: np.random.Generator) -> dict[str, Any]:
    """The ensemble before the first step, and its optimiser; size: D."""
    model = {
        "moves": uniform_layers((size + n_actions, hidden, hidden, 2 * (size + 1)), rng, members),
        "falls": uniform_layers((2 * size + n_actions, hidden, hidden, 1), rng, members),
    }
    return {"model": model, "model_steps": optax.adam(0.0).init(model)}


def moves(model: Model, s: Any, a: Any, scales: ModelScales) -> tuple[Any, Any]:
    """[E, B, D + 1] mean and logarithm of the variance of y, which is kept between two bounds."""
    z = (s - scales.centre) / scales.scale
    mean, log = jnp.split(forward(model["moves"], jnp.concatenate([z, a], axis=-1), jax.nn.silu), 2, axis=-1)
    log = MOST_LOG_VARIANCE - jax.nn.softplus(MOST_LOG_VARIANCE - log)
    return mean, LEAST_LOG_VARIANCE + jax.nn.softplus(log - LEAST_LOG_VARIANCE)


def fall_odds(model: Model, s: Any, a: Any, next_state: Any, scales: ModelScales) -> Any:
    """[E, B] log odds of a fall in the step from s to `next_state`."""
    z, next_z = ((one - scales.centre) / scales.scale for one in (s, next_state))
    return scales.odds + forward(model["falls"], jnp.concatenate([z, a, next_z], axis=-1), jax.nn.silu)[..., 0]


def model_loss(model: Model, batch: Minibatch, scales: ModelScales) -> Any:
    """The loss of all members on batches [E, B, ...]."""
    mean, log = moves(model, batch.state, batch.action, scales)
    odds = fall_odds(model, batch.state, batch.action, batch.next_state, scales)
    reward = (batch.reward - scales.mean) / scales.deviation
    y = jnp.concatenate([(batch.next_state - batch.state) / scales.change, reward[..., None]], axis=-1)
    misses = ((y - mean) ** 2 * jnp.exp(-log) + log).sum(axis=-1)
    return (misses + optax.sigmoid_binary_cross_entropy(odds, batch.terminated)).mean(axis=-1).sum()


@jitted()
def fit(tree: dict[str, Any], batches: Minibatch, *, count: Any, rate: Any, scales: ModelScales) -> dict[str, Any]:
    """The ensemble after the first `count` of the batches [n, E, B, ...]; other parts of the tree stay."""

    def one(i: Any, now: Any) -> Any:
        model, steps = now
        gradient = jax.grad(model_loss)(model, jax.tree.map(lambda field: field[i], batches), scales)
        update, steps = optax.adam(rate).update(gradient, steps)
        return optax.apply_updates(model, update), steps

    model, steps = jax.lax.fori_loop(0, count, one, (tree["model"], tree["model_steps"]))
    return {**tree, "model": model, "model_steps": steps}


@jitted("rollout_length")
def rollout(
    tree: dict[str, Any], starts: Any, *, seed: Any, first: Any, scales: ModelScales, rollout_length: int
) -> Minibatch:
    """[rollout_length, n, ...] transitions of model rollouts of the actor from `starts` [n, D].

    Each step is that of one member, drawn anew. A rollout that fell begins again at its start.
    """

    def one(s: Any, key: Any) -> tuple[Any, Minibatch]:
        who, acting, chance, fall = jax.random.split(key, 4)
        a, _ = draw_actions(
            tree["actor"], s, jax.random.normal(acting, (len(s), tree["actor"][-1][1].size // 2), jnp.float32)
        )
        every = moves(tree["model"], s, a, scales)
        drawn = jax.random.randint(who, (len(s),), 0, len(every[0])), jnp.arange(len(s))
        mean, log = (part[drawn] for part in every)
        y = mean + jnp.exp(0.5 * log) * jax.random.normal(chance, mean.shape, jnp.float32)
        next_state = jnp.clip(s + scales.change * y[:, :-1], scales.low, scales.high)
        reward = jnp.clip(scales.mean + scales.deviation * y[:, -1], scales.least, scales.most)
        odds = fall_odds(tree["model"], s, a, next_state, scales)[drawn]
        terminated = jax.random.uniform(fall, odds.shape, jnp.float32) < jax.nn.sigmoid(odds)
        transitions = Minibatch(s, a, reward, next_state, terminated.astype(jnp.float32))
        return jnp.where(terminated[:, None], starts, next_state), transitions

    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), first), rollout_length)
    return Minibatch(*jax.lax.scan(one, starts, keys)[1])


# --------------------------------------------------------------------------------------------------------------------

TOGETHER = 16  # gradient steps of the ensemble in one call of the compiled program
FITTING, STARTING, ROLLING_OUT = 5, 6, 7  # purposes of random numbers


@dataclass(frozen=True)
class MBPO(SAC):
    """Soft actor-critic on rewards r - price d, on transitions of model rollouts and a share of real ones.

    members: networks in the ensemble.
    model_hidden: units in each of their hidden layers.
    model_rate: their learning rate.
    model_steps: their gradient steps for each step of an episode.
    n_rollouts: model rollouts after each episode.
    rollout_length: steps of each rollout.
    real: share of real transitions in each batch.

    >>> MBPO().price, MBPO().gradient_steps
    (100.0, 20)
    """

    name: ClassVar[str] = "mbpo"
    former_settings: ClassVar[Mapping[str, str]] = {
        **SAC.former_settings,
        "fits": "model_steps",
        "imagined": "n_rollouts",
        "ahead": "rollout_length",
    }
    price: Price = 100.0
    gradient_steps: Annotated[int, Range(1, 1000)] = 20
    members: Annotated[int, Range(1, 100)] = 5
    model_hidden: Annotated[int, Range(1, 4096)] = 200
    model_rate: Rate = 1e-3
    model_steps: Annotated[int, Range(1, 1000)] = 4
    n_rollouts: Size = 4096
    rollout_length: Annotated[int, Range(1, 100)] = 4
    real: Fraction = 0.05

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """The actor-critic and the ensemble."""
        agent = super().fresh(size, n_actions, rng)
        return {**agent, **fresh_ensemble(size, n_actions, self.model_hidden, self.members, rng)}

    def prepare(self, state: NeuralState, taken: NDArray[np.int64], steps: int) -> tuple[Any, Draw]:
        """Fit the ensemble and roll the actor out in it: batches mix real transitions and those of rollouts."""
        tree, real_draw = super().prepare(state, taken, steps)
        ends, rng = state.box.ends, state.random(FITTING)
        scales, shape = scales_of(replayed(state.rows, taken, ends)), (TOGETHER, self.members, self.batch)
        model_steps, rate = self.model_steps * steps, np.float32(self.model_rate)
        for done in range(0, model_steps, TOGETHER):
            batches, count = replayed(state.rows, rng.choice(taken, shape), ends), min(TOGETHER, model_steps - done)
            tree = fit(tree, batches, count=np.int32(count), rate=rate, scales=scales)
        starts = replayed(state.rows, state.random(STARTING).choice(taken, self.n_rollouts), ends).state
        seed, first = state.word(ROLLING_OUT), state.step(0)
        transitions = rollout(tree, starts, seed=seed, first=first, scales=scales, rollout_length=self.rollout_length)
        pool = self.charged(Minibatch(*(np.asarray(one).reshape(-1, *one.shape[2:]) for one in transitions)))
        return tree, lambda shape: self._mixed(pool, real_draw, shape, rng)

    def _mixed(self, pool: Minibatch, real_draw: Draw, shape: tuple[int, int], rng: np.random.Generator) -> Minibatch:
        """Batches [n, B, ...] whose first entries are real."""
        n, size = shape
        real = round(self.real * size)
        picks = rng.integers(len(pool.reward), size=(n, size - real))
        parts = zip(real_draw((n, real)), (one[picks] for one in pool), strict=True)
        return Minibatch(*(np.concatenate(pair, axis=1) for pair in parts))
