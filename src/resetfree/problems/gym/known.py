"""What is known of environments before they are played: what their ends mean, and the table that some of them have.

Which ends are goals, which are falls, and what follows a goal: `terminated` alone does not say it. MountainCar
terminates at its goal, CartPole at a fall, FrozenLake at both.

A table is an exact model: P[s][a] is a list of (probability, next state, reward, terminated).

Legend: n states of the table, A actions; state n of the model is the reset state.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from scipy import sparse

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, one_line
from resetfree.problems.action_spaces import Box
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Transitions
from resetfree.problems.gym.events import Decide, Rewards, Units, Unusable, learned
from resetfree.problems.gym.goals import GO_ON, NEW_TASK, RESTART, Goals
from resetfree.problems.gym.making import Env, layers

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
