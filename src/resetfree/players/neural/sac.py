"""Soft actor-critic: an actor and two critics that learn from all transitions; a fall costs a fixed price.

After Haarnoja et al. (2018, "Soft actor-critic algorithms and applications"). Kept: two critics and their slow targets,
a squashed normal policy, a temperature that holds the entropy at -A, the settings that are usual for MuJoCo. Adapted:
gradient steps come at the end of an episode, as many per step as `updates` says; the end of an episode is no end of
life, only a fall is. Gradient steps are one compiled program, on batches that were drawn before (extra neural).

Legend: s, s' states before and after, a an action in [-1, 1]^A, r the reward, d whether s' is a reset state; pi the
actor, Q the critics, C the critics of cost (the discounted probability of a fall), alpha the temperature.
  target of Q  r + gamma (1 - d) (min Q'(s', a') - alpha log pi(a'|s'))
  target of C  d + gamma (1 - d) max C'(s', a')
  actor        minimises alpha log pi(a|s) - min Q(s, a) + lam max C(s, a)
A fall is the only end: the last step of an episode has a target like every other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.extras import Deferred, jitted
from resetfree.core.settings import Count, Range
from resetfree.game.contract import Plan, Round, check_multiplier
from resetfree.players.neural.networks import (
    LEAST_LOG,
    MOST_LOG,
    MOST_PRICE,
    Batch,
    Layers,
    NeuralPlayer,
    NeuralState,
    forward,
    policy_of,
    rectified,
    start_vector,
    uniform_layers,
)
from resetfree.problems.contract import State
from resetfree.problems.tanh_policy import no_policy

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")


Tree: TypeAlias = dict[str, Any]
CRITICS = 2
AGENT = ("actor", "critics", "costs", "late_critics", "late_costs", "log_alpha", "steps")


class Learning(NamedTuple):
    """Numbers that a gradient step depends on; no part of the compiled program, which all settings share."""

    rate: Any
    gamma: Any
    tau: Any


def fresh_actor_critic(size: int, n_actions: int, hidden: int, costs: bool, rng: np.random.Generator) -> Tree:
    """Networks before the first step, and their optimisers; size: D; costs: whether there are critics of cost."""
    networks: Tree = {
        "actor": uniform_layers((size, hidden, hidden, 2 * n_actions), rng),
        "critics": uniform_layers((size + n_actions, hidden, hidden, 1), rng, CRITICS),
        "log_alpha": np.zeros((), dtype=np.float32),
    }
    if costs:
        networks["costs"] = uniform_layers((size + n_actions, hidden, hidden, 1), rng, CRITICS)
    steps = {name: optax.adam(0.0).init(part) for name, part in networks.items()}
    late = {f"late_{name}": networks[name] for name in ("critics", "costs") if name in networks}
    return {**networks, **late, "steps": steps}


def normal_outputs(actor: Layers, s: Any) -> tuple[Any, Any]:
    """[B, A] each: mean, and logarithm of the standard deviation, before tanh."""
    mean, spread = jnp.split(forward(actor, s, jax.nn.relu), 2, axis=-1)
    return mean, jnp.clip(spread, LEAST_LOG, MOST_LOG)


def squashed_log(noise: Any, spread: Any, x: Any) -> Any:
    """[B] log density of tanh(x), x = mean + e^spread noise, in a form that does not overflow."""
    normal = -0.5 * noise**2 - spread - 0.5 * log(2.0 * pi)
    return (normal - 2.0 * (log(2.0) - x - jax.nn.softplus(-2.0 * x))).sum(axis=-1)


def draw_actions(actor: Layers, s: Any, noise: Any) -> tuple[Any, Any]:
    """[B, A] actions of standard normal numbers, and [B] the logarithms of their densities."""
    mean, spread = normal_outputs(actor, s)
    x = mean + jnp.exp(spread) * noise
    return jnp.tanh(x), squashed_log(noise, spread, x)


def values(critics: Layers, s: Any, a: Any) -> Any:
    """[2, B] of both critics."""
    return forward(critics, jnp.concatenate([s, a], axis=-1), jax.nn.relu)[..., 0]


def target(now: Any, dead: Any, later: Any, gamma: Any) -> Any:
    """[B] what comes now, and what comes later unless the agent fell."""
    return now + gamma * (1.0 - dead) * later


def wanted_values(tree: Tree, batch: Batch, noise: Any, how: Learning) -> tuple[Any, Any]:
    """[B] each: the targets of Q and of C, with actions of standard normal numbers [B, A] after each transition."""
    action, density = draw_actions(tree["actor"], batch.after, noise)
    later = values(tree["late_critics"], batch.after, action).min(axis=0) - jnp.exp(tree["log_alpha"]) * density
    wanted = target(batch.reward, batch.dead, later, how.gamma)
    if "late_costs" not in tree:
        return wanted, None
    risk = values(tree["late_costs"], batch.after, action).max(axis=0)
    return wanted, target(batch.dead, batch.dead, risk, how.gamma)


def _step(tree: Tree, batch: Batch, lam: Any, key: Any, how: Learning) -> Tree:
    """One gradient step of every network, in the order of Stable-Baselines3."""
    new, steps = dict(tree), dict(tree["steps"])

    def descend(name: str, loss: Any) -> None:
        update, steps[name] = optax.adam(how.rate).update(jax.grad(loss)(tree[name]), steps[name])
        new[name] = optax.apply_updates(tree[name], update)

    noise, noise_after = jax.random.normal(key, (2, *batch.action.shape), dtype=jnp.float32)
    alpha, entropy = jnp.exp(tree["log_alpha"]), -float(batch.action.shape[-1])
    _, density = draw_actions(tree["actor"], batch.state, noise)
    descend("log_alpha", lambda value: -(value * (density + entropy)).mean())
    wanted, risk = wanted_values(tree, batch, noise_after, how)
    descend("critics", lambda q: 0.5 * ((values(q, batch.state, batch.action) - wanted) ** 2).mean(axis=1).sum())
    if risk is not None:
        descend("costs", lambda c: 0.5 * ((values(c, batch.state, batch.action) - risk) ** 2).mean(axis=1).sum())

    def actor_loss(actor: Layers) -> Any:
        action, density = draw_actions(actor, batch.state, noise)
        worth = values(new["critics"], batch.state, action).min(axis=0)
        if risk is not None:
            worth -= lam * values(new["costs"], batch.state, action).max(axis=0)
        return (alpha * density - worth).mean()

    descend("actor", actor_loss)
    for name in ("critics", "costs") if risk is not None else ("critics",):
        new[f"late_{name}"] = optax.incremental_update(new[name], tree[f"late_{name}"], how.tau)
    return {**new, "steps": steps}


def improve(tree: Tree, batches: Batch, *, count: Any, seed: Any, first: Any, lam: Any, how: Learning) -> Tree:
    """The networks after the first `count` of the batches [n, B, ...]; step i takes its noise from seed and first + i.

    The count is no part of the shapes, so that episodes of all lengths share one program. What else the tree holds
    stays.
    """
    agent = {name: tree[name] for name in AGENT if name in tree}
    return {**tree, **_improve(agent, batches, count=count, seed=seed, first=first, lam=lam, how=how)}


@jitted()
def _improve(tree: Tree, batches: Batch, *, count: Any, seed: Any, first: Any, lam: Any, how: Learning) -> Tree:
    def one(i: Any, tree: Tree) -> Tree:
        batch = jax.tree.map(lambda field: field[i], batches)
        return _step(tree, batch, lam, jax.random.fold_in(jax.random.key(seed), first + i), how)

    return dict(jax.lax.fori_loop(0, count, one, tree))


Draw: TypeAlias = Callable[[tuple[int, int]], Batch]  # (n, B) -> batches [n, B, ...]
TOGETHER = 64  # gradient steps in one call of the compiled program
BATCHES, NOISE = 2, 3  # purposes of random numbers


@dataclass(frozen=True)
class SAC(NeuralPlayer):
    """Soft actor-critic on rewards r - price d, where d says whether the agent fell; the multiplier does not enter.

    Two critics, slow targets and a temperature that is learned. The policy of an episode does not change within it:
    gradient steps follow at its end, `updates` for each of its steps. The first `warmup` steps take every action with
    equal probability, and nothing is learned in them.

    tau: the share by which targets follow the critics in each gradient step.

    >>> SAC(updates=10).price
    0.0
    """

    name: ClassVar[str] = "sac"
    baseline: ClassVar[bool] = True
    costs: ClassVar[bool] = False  # whether there are critics of cost, weighted with the dual player's multiplier
    tau: Annotated[float, Range(above=0, most=1)] = 0.005
    updates: Annotated[int, Range(1, 1000)] = 1
    warmup: Count = 100

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Actor, critics, targets, temperature, and their optimisers."""
        return fresh_actor_critic(size, n_actions, self.hidden, self.costs, rng)

    def plan(self, state: NeuralState, s1: State, lam: float) -> Plan:
        """The actor's policy, whatever lam is; before anything is learned, every action is equally likely."""
        check_multiplier(lam)
        s = start_vector(s1)
        if state.updates == 0:
            return Plan(no_policy(state.box, len(s)), state.horizon / 2.0, 0.5)
        tree = state.tree
        policy = policy_of(tree["actor"], None, state.box)
        pair = np.concatenate([s, np.tanh(policy.outputs(s)[0])])
        worth = float(forward(tree["critics"], pair, rectified).min())
        v_c = float(np.clip(forward(tree["costs"], pair, rectified).max(), 0.0, 1.0)) if self.costs else state.falls()
        return Plan(policy, self.earnings(state, worth), v_c)

    def update(self, state: NeuralState, round: Round) -> NeuralState:
        """Keep the episode, and learn from all of them."""
        state.rows.add(round.episode)
        taken = state.taken()
        if len(taken) < max(1, self.warmup):
            return state
        steps = self.updates * len(round.episode.actions)
        tree, draw = self.prepare(state, taken, len(round.episode.actions))
        how = Learning(*(np.float32(one) for one in (self.learning_rate, self.gamma, self.tau)))
        lam, seed = np.float32(min(round.lam, MOST_PRICE)), state.word(NOISE)
        for done in range(0, steps, TOGETHER):
            batches, count = draw((TOGETHER, self.batch)), np.int32(min(TOGETHER, steps - done))
            tree = improve(tree, batches, count=count, seed=seed, first=state.step(done), lam=lam, how=how)
        state.keep(tree, steps, self.name)
        return state

    def prepare(self, state: NeuralState, taken: NDArray[np.int64], steps: int) -> tuple[Any, Draw]:
        """The networks, and where their batches come from: all transitions, each equally likely.

        taken: the rows at which transitions begin.  steps: of the latest episode.
        """
        rng = state.random(BATCHES)
        return state.tree, lambda shape: self.priced(state, rng.choice(taken, shape))
