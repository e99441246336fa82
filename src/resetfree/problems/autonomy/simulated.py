"""Tasks on simulators of others: a door and a peg on Meta-World, and MuJoCo's half-cheetah, which is stuck on its back.

`sawyer-door` and `sawyer-peg` (extra `earl`): after Sharma et al. (2022, "Autonomous reinforcement learning: formalism
and benchmarking"), whose tasks these are: an arm closes a door, or puts a peg into a hole; the reward is sparse. The
expert is Meta-World's own script, which knows only the way forth.

`flip-cheetah` (extra `envs`): after PAINT (Xie et al. 2022, "When to ask for help"): its pitch beyond 2/3 pi is a state
that it cannot leave, and the requested speed changes every 500 steps. There is no scripted expert.
"""

import sys
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask
from resetfree.problems.knowledge import Demonstration

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


PITCH, SPEED = 1, 8  # their places in an observation
BACK = 2.0 * np.pi / 3.0  # rad
WIDTH = 2.0  # m/s from the requested speed at which the reward ends


class FlipCheetah(GoalTask):
    """Run at the requested speed, and do not fall on your back.

    Observation: that of HalfCheetah-v5, and the requested speed. Action: six torques. Reward: 1 at the requested speed,
    0 from 2 m/s away. Reset: the pitch is beyond 2/3 pi.
    """

    goals, starts = np.array([[1.0], [2.0], [3.0]]), np.zeros((1, 1))
    sparse, hold = False, 500

    def __init__(self) -> None:
        self._body = gymnasium.make("HalfCheetah-v5", max_episode_steps=-1, disable_env_checker=True)
        far = np.full(18, np.inf)
        self.observation_space = spaces.Box(-far, far, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (6,), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """On its feet, with a speed drawn at random."""
        self._seed = seed
        return super().reset(seed=seed)

    def beginning(self) -> Floats:
        """On its feet."""
        return np.asarray(self._body.reset(seed=self._seed)[0], dtype=np.float64)

    def moved(self, action: Floats) -> Floats:
        """By MuJoCo."""
        return np.asarray(self._body.step(action)[0], dtype=np.float64)

    def is_stuck(self) -> bool:
        """It lies on its back."""
        return bool(abs(self.x[PITCH]) > BACK)

    def achieved(self, states: Floats) -> Floats:
        """The speed."""
        return states[:, SPEED : SPEED + 1]

    def rewards(self, states: Floats) -> Floats:
        """How near it is to that requested."""
        return np.clip(1.0 - np.abs(states[:, SPEED] - states[:, -1]) / WIDTH, 0.0, 1.0)

    def home(self, states: Floats) -> Floats:
        """How level it is."""
        return np.clip(1.0 - np.abs(states[:, PITCH]) / BACK, 0.0, 1.0)

    def onward(self, states: Floats) -> NDArray[np.int64]:
        """Any speed, by place; to stand where it leans far."""
        turn = (np.abs(states[:, SPEED]) * 1e4).astype(np.int64) % len(self.goals)
        return np.where(np.abs(states[:, PITCH]) > BACK / 2, len(self.goals), turn)

    def demonstrations(self, seed: int, back: bool) -> list[Demonstration]:
        """None."""
        return []

    def expert(self, observation: Floats) -> Floats:
        """No script makes it run."""
        raise NotImplementedError

    def close(self) -> None:
        """Close MuJoCo's."""
        self._body.close()
