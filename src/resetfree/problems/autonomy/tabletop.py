"""`tabletop`: a gripper brings a mug from one side of a table to one of four places, and returns to its middle.

After the description of EARL's tabletop manipulation (Sharma et al. 2022, "Autonomous reinforcement learning:
formalism and benchmarking"), whose numbers it has; the physics is plane geometry here, without a simulator.
Without walls, after PAINT (Xie et al. 2022, "When to ask for help"): a mug that is carried or left beyond the edge has
fallen off, and only a person can put it back.

Legend: x = (gripper, mug, held): two places in the plane, and 1 if the gripper holds the mug, else -1.
"""

from typing import Any

import numpy as np
from gymnasium import spaces

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask

STEP = 0.2  # the most that the gripper moves along an axis
EDGE = 2.8  # of the table, from its middle
REACH = 3.2  # of the gripper, where there are no walls
GRASP = 0.4  # distance within which the gripper can take the mug
CLOSE = 0.2  # distance to the goal, of gripper and mug together, that counts as success
START: Floats = np.array([0.0, 0.0, 2.5, 0.0])
GOALS: Floats = np.array([[0.0, 0.0, -2.5, -1.0], [0.0, 0.0, -2.5, 1.0], [0.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, -2.0]])


def moved(x: Any, action: Any, walls: bool = True, size: float = 1.0, xp: Any = np) -> Any:
    """[n, 5] the states after actions [n, 3] in [-1, 1]: two of motion, and one of the gripper, closed above 0.

    A closed gripper takes a mug within GRASP and moves it along; an open one lets go of it, before it moves.

    xp: NumPy, or `jax.numpy`.

    >>> moved(np.array([[2.4, 0.0, 2.5, 0.0, -1.0]]), np.array([[-1.0, 0.5, 1.0]])).round(6).tolist()
    [[2.2, 0.1, 2.3, 0.1, 1.0]]
    """
    gripper, mug, held = x[:, :2], x[:, 2:4], x[:, 4] > 0
    closed = action[:, 2] > 0
    held = closed & (held | (xp.sqrt(((gripper - mug) ** 2).sum(axis=1)) < GRASP))
    edge = size * EDGE
    far = edge if walls else edge + REACH - EDGE
    to = xp.clip(gripper + STEP * action[:, :2], -far, far)
    mug = mug + (to - gripper) * held[:, None]
    if walls:
        mug = xp.clip(mug, -edge, edge)
    return xp.concatenate([to, mug, xp.where(held, 1.0, -1.0)[:, None]], axis=1)


def at_goal(states: Any) -> Any:
    """[n] whether gripper and mug are at the goal in observations [n, 9], NumPy's or JAX's."""
    return ((states[:, :4] - states[:, 5:9]) ** 2).sum(axis=1) <= CLOSE**2


def is_lost(x: Any, size: float = 1.0) -> Any:
    """[n] whether the mug is beyond the edge in states [n, 5]."""
    return (abs(x[:, 2:4]) > size * EDGE).any(axis=1)


class Tabletop(GoalTask):
    """Bring the mug to its place and the gripper back to the middle.

    Observation: gripper, mug, 1 or -1 for a mug that is held, and the goal (of gripper and mug). Action: two of motion,
    one of the gripper. Reward: 1 where gripper and mug are within 0.2 of the goal, else 0. Reset: never with walls;
    without them, if the mug is beyond the edge.

    walls: whether the table has walls, through which neither gripper nor mug can pass.
    size: of the table and all distances on it, as a part of the published one; steps and tolerances stay.
    hold: steps between two goals.
    """

    def __init__(self, walls: bool = True, size: float = 1.0, hold: int = 200) -> None:
        self.walls, self.size, self.hold = walls, size, hold
        self.goals, self.starts = size * GOALS, size * START[None]
        self.near = min(0.5, 0.5 * size)
        edge = size * EDGE
        far = np.full(4, edge if walls else edge + REACH - EDGE + GRASP)
        high = np.concatenate([far, [1.0], np.full(4, edge)])
        self.observation_space = spaces.Box(-high, high, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (3,), dtype=np.float64)

    def beginning(self) -> Floats:
        """The gripper in the middle, the mug on its side."""
        return np.append(self.starts[0], -1.0)

    def moved(self, action: Floats) -> Floats:
        """By plane geometry."""
        return np.asarray(moved(self.x[None], action[None], self.walls, self.size)[0])

    def is_stuck(self) -> bool:
        """The mug is beyond the edge."""
        return bool(is_lost(self.x[None], self.size)[0])

    def achieved(self, states: Floats) -> Floats:
        """Where gripper and mug are."""
        return states[:, :4]

    def rewards(self, states: Floats) -> Floats:
        """1 where both are at the goal."""
        return np.asarray(at_goal(states), dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """To the mug, with it to its place, and to the gripper's own place."""
        gripper, mug, goal = observation[:2], observation[2:4], observation[5:9]
        held = observation[4] > 0
        if np.hypot(*(mug - goal[2:])) > CLOSE / 3:
            if held or np.hypot(*(gripper - mug)) < 0.5 * GRASP:
                return np.append(_towards(goal[2:] - mug), 1.0)
            return np.append(_towards(mug - gripper), -1.0)
        return np.append(_towards(goal[:2] - gripper), -1.0)


def _towards(way: Floats) -> Floats:
    """[2] the motion along a way, as a share of STEP."""
    return np.clip(way / STEP, -1.0, 1.0)
