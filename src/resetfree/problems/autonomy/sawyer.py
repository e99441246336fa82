"""`sawyer-door` and `sawyer-peg`: EARL's door and peg, on Meta-World where it is installed (extra `earl`).

After Sharma et al. (2022, "Autonomous reinforcement learning: formalism and benchmarking"), whose tasks these are: an
arm closes a door, or puts a peg into a hole; the reward is sparse. The expert is Meta-World's own script, which knows
only the way forth.
"""

import sys
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask

FRAME, OBJECT, TARGET = 18, slice(4, 7), slice(36, 39)  # of an observation of Meta-World


class Measures(NamedTuple):
    """Where the observed place of an object is when it is at its target, and how near counts."""

    beside: tuple[float, float, float]  # m
    close: float  # m


MEASURES = {
    "door-close-v3": Measures((0.0, 0.0, 0.0), 0.08),
    "peg-insert-side-v3": Measures((0.2, 0.0, 0.0), 0.07),  # the target is for the peg's head
}


class Sawyer(GoalTask):
    """Bring the object to its goal.

    Observation: Meta-World's newest frame (hand, gripper, object), and the goal, the object's place. Action: three of
    motion, one of the gripper. Reward: 1 where the object is at its goal, else 0. Reset: never.

    task: an id of Meta-World.
    """

    both_ways, longest, near = False, 250, 0.1

    def __init__(self, task: str = "door-close-v3") -> None:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE as WORLDS
        from metaworld.policies import ENV_POLICY_MAP as SCRIPTS

        self._arm: Any = WORLDS[f"{task}-goal-observable"](seed=0)
        self._arm.max_path_length = sys.maxsize
        self._script, self._measures = SCRIPTS[task](), MEASURES[task]
        self._beside = np.array(self._measures.beside)
        frame = np.asarray(self._arm.reset()[0], dtype=np.float64)
        self.goals, self.starts = (frame[TARGET] + self._beside)[None], frame[OBJECT][None].copy()
        far = np.full(FRAME + 3, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), dtype=np.float64)

    def beginning(self) -> Floats:
        """Where Meta-World puts arm and object."""
        return self._frame(self._arm.reset()[0])

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        return self._frame(self._arm.step(action.astype(np.float32))[0])

    def _frame(self, seen: Any) -> Floats:
        return np.asarray(seen, dtype=np.float64)[:FRAME]

    def is_stuck(self) -> bool:
        """Never."""
        return False

    def achieved(self, states: Floats) -> Floats:
        """Where the object is."""
        return states[:, OBJECT]

    def rewards(self, states: Floats) -> Floats:
        """1 where it is at its goal."""
        off = ((states[:, OBJECT] - states[:, FRAME:]) ** 2).sum(axis=1)
        return np.asarray(off <= self._measures.close**2, dtype=np.float64)

    def expert(self, observation: Floats) -> Floats:
        """Meta-World's script."""
        frame, goal = observation[:FRAME], observation[FRAME:] - self._beside
        action = self._script.get_action(np.concatenate([frame, frame, goal]))
        return np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)

    def close(self) -> None:
        """Close MuJoCo's."""
        self._arm.close()
