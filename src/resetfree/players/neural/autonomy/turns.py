"""What methods with several policies in turn share: agents side by side, goals that are put into states, a ledger.

Legend: K agents, each a soft actor-critic (`sac`) of its own, trained side by side in one compiled program from the
same steps; D numbers in a state, G of them its goal; a turn is a number of steps for one context: an agent, and the
goal that it is given. The reward of a context is computed anew for each step that is replayed (`Guidance`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.extras import Deferred, jitted
from resetfree.core.settings import Fraction, Range
from resetfree.core.state import require
from resetfree.game.contract import Plan, Prediction, Round, Statement, check_multiplier
from resetfree.players.neural.autonomy.shield import Region, ShieldedPolicy
from resetfree.players.neural.networks import (
    MOST_PRICE,
    Layers,
    Minibatch,
    NetworkPolicy,
    NeuralState,
    Rate,
    forward,
    narrow,
    policy_of,
    rectified,
    replayed,
    start_vector,
)
from resetfree.players.neural.sac import AGENT, CRITICS, NOISE, SAC, TOGETHER, Learning, Tree, fresh_actor_critic
from resetfree.players.neural.sac import gradient_step as step_of_one
from resetfree.problems.contract import Episode, Policy, Problem, State
from resetfree.problems.formula import Formula, no_policy
from resetfree.problems.knowledge import Guidance

if TYPE_CHECKING:
    import jax
    import jax.numpy as jnp
    import optax
else:
    jax, jnp, optax = Deferred("jax"), Deferred("jax.numpy"), Deferred("optax")

FORWARD, BACKWARD = 0, 1  # the agents of methods that have two
DRAWING, CHOOSING, SWITCHING = 8, 9, 10  # purposes of random numbers
LATEST = 512  # states of one context that are kept
WIDE = 128  # states in a step of a network that belongs to no agent


@jitted()
def improve_each(tree: Tree, batches: Minibatch, *, count: Any, seed: Any, first: Any, lam: Any, how: Learning) -> Tree:
    """As `sac.improve`, for K agents whose arrays are stacked, on batches [n, K, B, ...]."""

    def one(i: Any, agents: Tree) -> Tree:
        batch = jax.tree.map(lambda part: part[i], batches)
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), first + i), len(batch.reward))
        return dict(jax.vmap(step_of_one, in_axes=(0, 0, None, 0, None))(agents, batch, lam, keys, how))

    return dict(jax.lax.fori_loop(0, count, one, tree))


def fitted(network: Layers, x: Any, y: Any, *, binary: bool) -> Any:
    """The loss of a network at x [B, D]: squared differences from y [B, m], or the cross-entropy of its log odds."""
    found = forward(network, x, jax.nn.relu)
    return (optax.sigmoid_binary_cross_entropy(found, y) if binary else (found - y) ** 2).mean()


@jitted("binary")
def fit(part: Tree, x: Any, y: Any, rate: Any, *, binary: bool) -> Tree:
    """A network and its optimiser after a step on each of the batches x [n, B, D], y [n, B, m]."""

    def one(part: Tree, batch: Any) -> tuple[Tree, None]:
        gradient = jax.grad(fitted)(part["network"], *batch, binary=binary)
        update, steps = optax.adam(rate).update(gradient, part["steps"])
        return {"network": optax.apply_updates(part["network"], update), "steps": steps}, None

    return dict(jax.lax.scan(one, part, (x, y))[0])


def fresh_part(network: Layers) -> Tree:
    """A network for `fit`."""
    return {"network": network, "steps": optax.adam(0.0).init(network)}


@dataclass
class AimedPolicy(NetworkPolicy):
    """A network's policy that is given another goal than the one in the state."""

    kind = "AimedPolicy"
    axes: ClassVar[dict[str, str]] = {**NetworkPolicy.axes, "aim": "D", "aimed": "D"}
    aim: Floats = field(default_factory=lambda: np.zeros(0))  # [D] the goal where it stands in a state
    aimed: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))  # [D] where that is

    def outputs(self, s: Any) -> tuple[Floats, Floats]:
        """As of `NetworkPolicy`, in states with that goal."""
        return super().outputs(np.where(self.aimed, self.aim, s))

    def formula(self, state: Formula) -> Formula:
        """The mode, for export."""
        return super().formula(state.affine(np.diag(1.0 - self.aimed), self.aim * self.aimed))


class Traits(NamedTuple):
    """What distinguishes a method, for the program that trains many learners at once (`together`)."""

    two: bool = True  # whether a second agent has every other turn
    matches: bool = False  # whether that one's reward is the classifier's
    perturbs: bool = False  # whether it is novelty
    curriculum: bool = False  # whether every other turn is for a start of the curriculum
    graph: bool = False  # whether the state chooses the next task
    early: bool = False  # whether competence ends a turn
    aborts: bool = False  # whether the second agent's values stop the first
    tests: bool = False  # whether a learned test of irreversibility ends values, and requests help


class Context(NamedTuple):
    """A context: which agent acts, and the goal that it is given; None for the one in the state."""

    agent: int
    aim: Floats | None = None  # [G]


@dataclass(kw_only=True)
class TurnState(NeuralState):
    """All transitions, demonstrations first, the agents, and whose turn it is."""

    agent: int = FORWARD
    aim: Floats  # [G] the goal that is given
    aimed: bool = False  # whether one is
    steps: int = 0  # of this turn so far
    turns: int = 0  # that have ended
    timeouts: int = 0  # that ended without the goal of their context
    latest: Floats  # [LATEST, D] states in which the backward agent was, the oldest is overwritten
    kept: int = 0  # of them in all
    forth: int = field(metadata={"saved": False})  # rows of demonstrations of the task
    shown: int = field(metadata={"saved": False})  # and of those of the way back after them
    guidance: Guidance = field(metadata={"saved": False})
    region: Region | None = field(default=None, metadata={"saved": False})  # with a shield

    def check_loaded(self) -> None:
        """Raise InvalidInput unless the agent is one of two."""
        require(self.agent in (FORWARD, BACKWARD), "agent must be one of two")

    @property
    def backward(self) -> Floats:
        """[n, D] the latest states in which the backward agent was."""
        return self.latest[: min(self.kept, len(self.latest))]

    def without_goal(self, s: Floats) -> Floats:
        """States [..., D], their goals set to 0."""
        return self.guidance.with_goal(s, np.zeros(len(self.aim)))

    def part(self, agent: int, name: str) -> Any:
        """The networks of this name of one agent."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[agent], self.tree[name])

    def actor(self, agent: int, aim: Floats | None = None) -> NetworkPolicy:
        """The policy of an agent, which is given a goal or not."""
        made = policy_of(self.part(agent, "actor"), None, self.box)
        if aim is None:
            return made
        at = np.zeros(self.rows.state.shape[1], dtype=np.bool_)
        at[self.guidance.goal] = True
        whole = np.zeros(len(at))
        whole[self.guidance.goal] = aim
        return AimedPolicy(**vars(made), aim=whole, aimed=at)

    def values(self, agent: int, s: Floats) -> Floats:
        """[n] the smallest critic's value of the agent's mode in states [n, D]."""
        mode = np.tanh(self.actor(agent).outputs(s)[0])
        pairs = narrow(np.concatenate([s, mode], axis=1))
        return np.asarray(forward(self.part(agent, "critics"), pairs, rectified)[..., 0].min(axis=0))


@dataclass(frozen=True)
class TurnPlayer(SAC):
    """Contexts in turn, each trained from all steps; a subclass says which comes next, and what a context earns.

    turn: steps of a turn at most.
    relabelled: share of replayed forward steps whose goal is drawn anew among those of the task.
    demonstrated: share of demonstrations in each batch.
    shield: radius around pairs of state and action that a reset followed, in which no action is taken, as a part of
      their ranges; 0: none (see `shield`).

    The multiplier of the latest round is added to the price of a fall, in every context.
    """

    prediction: ClassVar[Prediction] = "none"
    agents: ClassVar[int] = 2  # K
    traits: ClassVar[Traits | None] = None  # None: it is played alone
    # Deployed success by task as published, where it is on the tasks of EARL: recomputed from the per-seed files that
    # the authors of RISC published, mean of the last five evaluations of 5 seeds.
    published: ClassVar[Mapping[str, float]] = {}
    critics: ClassVar[int] = CRITICS  # of each agent
    learning_rate: Rate = 1e-3
    hidden: Annotated[int, Range(1, 4096)] = 128
    batch: Annotated[int, Range(1, 65_536)] = 128
    turn: Annotated[int, Range(1, 1_000_000)] = 200
    relabelled: Fraction = 0.5
    demonstrated: Fraction = 0.25
    shield: Fraction = 0.0

    def init(self, problem: Problem, episodes: int, seed: int) -> TurnState:
        """Fresh agents, and the demonstrations of the task; raises NotCertifiable if it states no goals and starts."""
        base, guidance = super().init(problem, episodes, seed), problem.guidance
        if guidance is None:
            raise NotCertifiable(
                f"The player '{self.name}' needs a task that states its goals and starts ('guidance'; see docs/autonomy"
                f".md). Got '{problem.name}' instead."
            )
        rows, ends = base.rows, []
        for back in (False, True):
            for one in guidance.demonstrations(seed, back) if self.demonstrated else ():
                rows.add(Episode(one.states, one.actions, one.rewards, reset=False, next_start=None))
            ends.append(rows.n)
        size = rows.state.shape[1]
        return TurnState(
            **{**vars(base), "forth": ends[0], "shown": ends[1], "guidance": guidance},
            aim=np.zeros(guidance.starts.shape[1]),
            latest=np.zeros((LATEST, size)),
            region=Region.of(problem, guidance, self.name) if self.shield else None,
        )

    def fresh(self, size: int, n_actions: int, rng: np.random.Generator) -> Any:
        """K agents, their arrays stacked."""
        made = [
            fresh_actor_critic(size, n_actions, self.hidden, self.costs, rng, critics=self.critics)
            for _ in range(self.agents)
        ]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *made)

    def plan(self, state: NeuralState, s1: State, lam: float) -> Plan:
        """The policy of the agent whose turn it is; before the first gradient step, every action is equally likely."""
        assert isinstance(state, TurnState)
        check_multiplier(lam)
        s = start_vector(s1)
        if state.gradient_steps == 0:
            return Plan(self.shielded(no_policy(state.box, len(s)), state), state.horizon / 2.0, 0.5)
        value = float(state.values(FORWARD, s[None].astype(np.float64))[0])
        return Plan(self.shielded(self.policy(state), state), self.earnings(state, value), state.falls())

    def shielded(self, policy: Policy, state: TurnState) -> Policy:
        """A policy that keeps away from what resets followed, if there is a shield."""
        if state.region is None:
            return policy
        return ShieldedPolicy(policy, state.region, state.region.fatal(state.rows), self.shield)

    def policy(self, state: TurnState) -> Policy:
        """The policy of this turn."""
        return state.actor(state.agent, state.aim if state.aimed else None)

    def greedy(self, state: NeuralState, lam: float) -> Any:
        """The forward policy alone: the one that is deployed."""
        assert isinstance(state, TurnState)
        policy = state.actor(FORWARD)
        return no_policy(state.box, len(policy.first)) if state.gradient_steps == 0 else policy

    def update(self, state: NeuralState, round: Round) -> TurnState:
        """Keep the episode, learn from all of them, and end the turn if it is over."""
        assert isinstance(state, TurnState)
        state.rows.add(round.episode)
        if state.agent == BACKWARD:
            for s in round.episode.states:
                state.latest[state.kept % LATEST] = s
                state.kept += 1
        taken = state.taken()
        lived = taken[taken >= state.shown]
        if len(lived) >= max(1, self.learning_starts):
            self._learn(state, lived, taken[taken < state.shown], len(round.episode.actions), round.lam)
        self._end(state, round.episode)
        return state

    def _learn(self, state: TurnState, lived: NDArray[np.int64], shown: NDArray[np.int64], m: int, lam: float) -> None:
        steps, rng = self.gradient_steps * m, state.random(DRAWING)
        tree = self.fit_others(state, dict(state.tree), lived, m)
        how = Learning(*(np.float32(one) for one in (self.learning_rate, self.gamma, self.tau)))
        agents, seed = {name: tree[name] for name in AGENT if name in tree}, state.word(NOISE)
        for done in range(0, steps, TOGETHER):
            mixed = round(self.demonstrated * self.batch) if len(shown) else 0
            parts = []
            for agent in range(self.agents):
                index = rng.choice(lived, (TOGETHER, self.batch))
                if mixed:
                    index[:, :mixed] = rng.choice(shown, (TOGETHER, mixed))
                parts.append(self.context(state, tree, agent, index, rng, lam=lam))
            batches = Minibatch(*(np.stack(fields, axis=1) for fields in zip(*parts, strict=True)))
            count, first = np.int32(min(TOGETHER, steps - done)), state.step(done)
            weight = np.float32(min(lam, MOST_PRICE))
            agents = improve_each(agents, batches, count=count, seed=seed, first=first, lam=weight, how=how)
        state.keep({**tree, **agents}, steps, self.name)

    def context(
        self,
        state: TurnState,
        tree: Tree,
        agent: int,
        index: NDArray[np.int64],
        rng: np.random.Generator,
        *,
        lam: float,
    ) -> Minibatch:
        """The transitions that begin at rows [n, B], as a context sees them: its goals, its rewards, the price."""
        seen = replayed(state.rows, index, state.box.ends)
        flat = seen.state.reshape(-1, seen.state.shape[-1]).astype(np.float64)
        goals = self.goals(state, agent, flat, rng)
        after = state.guidance.with_goal(state.rows.state[index + 1].reshape(flat.shape), goals)
        fell = seen.terminated.ravel() > 0.0
        reward = np.where(fell, 0.0, self.reward(state, tree, agent, after))
        if agent == FORWARD:  # where the goal is its own, what was earned
            own = (goals == flat[:, state.guidance.goal]).all(axis=1)
            reward = np.where(own, seen.reward.ravel(), reward)
        charged = 0.0 if self.costs else min(lam, MOST_PRICE)
        batch = seen._replace(
            state=narrow(state.guidance.with_goal(flat, goals)).reshape(seen.state.shape),
            next_state=narrow(after).reshape(seen.state.shape),
            reward=narrow(reward).reshape(seen.reward.shape),
        )
        return replace(self, price=self.price + charged).charged(batch) if charged else self.charged(batch)

    def goals(self, state: TurnState, agent: int, s: Floats, rng: np.random.Generator) -> Floats:
        """[n, G] the goals that states [n, D] are replayed with: their own and others of the task, or the starts."""
        guidance = state.guidance
        if agent == BACKWARD:
            return guidance.starts[rng.integers(len(guidance.starts), size=len(s))]
        drawn = guidance.goals[rng.integers(len(guidance.goals), size=len(s))]
        return np.where(rng.random((len(s), 1)) < self.relabelled, drawn, s[:, guidance.goal])

    def reward(self, state: TurnState, tree: Tree, agent: int, after: Floats) -> Floats:
        """[n] what a context earns for arriving in states [n, D]: for the goal in them, or for being back."""
        return state.guidance.home(after) if agent == BACKWARD else state.guidance.reward(after)

    def fit_others(self, state: TurnState, tree: Tree, lived: NDArray[np.int64], m: int) -> Tree:
        """The tree with those networks trained that belong to no agent.  m: steps of the latest episode."""
        return tree

    def _end(self, state: TurnState, episode: Episode) -> None:
        """Count the steps of the turn, and choose the next context if it is over; a reset ends it as well."""
        state.steps += len(episode.actions)
        s = np.asarray(episode.states[-1], dtype=np.float64)
        there = not episode.reset and self.arrived(state, s)
        if not (episode.reset or self.over(state, s, there)):
            return
        state.turns += 1
        state.timeouts += not there and not episode.reset
        turn = self.after_reset(state) if episode.reset else self.next_turn(state, s, there)
        state.agent, state.steps, state.aimed = turn.agent, 0, turn.aim is not None
        if turn.aim is not None:
            state.aim = np.array(turn.aim, dtype=np.float64)

    def arrived(self, state: TurnState, s: Floats) -> bool:
        """Whether a state [D] is the goal of the context."""
        aimed = state.guidance.with_goal(s[None], state.aim) if state.aimed else s[None]
        found = state.guidance.home if state.agent == BACKWARD else state.guidance.reward
        return bool(found(aimed)[0] >= 1.0)

    def over(self, state: TurnState, s: Floats, there: bool) -> bool:
        """Whether the turn is over in a state [D]."""
        return state.steps >= self.turn

    def after_reset(self, state: TurnState) -> Context:
        """The context after a reset: forward."""
        return Context(FORWARD)

    def next_turn(self, state: TurnState, s: Floats, there: bool) -> Context:
        """The context after this one: the other agent's, who is to bring the system back to a start."""
        if state.agent == BACKWARD or self.agents == 1:
            return Context(FORWARD)
        starts = state.guidance.starts
        return Context(BACKWARD, starts[int(state.random(CHOOSING).integers(len(starts)))])

    def shares(self, state: TurnState, agent: int, s: Floats) -> Floats:
        """[n] values in states [n, D] as shares of the largest, gamma^t where the goal is t steps away."""
        return np.clip((1.0 - self.gamma) / self.reward_scale * state.values(agent, s), 0.0, 1.0)

    def turns(self, state: TurnState) -> tuple[int, int]:
        """How many turns have ended, and how many of them without their goal."""
        return state.turns, state.timeouts

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved; with a shield, the most resets that can follow actions that it permits."""
        said, constants = super().statement(problem, episodes), {"turn": self.turn, "demonstrated": self.demonstrated}
        if self.shield and problem.guidance is not None:
            constants["most_permitted"] = Region.of(problem, problem.guidance, self.name).most(self.shield)
        return replace(said, constants={**said.constants, **constants})


def demonstrated(player: TurnPlayer, state: TurnState, problem: Problem) -> TurnState:
    """The state; raises NotCertifiable if it holds no demonstration of the task."""
    if not state.forth:
        raise NotCertifiable(
            f"The player '{player.name}' needs demonstrations of its task, and 'demonstrated' above 0. "
            f"Got '{problem.name}' with {player.demonstrated:g} instead."
        )
    return state
