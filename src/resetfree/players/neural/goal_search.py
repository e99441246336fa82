"""Machines with goals in their observations: goals are relabelled in hindsight, and unreached ones are sought.

Legend: see `hindsight`; n rows so far; k episodes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import NotCertifiable
from resetfree.core.settings import Count, Fraction, Range
from resetfree.core.state import require, within
from resetfree.game.capabilities import Decision, Partner, Suited
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.game.replay_buffer import check_pooling, empty_buffer
from resetfree.players.neural.experience import is_refit
from resetfree.players.neural.hindsight import (
    GAMMA,
    Hindsight,
    Reach,
    Return,
    Ways,
    fresh_reacher,
    frontier,
    improved,
    last_touch,
    on_new_scales,
    reach_of,
    scales_of,
    ways_of,
    won_steps,
)
from resetfree.players.neural.networks import NetworkPolicy, NeuralState, Rate, Size, leaves_of, narrow, policy_of
from resetfree.players.requirements import for_machines, networks_installed
from resetfree.problems.action_spaces import Box, from_unit, to_unit
from resetfree.problems.contract import Episode, Policy, Problem, State
from resetfree.problems.features.scaling import Scaling
from resetfree.problems.knowledge import GoalColumns

TOGETHER = 100  # gradient steps in one call of the compiled program
LATELY, OFTEN = 2000, 20  # steps, and goals won in them, that end the exploring as far as the record is concerned
SINCE = (100, 300)  # steps since a goal was won, after which it explores, and explores more
SEEKING = (0.0, 0.2, 0.5)  # parts of the episodes with a goal of its own
BACK = (0.0, 0.3, 0.5)  # instead, after demonstrations: parts of the episodes that head for a demonstrated state
WANDERING = (0.0, 0.1, 0.3)  # and of those that are all random
FOLLOWING = (0.0, 0.2, 0.4)  # and of the others that go by known ways
RETURNING = (0.0, 0.1, 0.5)  # and of those that return to where what is reached moved last, if that is rare
LONGEST_BURST, SHORT = 20, 4  # steps of one random action, and around there
TURN = 20  # steps to return and try
BURSTS, BATCHES = 21, 22  # purposes of random numbers
SOUGHT, WON, CERTAIN = range(3)
WORDS = (
    "exploring: no goal was won yet, so it seeks points that were rarely reached, and goes on from there at random",
    "goals are won: it explores where the next one takes long",
    "goals are won often: it explores little from here on",
)


@dataclass
class GoalPolicy(Policy):
    """An actor with noise and bursts of random actions, on the way to the goal in the state or to one of its own."""

    actor: NetworkPolicy
    wanted: NDArray[np.int64]  # [G] the columns of the goal in a state
    achieved: NDArray[np.int64]  # [G]
    aim: Floats  # [G] its own goal; nan without
    radius: float  # within which that counts as reached: then all is random
    bursts: Floats  # [H, A] on [-1, 1]; nan where the actor acts
    wander: Floats  # [H, A] what is done beyond its own goal
    noise: Floats  # [H, A] added to the actor's action
    back: dict[str, Any] | None = None  # a `Return`: half of each TURN it goes there, the other half is random
    ways: dict[str, Any] | None = None  # `Ways`, by which it heads for one point after another

    @cached_property
    def _ways(self) -> Ways | None:
        return None if self.ways is None else Ways(**self.ways)

    @cached_property
    def _back(self) -> Return | None:
        return None if self.back is None else Return(**self.back)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action of step h."""
        i, s = (h - 1) % len(self.noise), np.array(s, dtype=np.float64)
        burst = self.bursts[i]
        if self._back is not None:
            burst = self._back.push(s) if i % TURN < TURN // 2 else self.wander[i]
        if not np.isnan(self.aim).any():
            if np.linalg.norm(s[self.achieved] - self.aim) <= self.radius:
                burst = self.wander[i]
            s[self.wanted] = self.aim
        if self._ways is not None:
            s[self.wanted] = self._ways.toward(s[self.achieved], s[self.wanted])
        low, high = self.actor.low, self.actor.high
        pushed = to_unit(self.actor.mode(h, s), low, high) + self.noise[i] if np.isnan(burst).any() else burst
        return np.asarray(from_unit(np.clip(pushed, -1.0, 1.0), low, high))

    def mode(self, h: int, s: State) -> Floats:
        """[A] the actor's action for the goal in the state."""
        return np.asarray(self.actor.mode(h, s))


@dataclass(kw_only=True)
class GoalState(NeuralState):
    """All transitions, the networks that learn from them, and how far it has come."""

    trained: int = 0  # rows that the networks have learned from
    # [m, 2] round and index in WORDS of each decision
    decisions: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64), metadata={"grows": (0,)})
    columns: GoalColumns = field(metadata={"saved": False})
    shown: int = field(default=0, metadata={"saved": False})  # first rows that are demonstrations
    beside: bool = field(default=False, metadata={"saved": False})  # whether a controller acts, too

    def check_loaded(self) -> None:
        """Raise InvalidInput unless counters and decisions can be those of a run."""
        require(self.trained <= self.rows.n, "networks must rest on rows that were seen")
        require(within(self.decisions[:, 1], 0, len(WORDS)), "decisions must be known ones")

    def reach(self) -> Reach:
        """When a goal counts as reached."""
        return reach_of(self.rows, self.rows.n, self.columns)

    def won_lately(self) -> int:
        """Goals won in the last steps."""
        return int(won_steps(self.rows, self.rows.n)[-LATELY:].sum())

    def level(self) -> int:
        """How much it explores: an index of SEEKING."""
        won = np.flatnonzero(won_steps(self.rows, self.rows.n))
        since = self.rows.n - int(won[-1]) if len(won) else self.rows.n
        return int(np.searchsorted(SINCE, since)) if len(won) else 2

    def decide(self, k: int) -> None:
        """Record that it explores, that goals are won, and that they are won often."""
        won = self.won_lately()
        word = CERTAIN if won >= OFTEN else WON if won else SOUGHT
        if not len(self.decisions) or word > self.decisions[-1, 1]:
            self.decisions = np.concatenate([self.decisions, [[k, word]]])


@dataclass(frozen=True)
class GoalSearch(PrimalPlayer[GoalState]):
    """Reaches goals that are part of the observation, sparse or not, without a reset between them.

    Every transition is learned from for many goals: that which was requested, and those that were reached later. So a
    reward is known for any goal, before any was won. Where a goal is not won for long, some episodes pursue a goal of
    its own that was reached before, where little else was, and go on from there at random. Some are all random, and
    some go by known ways: from place to place, as one led to another before, around what lies between. Where what is
    reached rarely moves, as a puck that must be touched, some return to where it moved last, and try around there.
    A reset costs as much as a goal that is never reached.

    hidden: units in each of two hidden layers.
    learning_rate: of all networks.
    batch: transitions in a gradient step.
    gradient_steps: for each step of the machine.
    begin: steps of random actions, each held for up to 20 steps, before anything is learned.
    noise: deviation of the noise in actions.
    bursts: part of the steps with random actions, while goals are won rarely; a quarter of it later.
    own_goals: whether it pursues goals of its own, and wanders, where the requested one is not reached for long.
    demonstrated: share of demonstrations in each batch, if there are any. Then it copies what they do better than it
      does, returns to demonstrated states where no goal is won for long, and explores by the noise alone.

    >>> GoalSearch.partner().settings
    {'C': 0.0}
    """

    name: ClassVar[str] = "goal-search"
    suited_states = ("vectors",)
    learns: ClassVar[bool] = False  # to earn anything else than goals
    vectors_only: ClassVar[bool] = True
    action_spaces: ClassVar[tuple[type, ...]] = (Box,)
    former_settings: ClassVar[Mapping[str, str]] = {}
    hidden: Annotated[int, Range(1, 4096)] = 128
    learning_rate: Rate = 1e-3
    batch: Size = 256
    gradient_steps: Annotated[int, Range(1, 1000)] = 2
    begin: Count = 500
    noise: Fraction = 0.1
    bursts: Fraction = 0.2
    own_goals: bool = True
    demonstrated: Fraction = 0.25

    def init(self, problem: Problem, episodes: int, seed: int) -> GoalState:
        """Fresh networks; refuses states without goals, and actions that are no box."""
        box, columns = problem.actions, problem.goal_columns
        if problem.low is None or problem.n_states is not None or not isinstance(box, Box) or columns is None:
            raise NotCertifiable(
                f"The player '{self.name}' needs actions that are a Box, and observations with 'achieved_goal' and "
                f"'desired_goal'. Got '{problem.name}' instead."
            )
        check_pooling(problem, self.name)
        size, rng = len(problem.low), np.random.default_rng([seed, 1])
        learned, form = leaves_of(self.name, lambda: fresh_reacher(size, box.size, self.hidden, rng))
        world: dict[str, Any] = {"horizon": problem.horizon, "seed": seed, "box": box, "columns": columns}
        return GoalState(rows=empty_buffer(problem), learned=learned, form=form, **world)

    def plan(self, state: GoalState, s1: State, lam: float) -> Plan:
        """The actor for the requested goal or one of its own, with noise."""
        check_multiplier(lam)
        rows, box = state.rows, state.box
        rng = np.random.default_rng([state.seed, BURSTS, rows.n])
        shape, level, draw = (state.horizon, box.size), state.level() if self.own_goals else 0, rng.random()
        wander, aim = _held(shape, rng), np.full(len(state.columns.wanted), np.nan)
        random = _often(len(wander), self.bursts if level else self.bursts / 4, rng)
        if state.shown:
            random[:], wander[:] = False, np.nan
            if draw < BACK[level]:
                aim = rows.state[rng.integers(state.shown)][state.columns.achieved]
        elif not state.trained or draw < WANDERING[level]:
            random[:] = True
        elif draw < WANDERING[level] + SEEKING[level]:
            aim = frontier(rows, rows.n, state.columns, rng)
        back = None
        alone = state.trained > 0 and not state.shown
        if alone and rng.random() < RETURNING[level]:
            back = last_touch(rows, rows.n, state.reach(), box.ends)
            wander = wander if back is None else _held(shape, rng, SHORT)
        follows = alone and rng.random() < FOLLOWING[level]
        policy = GoalPolicy(
            actor=self.greedy(state, lam),
            wanted=state.columns.wanted,
            achieved=state.columns.achieved,
            aim=aim,
            radius=state.reach().radius if rows.n else 0.0,
            bursts=np.where(random[:, None], wander, np.nan),
            wander=wander,
            noise=self.noise * rng.normal(size=shape),
            back=None if back is None else asdict(back),
            ways=asdict(ways_of(rows, rows.n, state.columns, rng)) if follows else None,
        )
        value = rows.mean_reward(max(0, rows.n - LATELY))
        return Plan(policy, float(np.clip(value, 0.0, 1.0)) * state.horizon, state.falls())

    def greedy(self, state: GoalState, lam: float) -> NetworkPolicy:
        """The policy for use: the actor, for the goal in the state."""
        check_multiplier(lam)
        tree = state.tree
        (weight, bias), *rest = tree["late_actor" if state.shown else "actor"]  # the late one changes more smoothly
        scaling = Scaling(tree["centre"], tree["scale"])
        inner = weight / scaling.scale[:, None]
        folded = ((inner, bias - scaling.centre @ inner), *rest)
        return policy_of(folded, np.full(state.box.size, -20.0), state.box)

    def update(self, state: GoalState, round: Round) -> GoalState:
        """Keep the episode, and learn from all of them."""
        state.rows.add(round.episode)
        n, before = state.rows.n, state.trained
        if n < max(2, self.begin):
            return state
        tree = state.tree
        if is_refit(before, n):
            tree = on_new_scales(tree, *scales_of(state.rows, n, state.columns))
        memory, rng = Hindsight(state.rows, state.reach(), state.box.ends), state.random(BATCHES)
        steps = self.gradient_steps * (len(round.episode.actions) if before else n)
        networks = {name: part for name, part in tree.items() if name not in ("centre", "scale")}
        copied = int(self.demonstrated * self.batch) if state.shown else 0
        for done in range(0, steps, TOGETHER):
            shape, shown = (TOGETHER, self.batch), (copied, state.shown)
            batches = memory.draw(shape, tree["centre"], tree["scale"], rng, shown)
            count = np.int32(min(TOGETHER, steps - done))
            networks = improved(networks, batches, count=count, rate=narrow(self.learning_rate), copied=copied)
        state.keep({**tree, **networks}, steps, self.name, "'learning_rate'")
        state.trained = n
        if self.own_goals:
            state.decide(round.k)
        return state

    def absorb(self, state: GoalState, episode: Episode) -> GoalState:
        """Add the steps of an episode of data; networks learn from them after the first round."""
        state.rows.add(episode)
        return state

    def act_beside(self, state: GoalState) -> GoalState:
        """Learn from a controller's episodes as from others, and explore: what leads astray is not played."""
        state.beside = True
        return state

    def follow(self, state: GoalState, episode: Episode) -> GoalState:
        """Add the steps of a demonstration, which come before all others."""
        state = self.absorb(state, episode)
        state.shown = 0 if state.beside else state.rows.n
        return state

    def decisions(self, state: GoalState) -> list[Decision]:
        """When it explored, and when it had won enough."""
        return [Decision(int(k), WORDS[what]) for k, what in state.decisions]

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Goals in vector states, where the extra is installed."""
        offer = for_machines(problem, 3, "")
        if offer is None or not isinstance(problem.actions, Box) or problem.goal_columns is None:
            return None
        why = "observations hold the goal that is requested and the one that was reached, so what a step pays is "
        why += "learned for every goal; goals of its own are sought while few are won"
        return Suited(3, why, cls.partner()) if networks_installed() else None

    @classmethod
    def partner(cls) -> Partner:
        """A constant penalty of 0: a reset costs what a goal costs that is never reached."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        constants: dict[str, Any] = {"hidden": self.hidden, "gamma": GAMMA}
        return Statement(constants, False, "no theorem covers networks that are trained by gradient steps")


def _held(shape: tuple[int, int], rng: np.random.Generator, longest: int = LONGEST_BURST) -> Floats:
    """[H, A] random actions on [-1, 1], each held for a few steps: half of them for at most the root of the longest."""
    length, size = shape
    lasts = np.floor((longest + 1.0) ** rng.random(length)).astype(np.int64)
    return np.repeat(rng.uniform(-1.0, 1.0, size=(length, size)), lasts, axis=0)[:length]


def _often(length: int, part: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[H] steps in bursts, a part of them in all on average."""
    held = _held((length, 1), rng)[:, 0]
    return np.asarray(held < 2.0 * part - 1.0)
