"""What the ends of well-known environments mean: which are goals, which are falls, and what follows a goal.

`terminated` alone does not say it: MountainCar terminates at its goal, CartPole at a fall, FrozenLake at both.
"""

import re
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from resetfree.core.arrays import Floats
from resetfree.problems.gym.goals import GO_ON, NEW_TASK, RESTART
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
