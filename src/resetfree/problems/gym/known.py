"""What is known of environments before they are played: what their ends mean, their tables, names of coordinates.

Which ends are goals, which are falls, and what follows a goal: `terminated` alone does not say it. MountainCar
terminates at its goal, CartPole at a fall, FrozenLake at both.

A table is an exact model: P[s][a] is a list of (probability, next state, reward, terminated).

Named coordinates are the factors of states: an environment's own, those of a known one, or a user's `decode`.

Legend: n states of the table, A actions; state n of the model is the reset state.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from scipy import sparse

from resetfree.core import Floats, Ints, InvalidInput, expect, imported, one_line
from resetfree.problems.action_spaces import Box
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Transitions
from resetfree.problems.gym.events import Decide, Rewards, Units, Unusable, learned
from resetfree.problems.gym.flattening import ends_of, flatten, is_whole, names_of, parts
from resetfree.problems.gym.goals import GO_ON, NEW_TASK, RESTART, Goals
from resetfree.problems.gym.making import Env, layers
from resetfree.problems.gym.observations import CountedObservations, Numbered, Observer
from resetfree.problems.knowledge import NONE, Factor, Factors

PER_GOAL = "goal"  # the `reward` that pays 1 for each goal
NAME = re.compile(r"(?P<name>[^/]+?)(-v\d+)?")


@dataclass(frozen=True)
class NewPassenger:
    """Taxi: the taxi stays where it is, and the next passenger waits for it."""

    def __call__(self, env: Env) -> int:
        """Draw the next passenger and destination by the environment's own generator."""
        taxi: Any = env.unwrapped
        weights = self.law(taxi, int(taxi.s))
        taxi.s = int(np.searchsorted(weights.cumsum(), taxi.np_random.random(), side="right"))
        return int(taxi.s)

    def law(self, env: Any, arrival: int) -> Floats:
        """[500] that of a start, given where the taxi stands: a state counts passengers and destinations last."""
        first = np.asarray(env.initial_state_distrib, dtype=np.float64)
        place = env.encode(*list(env.decode(arrival))[:2], 0, 0)
        last = place + 4 * (len(env.locs) + 1)
        weights = np.zeros(len(first))
        weights[place:last] = first[place:last]
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True)
class NewTarget:
    """Fetch: the arm and the object stay where they are, and another target is drawn."""

    def __call__(self, env: Env) -> Any:
        """Draw the target as the environment does at a reset."""
        fetch: Any = env.unwrapped
        fetch.goal = fetch._sample_goal().copy()
        return fetch._get_obs()


@dataclass(frozen=True)
class NewPlace:
    """PointMaze: the point stays where it is, and a target in another place is drawn."""

    def __call__(self, env: Env) -> Any:
        """Draw the target as the environment does at a reset."""
        maze: Any = env.unwrapped
        before = maze.goal
        while np.linalg.norm(maze.goal - before) <= 0.5 * maze.maze.maze_size_scaling:
            maze.goal = maze.add_xy_position_noise(maze.generate_target_goal())
        maze.update_target_site_pos()
        return maze._get_obs(maze.point_env._get_obs()[0])


@dataclass(frozen=True)
class Meaning:
    """Arguments of `from_gym` for a known environment; each can be overridden."""

    goal_when: str
    reset_when: str = "never"
    after_goal: str = RESTART
    new_task: Any = None
    reward: str | None = None  # PER_GOAL where the environment pays its goal no better than any other step
    reward_range: tuple[float, float] | None = None


_WON = "terminated and reward!=0 and reward!=-1"  # what it pays a goal depends on the time, and may be negative
_LOST = "terminated and reward==0 or terminated and reward==-1"
KNOWN: dict[str, Meaning] = {
    "MountainCar": Meaning("terminated", reward=PER_GOAL),
    "MountainCarContinuous": Meaning("terminated", reward_range=(-0.1, 100.0)),
    "Acrobot": Meaning("terminated", reward_range=(-1.0, 0.0)),
    **dict.fromkeys(
        ("LunarLander", "LunarLanderContinuous"),
        Meaning("terminated and reward>=100", "terminated and reward<=-100", reward_range=(-100.0, 100.0)),
    ),
    "Taxi": Meaning("terminated", after_goal=NEW_TASK, new_task=NewPassenger(), reward_range=(-10.0, 20.0)),
    **dict.fromkeys(("FrozenLake", "FrozenLake8x8"), Meaning("terminated and reward>0", "terminated and reward<=0")),
    **dict.fromkeys(("CliffWalking", "CliffWalkingSlippery"), Meaning("terminated", "reward<=-100", reward=PER_GOAL)),
    **dict.fromkeys(
        ("tabletop", "tabletop-edge", "peg-edge", "sawyer-door", "sawyer-peg"),
        Meaning("info.is_success", "terminated", GO_ON, reward_range=(0.0, 1.0)),
    ),
    **dict.fromkeys(("workspace", "flip-cheetah"), Meaning("never", "terminated", reward_range=(0.0, 1.0))),
    **{
        f"Fetch{task}{kind}": Meaning("info.is_success", after_goal=NEW_TASK, new_task=NewTarget(), reward_range=span)
        for task in ("Reach", "Push", "Slide", "PickAndPlace")
        for kind, span in (("", (-1.0, 0.0)), ("Dense", None))
    },
}
FAMILIES = {
    "MiniGrid-": Meaning(_WON, _LOST, reward=PER_GOAL),
    "BabyAI-": Meaning(_WON, _LOST, reward=PER_GOAL),
    "PointMaze_": Meaning("info.success", after_goal=NEW_TASK, new_task=NewPlace(), reward_range=(0.0, 1.0)),
}
# Every termination is a fall: no question about it is needed.
FALLS = (
    *("CartPole", "InvertedPendulum", "InvertedDoublePendulum", "Hopper", "Walker2d", "Ant", "Humanoid"),
    *("Pendulum", "HalfCheetah", "HumanoidStandup", "Reacher", "Pusher", "Swimmer"),
)


def meaning_of(env: Env) -> Meaning | None:
    """The meaning of a known environment, unless a wrapper changes the rewards that it is recognised by.

    >>> meaning_of(gymnasium.make("MountainCar-v0")).goal_when, meaning_of(gymnasium.make("CartPole-v1"))
    ('terminated', None)
    """
    name = known_name(env)
    if any(isinstance(layer, gymnasium.RewardWrapper) for layer in layers(env)):
        return None
    families = (meaning for prefix, meaning in FAMILIES.items() if name.startswith(prefix))
    return KNOWN.get(name) or next(families, None)


def only_falls(env: Env) -> bool:
    """Whether every termination of this environment is known to be a fall."""
    return known_name(env) in FALLS or type(env.unwrapped).__module__.startswith("resetfree.")


def known_name(env: Env) -> str:
    """The id without its version; "" without an id, and for one in a namespace, which may be another environment."""
    spec = env.unwrapped.spec
    found = None if spec is None else NAME.fullmatch(spec.id)
    return "" if found is None else found["name"]


@dataclass(frozen=True, eq=False)
class Terms:
    """What affects episodes, as far as it is known; part of the problem's fingerprint."""

    environment: str  # id or class
    made_with: tuple[tuple[str, Any], ...]  # options of the environment
    wrappers: tuple[str, ...]
    reset_when: Decide
    rewards: Rewards
    actions: list[Any] | Box  # the environment's actions for the learner's 0, 1, ..
    function: Callable[[Any], Any] | None  # of the raw observation
    table: Transitions | None = None
    table_reward: Floats | None = None


class NoTable(Exception):
    """The environment has no model; the message continues a sentence after its name."""


def read_table(
    env: Any, n: int, terms: Terms, *, goals: Goals | None = None, horizon: int, name: str, xi: Floats | None
) -> tuple[FiniteMDP, Units]:
    """The model of an environment that has `P` and `initial_state_distrib`, and the units of rewards; raises NoTable.

    P'(s'|s,a) sums the table's entries for s' without a reset, P'(n|s,a) those with one, and r(s,a) is the expected
    scaled reward. Entries that reach a goal lead to what follows it. Conditions and the user's own reward get
    {"prob": p} as their info.
    """
    table, first = getattr(env, "P", None), getattr(env, "initial_state_distrib", None)
    actions, rewards = terms.actions, terms.rewards
    assert isinstance(actions, list)
    if table is None or first is None:
        raise NoTable("has no table (P and initial_state_distrib)")
    if getattr(env, "fickle_passenger", False):
        raise NoTable("has a table without its fickle passenger")
    rows, columns, probabilities, paid = [], [], [], []
    reward = np.zeros((n + 1, len(actions)))
    try:
        for s in range(n):
            for i, a in enumerate(actions):
                for p, arrival, r, terminated in table[s][a]:
                    if p == 0:
                        continue
                    seen = int(arrival), float(r), bool(terminated), {"prob": p}
                    at_goal = goals is not None and bool(goals.when(*seen))
                    arrivals = {n if not at_goal and terms.reset_when(*seen) else seen[0]: 1.0}
                    if goals is not None and at_goal:
                        law = goals.law(env, seen[0], np.asarray(first, dtype=np.float64))
                        if law is None:
                            raise NoTable("sets new tasks by code, whose distribution is not known")
                        arrivals = {int(j): float(law[j]) for j in np.flatnonzero(law)}
                    rows += [s * len(actions) + i] * len(arrivals)
                    columns += list(arrivals)
                    probabilities += [float(p) * share for share in arrivals.values()]
                    paid.append((s, i, float(p), rewards(*seen)))
    except NoTable:
        raise
    except Unusable as error:
        raise NoTable(f"{error} in its table") from error
    except Exception as error:
        raise NoTable(
            f"has a table that cannot be read with this 'reset_when' and 'reward' ({one_line(error)})"
        ) from error
    values = [value for *_, value in paid] or [0.0]
    low, high = units = rewards.units or learned(min(values), max(values), final=True)
    if min(values) < low or max(values) > high:
        raise InvalidInput(
            f"'{name}' gives rewards in [{min(values):g}, {max(values):g}], which is outside the stated range "
            f"[{low:g}, {high:g}]: state a wider 'reward_range'."
        )
    for s, i, p, value in paid:
        reward[s, i] += p * (value - low) / (high - low)
    shape = ((n + 1) * len(actions), n + 1)
    try:
        model = FiniteMDP(
            sparse.csr_array((probabilities, (rows, columns)), shape=shape),
            np.clip(reward, 0.0, 1.0),
            np.arange(n + 1) == n,
            horizon,
            start=np.append(np.asarray(first, dtype=np.float64), 0.0),
            xi=xi,
            name=name,
            state_names=[*map(str, range(n)), "reset"],
            action_names=[str(a) for a in actions],
        )
    except (InvalidInput, ValueError) as error:
        raise NoTable(f"has a table that is not a model: {one_line(error)}") from error
    return model, units


def pattern(model: FiniteMDP) -> frozenset[tuple[int, int, int]]:
    """The possible (state, action, next state)."""
    t = model.transition
    pairs = np.repeat(np.arange(len(t.indptr) - 1), np.diff(t.indptr))
    return frozenset(
        zip((pairs // t.n_actions).tolist(), (pairs % t.n_actions).tolist(), t.indices.tolist(), strict=True)
    )


TAXI_MOVES = ("south", "north", "east", "west", "pick-up", "drop-off")
PLACES = ("red", "green", "yellow", "blue", "in taxi", "none")  # the places of Taxi, and what is none of them
NOWHERE = 5
CLIFF_MOVES, LAKE_MOVES = ("up", "right", "down", "left"), ("left", "down", "right", "up")
GRIDS = ("MiniGrid-", "BabyAI-")
DOOR, AGENT = 4, 10  # their codes
AHEAD = ((1, 0), (0, 1), (-1, 0), (0, -1))  # by direction
OBJECTS = (
    *("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent"),
    *("open door", "closed door", "locked door"),
)
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
# Wrappers of theirs whose pictures are of pixels or in another code.
UNREADABLE = {"RGBImgObsWrapper", "RGBImgPartialObsWrapper", "OneHotPartialObsWrapper", "SymbolicObsWrapper"}
Decode = Callable[[Any], Any]


class Decoder:
    """The factors of a problem's states, filled in as observations come up unless all are known at once."""

    def __init__(self, decode: Decode, n_states: int, like: tuple[Factor, ...], actions: tuple[str, ...]):
        self._decode, self._like = decode, like
        self.factors = Factors((), np.full((n_states, 0), NONE, dtype=np.int64), actions)

    def __call__(self, state: int, observation: Any) -> None:
        """Remember the factors of an observation that is seen for the first time."""
        known = self.factors
        if known.parts and known.values[state, 0] != NONE:
            return
        try:
            found = self._decode(observation)
            names = list(found) if isinstance(found, Mapping) else [f"factor {i}" for i in range(len(found))]
            row = np.array(list(found.values()) if isinstance(found, Mapping) else list(found))
            if row.ndim != 1 or not len(row) or row.dtype.kind not in "biu" or row.min() < 0:
                raise ValueError(f"must return whole numbers from 0, and returned {found!r}")
            if known.parts and len(row) != len(known.parts):
                raise ValueError(f"must return {len(known.parts)} numbers as before, and returned {len(row)}")
        except Exception as error:
            raise Unusable(f"could not be decoded: its 'decode' raised {one_line(error)}") from error
        if not known.parts:
            known.parts = self._like or tuple(n if isinstance(n, Factor) else Factor(str(n)) for n in names)
            known.values = np.full((len(known.values), len(row)), NONE, dtype=np.int64)
        known.values[state] = row

    def restore(self, values: Ints) -> None:
        """Put back the factors of numbered observations; the environment names them again."""
        rows, known = len(self.factors.values), self.factors
        good = values.ndim == 2 and len(values) == rows and values.dtype == np.int64 and values.shape[1] > 0
        expect(
            good and values.min(initial=0) >= NONE, "factors of observations", f"be [{rows}, F] numbers", got="others"
        )
        like = self._like or tuple(Factor(f"factor {i}") for i in range(values.shape[1]))
        expect(len(like) == values.shape[1], "factors of observations", f"be {len(like)}", values.shape[1])
        known.parts, known.values = like, values.copy()


def decoder_for(env: Env, decode: Any, observer: Observer, problem: str) -> Decoder | None:
    """What is known about the states of an environment; None if that is nothing.

    decode: a function of the observation, or module:function; it returns whole numbers from 0, or a dictionary of them,
      whose keys are names, or `Factor`s that say more.
    """
    if decode is not None and observer.n_states is None:
        raise InvalidInput(
            f"The 'decode' of '{problem}' needs states that are counted: discrete observations, or states=N. "
            "Got states that are vectors instead."
        )
    if not isinstance(observer, CountedObservations | Numbered):
        return None
    like: tuple[Factor, ...] = ()
    actions: tuple[str, ...] = ()
    if decode is not None:
        must = f"The 'decode' of '{problem}' must be a function of the observation, or module:function."
        function = imported(decode, must) if isinstance(decode, str) and ":" in decode else decode
        if not callable(function):
            raise InvalidInput(f"{must} Got {decode!r} instead.")
    else:
        found = _known(env) or _own(env.observation_space, observer)
        if found is None:
            return None
        function, like, actions = found
    made = Decoder(function, int(observer.n_states or 0), like, actions)
    if isinstance(observer, CountedObservations):
        space = env.observation_space
        assert isinstance(space, spaces.Discrete)
        for state in range(int(space.n)):
            try:
                made(state, int(space.start) + state)
            except Unusable as error:
                raise InvalidInput(f"Observation {int(space.start) + state} of '{problem}' {error}.") from error
    return made


def _own(space: spaces.Space[Any], observer: Observer) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """The parts of numbered observations that are whole numbers throughout."""
    own = list(parts(space))
    if not isinstance(observer, Numbered) or not all(is_whole(part.space) for part in own):
        return None
    ends = [np.stack([np.ravel(end) for end in ends_of(part.space) or ()]) for part in own]
    low, high = np.concatenate(ends, axis=1)
    names = names_of(space)
    if len(names) < 2 and not isinstance(space, spaces.Box):  # the one number of a box is ordered
        return None
    like = tuple(Factor(n, f"of {int(size)} values") for n, size in zip(names, high - low + 1, strict=True))
    return lambda observation: (flatten(space, observation) - low).astype(np.int64), like, ()


def _known(env: Env) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """Factors of well-known environments."""
    name, inner = known_name(env), env.unwrapped
    own: Any = inner
    if name == "Taxi":
        index_of = {tuple(place): i for i, place in enumerate(own.locs)}

        def taxi(observation: Any) -> Sequence[int]:
            row, column, passenger, destination = (int(x) for x in own.decode(int(observation)))
            return row, column, index_of.get((row, column), NOWHERE), passenger, destination

        like = tuple(Factor(n, "place", False, PLACES) for n in ("taxi", "passenger", "destination"))
        return taxi, (Factor("row"), Factor("column"), *like), TAXI_MOVES
    if name in ("FrozenLake", "FrozenLake8x8", "CliffWalking", "CliffWalkingSlippery"):
        lake = name.startswith("Frozen")
        columns = int(own.ncol if lake else own.shape[1])
        grid = (Factor("row"), Factor("column"))
        return lambda s: divmod(int(s), columns), grid, LAKE_MOVES if lake else CLIFF_MOVES
    if name.startswith(GRIDS):
        return _minigrid(env)
    return None


def _minigrid(env: Env) -> tuple[Decode, tuple[Factor, ...], tuple[str, ...]] | None:
    """Of MiniGrid and BabyAI: what is ahead and, as far as the observation shows it, direction, place and load."""
    space, own = env.observation_space, cast(Any, env.unwrapped)
    wrapped = {type(layer).__name__ for layer in layers(env)}
    picture = space.spaces.get("image") if isinstance(space, spaces.Dict) else space
    shape = (picture.shape or ()) if picture is not None else ()
    whole, several = "FullyObsWrapper" in wrapped, isinstance(space, spaces.Dict)
    if len(shape) != 3 or shape[2] != 3 or wrapped & UNREADABLE or (whole and shape[:2] != (own.width, own.height)):
        return None
    width, height = shape[:2]

    def cell(observation: Any) -> Sequence[int]:
        image = np.asarray(observation["image"] if several else observation)
        kinds = image[:, :, 0]
        if not whole:  # the agent's own view: it looks up
            front = image[width // 2, height - 2]
            seen = _kind(front), int(front[1]), int(kinds[width // 2, height - 1])
            return (int(observation["direction"]), *seen) if several else seen
        x, y = (int(i[0]) for i in np.nonzero(kinds == AGENT))
        facing = int(image[x, y, 2])
        return x, y, facing, _kind(image[(x + AHEAD[facing][0]) % width, (y + AHEAD[facing][1]) % height])

    direction, front = Factor("direction", ordered=False), Factor("ahead", ordered=False, words=OBJECTS)
    if whole:
        return cell, (Factor("x"), Factor("y"), direction, front), ()
    seen = front, Factor("colour ahead", ordered=False, words=COLOURS), Factor("carried", ordered=False, words=OBJECTS)
    return cell, (direction, *seen) if several else seen, ()


def _kind(cell: Any) -> int:
    """What is in a cell; doors are distinguished by their state."""
    kind = int(cell[0])
    return len(OBJECTS) - 3 + int(cell[2]) if kind == DOOR else kind
