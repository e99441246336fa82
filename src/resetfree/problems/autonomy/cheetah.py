"""`flip-cheetah`: MuJoCo's half-cheetah runs at a speed that changes; on its back it is stuck.

After PAINT (Xie et al. 2022, "When to ask for help"): its pitch beyond 2/3 pi is a state that it cannot leave, and the
requested speed changes every 500 steps. Needs MuJoCo (extra `envs`). There is no scripted expert.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.problems.autonomy.goal_task import GoalTask
from resetfree.problems.knowledge import Demonstration

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
