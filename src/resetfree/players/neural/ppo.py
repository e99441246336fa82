"""Proximal policy optimisation: gradient steps on the latest steps alone; a fall costs a fixed price.

After Schulman et al. (2017, "Proximal policy optimization algorithms"). Kept: the clipped ratio, generalised
advantages, one deviation for all states, and the settings of Stable-Baselines3. Adapted: actions are squashed by tanh
where others cut them; a policy is kept for whole episodes, and learning begins at the end of the one in which `steps`
are complete; a transition is terminal only if the agent fell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.extras import Deferred, jitted
from resetfree.core.settings import Fraction, NonNegative, Positive, Range, expect
from resetfree.core.state import require
from resetfree.game.contract import Plan, Round, check_multiplier
from resetfree.game.replay_buffer import ReplayBuffer
from resetfree.players.neural.networks import (
    LEAST_LOG,
    MOST_LOG,
    Minibatch,
    NetworkPolicy,
    NeuralPlayer,
    NeuralState,
    forward,
    narrow,
    orthogonal_layers,
    policy_of,
    start_vector,
)
from resetfree.problems.action_spaces import to_unit
from resetfree.problems.contract import Problem, State

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")


# Proximal policy optimisation as one compiled program: many gradient steps on minibatches (extra neural).
#
# Legend: x an action before tanh, normal with mean m(s) and deviation e^log; old its log density under the policy that
# played it (the derivative of tanh is the same in both, and cancels in their ratio); V the value network.
#   loss  -min(w A, clip(w, 1 - c, 1 + c) A) + v (V(s) - return)^2 - e entropy,  w = e^(new - old),  A the advantage

LARGEST_LOG_RATIO = 20.0
NETWORKS = ("actor", "log", "value")


class Clipping(NamedTuple):
    """Numbers that a gradient step depends on."""

    rate: Any
    clip: Any  # c
    vf_coef: Any  # v
    ent_coef: Any  # e
    max_grad_norm: Any  # norm to which the gradient of all networks is clipped


class PlayedSteps(NamedTuple):
    """Steps that the policy itself has played, the same leading axes in each field."""

    state: Any  # [..., D]
    x: Any  # [..., A]
    old: Any  # [...]
    advantage: Any  # [...]
    wanted: Any  # [...] the return that the value network is to predict


def _optimiser(rate: Any, largest: Any) -> optax.GradientTransformation:
    return optax.chain(optax.clip_by_global_norm(largest), optax.adam(rate, eps=1e-5))


def fresh_policy_gradient(size: int, n_actions: int, hidden: int, rng: np.random.Generator) -> dict[str, Any]:
    """Networks before the first step, and their optimiser; size: D."""
    networks = {
        "actor": orthogonal_layers((size, hidden, hidden, n_actions), rng, last=0.01),
        "log": np.zeros(n_actions, dtype=np.float32),
        "value": orthogonal_layers((size, hidden, hidden, 1), rng, last=1.0),
    }
    return {**networks, "steps": _optimiser(0.0, 0.0).init(networks)}


def clipped_loss(networks: dict[str, Any], played: PlayedSteps, how: Clipping) -> Any:
    """The loss on one minibatch, its advantages brought to mean 0 and deviation 1."""
    spread = jnp.clip(networks["log"], LEAST_LOG, MOST_LOG)
    z = (played.x - forward(networks["actor"], played.state, jnp.tanh)) * jnp.exp(-spread)
    new = (-0.5 * z**2 - spread - 0.5 * log(2.0 * pi)).sum(axis=-1)
    ratio = jnp.exp(jnp.clip(new - played.old, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
    gain = (played.advantage - played.advantage.mean()) / (played.advantage.std(ddof=1) + 1e-8)
    near = jnp.clip(ratio, 1.0 - how.clip, 1.0 + how.clip)
    value = forward(networks["value"], played.state, jnp.tanh)[..., 0]
    entropy = (spread + 0.5 * log(2.0 * pi) + 0.5).sum()
    return (
        -jnp.minimum(ratio * gain, near * gain).mean()
        + how.vf_coef * ((value - played.wanted) ** 2).mean()
        - how.ent_coef * entropy
    )


@jitted()
def train(tree: dict[str, Any], minibatches: PlayedSteps, count: Any, how: Clipping) -> dict[str, Any]:
    """The networks after the first `count` of the minibatches [n, B, ...]."""

    def one(i: Any, tree: dict[str, Any]) -> dict[str, Any]:
        networks = {name: tree[name] for name in NETWORKS}
        played = jax.tree.map(lambda field: field[i], minibatches)
        gradient = jax.grad(clipped_loss)(networks, played, how)
        update, steps = _optimiser(how.rate, how.max_grad_norm).update(gradient, tree["steps"])
        return {**optax.apply_updates(networks, update), "steps": steps}

    return dict(jax.lax.fori_loop(0, count, one, tree))


# --------------------------------------------------------------------------------------------------------------------

TOGETHER = 64  # gradient steps in one call of the compiled program
ORDER = 4  # purpose of random numbers
INSIDE = 1.0 - 1e-15  # tanh has no inverse at 1


@dataclass
class PPOState(NeuralState):
    """Networks, and from which row on the steps are those of the policy that is played now."""

    since: int

    def check_loaded(self) -> None:
        """Raise InvalidInput unless the policy began with an episode."""
        require(self.rows.ends_at(self.since), "policy must begin with an episode")


@dataclass(frozen=True)
class PPO(NeuralPlayer):
    """The clipped surrogate on rewards r - price d, where d says whether the agent fell; the multiplier is ignored.

    steps: transitions before each phase of learning.
    epochs: passes over these transitions.
    clip: how far the ratio of densities may leave 1.
    gae_lambda: lambda of the generalised advantages.
    vf_coef: weight of the value's loss.
    ent_coef: weight of the entropy.
    max_grad_norm: the norm to which gradients are clipped.

    >>> PPO().steps, PPO().hidden
    (2048, 64)
    """

    name: ClassVar[str] = "ppo"
    baseline: ClassVar[bool] = True
    former_settings: ClassVar[Mapping[str, str]] = {
        "trace": "gae_lambda",
        "value_weight": "vf_coef",
        "entropy_weight": "ent_coef",
        "largest_gradient": "max_grad_norm",
    }
    hidden: Annotated[int, Range(1, 4096)] = 64
    batch: Annotated[int, Range(2, 65_536)] = 64
    steps: Annotated[int, Range(2, 1_000_000)] = 2048
    epochs: Annotated[int, Range(1, 1000)] = 10
    clip: Positive = 0.2
    gae_lambda: Fraction = 0.95
    vf_coef: NonNegative = 0.5
    ent_coef: NonNegative = 0.0
    max_grad_norm: Positive = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        expect(self.batch <= self.steps, "'batch' of ppo", f"be at most its 'steps', {self.steps}", self.batch)

    def init(self, problem: Problem, episodes: int, seed: int) -> PPOState:
        """Networks that have learned nothing."""
        return PPOState(**vars(super().init(problem, episodes, seed)), since=0)

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Actor, deviation, value, and their optimiser."""
        return fresh_policy_gradient(size, n_actions, self.hidden, rng)

    def plan(self, state: NeuralState, s1: State, lam: float) -> Plan:
        """The actor's policy, whatever lam is."""
        check_multiplier(lam)
        tree = state.tree
        value = float(forward(tree["value"], start_vector(s1), np.tanh)[0])
        return Plan(self._policy(state), self.earnings(state, value), state.falls())

    def update(self, state: NeuralState, round: Round) -> NeuralState:
        """Keep the episode; learn if enough steps of this policy are complete."""
        assert isinstance(state, PPOState)
        state.rows.add(round.episode)
        if round.rests_on < round.k - 1 and not self._policy(state).same(round.plan.policy):
            state.since = state.rows.n  # an older policy was played: its steps are none of this one
            return state
        taken = state.taken()
        latest = taken[np.searchsorted(taken, state.since) :]
        if len(latest) >= self.steps:
            self._learn(state, latest)
            state.since = state.rows.n
        return state

    def _policy(self, state: NeuralState) -> NetworkPolicy:
        tree = state.tree
        return policy_of(tree["actor"], tree["log"], state.box, smooth=True)

    def _learn(self, state: PPOState, index: NDArray[np.int64]) -> None:
        """All gradient steps on the transitions that begin at rows `index`."""
        tree, policy = state.tree, self._policy(state)
        pushed = to_unit(state.rows.action[index], *state.box.ends)
        x = np.arctanh(np.clip(pushed, -INSIDE, INSIDE))
        seen = self.priced(state, index)
        value, next_value = (forward(tree["value"], s, np.tanh)[:, 0] for s in (seen.state, seen.next_state))
        follows = goes_on(state.rows, index)
        advantage = advantages(seen, value, next_value, follows, gamma=self.gamma, gae_lambda=self.gae_lambda)
        mean, deviation = policy.outputs(seen.state)
        old = (-0.5 * ((x - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2.0 * np.pi)).sum(axis=1)
        played = PlayedSteps(seen.state, narrow(x), narrow(old), narrow(advantage), narrow(advantage + value))
        numbers = self.learning_rate, self.clip, self.vf_coef, self.ent_coef, self.max_grad_norm
        how = Clipping(*(np.float32(one) for one in numbers))
        picks = minibatches(len(index), self.batch, self.epochs, state.random(ORDER))
        for first in range(0, len(picks), TOGETHER):
            some = picks[first : first + TOGETHER]
            padded = np.resize(some, (TOGETHER, self.batch))  # one shape for all calls; `count` says how many matter
            tree = train(tree, PlayedSteps(*(field[padded] for field in played)), np.int32(len(some)), how)
        state.keep(tree, len(picks), self.name)


def goes_on(rows: ReplayBuffer, index: NDArray[np.int64]) -> Bools:
    """[n] whether the next of the transitions that begin at rows `index` goes on where this one ended.

    That is the next step of an episode, and also the first of the next episode if it starts in the state in which this
    one ended: a machine runs on, and an end of an episode means nothing to it.
    """
    ended, begun = index[:-1] + 1, index[1:]
    same = (rows.state[ended] == rows.state[begun]).all(axis=1) & ~rows.terminated[ended]
    return np.append((begun == ended) | (begun == ended + 1) & same, False)


def advantages(
    seen: Minibatch, value: Any, next_value: Any, follows: Bools, *, gamma: float, gae_lambda: float
) -> Floats:
    """[n] sum_i (gamma gae_lambda)^i delta_{j+i}, delta = r + gamma (1 - d) V(s') - V(s), along steps that follow.

    value, next_value: [n] V(s) and V(s').
    follows: [n] whether the next entry is the next step of the same trajectory, see `goes_on`. Where it is not and the
      agent did not fall, the sum is truncated, but V(s') stays.
    """
    delta = seen.reward + gamma * (1.0 - seen.terminated) * next_value - value
    found, kept = np.zeros(len(delta)), 0.0
    for j in range(len(delta) - 1, -1, -1):
        kept = delta[j] + (gamma * gae_lambda * (1.0 - seen.terminated[j]) * kept if follows[j] else 0.0)
        found[j] = kept
    return found


def minibatches(n: int, size: int, epochs: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """[epochs (n // size), size] the entries of all minibatches: each epoch in its own order, its rest left out."""
    whole = n // size * size
    return np.concatenate([rng.permutation(n)[:whole].reshape(-1, size) for _ in range(epochs)])
