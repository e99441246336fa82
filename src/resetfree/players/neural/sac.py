"""Soft actor-critic: an actor and two critics that learn from all transitions; a fall costs a fixed price.

After Haarnoja et al. (2018, "Soft actor-critic algorithms and applications"). Kept: two critics and their slow targets,
a squashed normal policy, a temperature that holds the entropy at -A, the settings that are usual for MuJoCo. Adapted:
gradient steps come at the end of an episode, `gradient_steps` for each of its steps; a transition is terminal only if
the agent fell. Gradient steps are one compiled program, on batches that were drawn before (extra neural).

Legend: s, s' states before and after, a an action in [-1, 1]^A, r the reward, d whether s' is a reset state; pi the
actor, Q the critics, C the critics of cost (the discounted probability of a fall), alpha the temperature.
  target of Q  r + gamma (1 - d) (min Q'(s', a') - alpha log pi(a'|s'))
  target of C  d + gamma (1 - d) max C'(s', a')
  actor        minimises alpha log pi(a|s) - min Q(s, a) + lam max C(s, a)
Only a fall is terminal: the last step of an episode has a target like every other.

`SACLagrangian` is after Ha, Xu, Tan, Levine and Tan (2020, "Learning to walk in the real world with minimal human
effort") and Yang et al. (2021, "WCSAC"). Kept: separate critics of cost, and a multiplier that is learned beside the
actor. Adapted: the multiplier is that of the dual player (by default it counts falls); of two critics of cost the worse
one counts; the cost is a fall, after which nothing follows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.extras import Deferred, jitted
from resetfree.core.settings import Count, Range
from resetfree.game.capabilities import Partner
from resetfree.game.contract import Plan, Prediction, Round, check_multiplier
from resetfree.players.neural.networks import (
    LEAST_LOG,
    MOST_LOG,
    MOST_PRICE,
    Layers,
    Minibatch,
    NeuralPlayer,
    NeuralState,
    forward,
    policy_of,
    rectified,
    start_vector,
    uniform_layers,
)
from resetfree.problems.contract import State
from resetfree.problems.formula import no_policy

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")


Tree: TypeAlias = dict[str, Any]
CRITICS = 2
# The target networks. JAX orders a dictionary by its keys, and checkpoints have that order: these keys stay.
TARGETS = {"critics": "late_critics", "costs": "late_costs"}
AGENT = ("actor", "critics", "costs", *TARGETS.values(), "log_alpha", "steps")


class Learning(NamedTuple):
    """Numbers that a gradient step depends on; no part of the compiled program, which all settings share."""

    rate: Any
    gamma: Any
    tau: Any


def fresh_actor_critic(
    size: int, n_actions: int, hidden: int, costs: bool, rng: np.random.Generator, critics: int = CRITICS
) -> Tree:
    """Networks before the first step, and their optimisers.

    size: D.
    costs: whether there are critics of cost.
    critics: how many others, of which the smallest counts.
    """
    networks: Tree = {
        "actor": uniform_layers((size, hidden, hidden, 2 * n_actions), rng),
        "critics": uniform_layers((size + n_actions, hidden, hidden, 1), rng, critics),
        "log_alpha": np.zeros((), dtype=np.float32),
    }
    if costs:
        networks["costs"] = uniform_layers((size + n_actions, hidden, hidden, 1), rng, CRITICS)
    steps = {name: optax.adam(0.0).init(part) for name, part in networks.items()}
    targets = {own: networks[name] for name, own in TARGETS.items() if name in networks}
    return {**networks, **targets, "steps": steps}


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
    """[n, B] of all critics."""
    return forward(critics, jnp.concatenate([s, a], axis=-1), jax.nn.relu)[..., 0]


def target(now: Any, terminated: Any, later: Any, gamma: Any) -> Any:
    """[B] the TD target: what comes now, and the discounted rest unless the agent fell."""
    return now + gamma * (1.0 - terminated) * later


def td_targets(tree: Tree, batch: Minibatch, noise: Any, how: Learning) -> tuple[Any, Any]:
    """[B] each: the TD targets of Q and of C; noise: [B, A] standard normal numbers for the next actions."""
    action, density = draw_actions(tree["actor"], batch.next_state, noise)
    later = (
        values(tree[TARGETS["critics"]], batch.next_state, action).min(axis=0) - jnp.exp(tree["log_alpha"]) * density
    )
    wanted = target(batch.reward, batch.terminated, later, how.gamma)
    if TARGETS["costs"] not in tree:
        return wanted, None
    risk = values(tree[TARGETS["costs"]], batch.next_state, action).max(axis=0)
    return wanted, target(batch.terminated, batch.terminated, risk, how.gamma)


def gradient_step(tree: Tree, batch: Minibatch, lam: Any, key: Any, how: Learning) -> Tree:
    """One gradient step of every network, in the order of Stable-Baselines3."""
    new, steps = dict(tree), dict(tree["steps"])

    def descend(name: str, loss: Any) -> None:
        update, steps[name] = optax.adam(how.rate).update(jax.grad(loss)(tree[name]), steps[name])
        new[name] = optax.apply_updates(tree[name], update)

    noise, next_noise = jax.random.normal(key, (2, *batch.action.shape), dtype=jnp.float32)
    alpha, entropy = jnp.exp(tree["log_alpha"]), -float(batch.action.shape[-1])
    _, density = draw_actions(tree["actor"], batch.state, noise)
    descend("log_alpha", lambda value: -(value * (density + entropy)).mean())
    wanted, risk = td_targets(tree, batch, next_noise, how)
    descend("critics", lambda q: 0.5 * ((values(q, batch.state, batch.action) - wanted) ** 2).mean(axis=1).sum())
    if risk is not None:
        descend("costs", lambda c: 0.5 * ((values(c, batch.state, batch.action) - risk) ** 2).mean(axis=1).sum())

    def actor_loss(actor: Layers) -> Any:
        action, density = draw_actions(actor, batch.state, noise)
        value = values(new["critics"], batch.state, action).min(axis=0)
        if risk is not None:
            value -= lam * values(new["costs"], batch.state, action).max(axis=0)
        return (alpha * density - value).mean()

    descend("actor", actor_loss)
    for name in ("critics", "costs") if risk is not None else ("critics",):
        new[TARGETS[name]] = optax.incremental_update(new[name], tree[TARGETS[name]], how.tau)
    return {**new, "steps": steps}


def improve(tree: Tree, batches: Minibatch, *, count: Any, seed: Any, first: Any, lam: Any, how: Learning) -> Tree:
    """The networks after the first `count` of the batches [n, B, ...]; other parts of the tree stay.

    count: no part of the shapes, so that episodes of all lengths share one program.
    seed, first: step i takes its noise from seed and first + i.
    """
    agent = {name: tree[name] for name in AGENT if name in tree}
    return {**tree, **_improve(agent, batches, count=count, seed=seed, first=first, lam=lam, how=how)}


@jitted()
def _improve(tree: Tree, batches: Minibatch, *, count: Any, seed: Any, first: Any, lam: Any, how: Learning) -> Tree:
    def one(i: Any, tree: Tree) -> Tree:
        batch = jax.tree.map(lambda field: field[i], batches)
        return gradient_step(tree, batch, lam, jax.random.fold_in(jax.random.key(seed), first + i), how)

    return dict(jax.lax.fori_loop(0, count, one, tree))


Draw: TypeAlias = Callable[[tuple[int, int]], Minibatch]  # (n, B) -> batches [n, B, ...]
TOGETHER = 64  # gradient steps in one call of the compiled program
BATCHES, NOISE = 2, 3  # purposes of random numbers


@dataclass(frozen=True)
class SAC(NeuralPlayer):
    """Soft actor-critic on rewards r - price d, where d says whether the agent fell; the multiplier does not enter.

    Two critics with target networks, and a learned temperature. The policy does not change within an episode: gradient
    steps follow at its end.

    tau: the share by which targets follow the critics in each gradient step.
    gradient_steps: for each step of an episode.
    learning_starts: steps with uniformly random actions before the first gradient step.

    >>> SAC(gradient_steps=10).price
    0.0
    """

    name: ClassVar[str] = "sac"
    baseline: ClassVar[bool] = True
    former_settings: ClassVar[Mapping[str, str]] = {"updates": "gradient_steps", "warmup": "learning_starts"}
    costs: ClassVar[bool] = False  # whether there are critics of cost, weighted with the dual player's multiplier
    tau: Annotated[float, Range(above=0, most=1)] = 0.005
    gradient_steps: Annotated[int, Range(1, 1000)] = 1
    learning_starts: Count = 100

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """Actor, critics, targets, temperature, and their optimisers."""
        return fresh_actor_critic(size, n_actions, self.hidden, self.costs, rng)

    def plan(self, state: NeuralState, s1: State, lam: float) -> Plan:
        """The actor's policy, whatever lam is; before the first gradient step, every action is equally likely."""
        check_multiplier(lam)
        s = start_vector(s1)
        if state.gradient_steps == 0:
            return Plan(no_policy(state.box, len(s)), state.horizon / 2.0, 0.5)
        tree = state.tree
        policy = policy_of(tree["actor"], None, state.box)
        pair = np.concatenate([s, np.tanh(policy.outputs(s)[0])])[None]  # a batch of one: critics are stacked
        value = float(forward(tree["critics"], pair, rectified).min())
        v_c = float(np.clip(forward(tree["costs"], pair, rectified).max(), 0.0, 1.0)) if self.costs else state.falls()
        return Plan(policy, self.earnings(state, value), v_c)

    def update(self, state: NeuralState, round: Round) -> NeuralState:
        """Keep the episode, and learn from all of them."""
        state.rows.add(round.episode)
        taken = state.taken()
        if len(taken) < max(1, self.learning_starts):
            return state
        steps = self.gradient_steps * len(round.episode.actions)
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

        taken: the rows at which transitions begin.
        steps: of the latest episode.
        """
        rng = state.random(BATCHES)
        return state.tree, lambda shape: self.priced(state, rng.choice(taken, shape))


@dataclass(frozen=True)
class SACLagrangian(SAC):
    """Soft actor-critic whose actor maximises Q - lam C with the multiplier lam of the latest round.

    A plan for another lam has the same policy: it follows the multiplier only as fast as gradient steps do.

    >>> SACLagrangian.partner().dual
    'counting'
    """

    name: ClassVar[str] = "sac-lagrangian"
    prediction: ClassVar[Prediction] = "high"
    costs: ClassVar[bool] = True

    @classmethod
    def partner(cls) -> Partner:
        """A multiplier that grows with each fall: the critics of cost are too often wrong to be its feedback."""
        return Partner("counting", "realised")
