"""What tests of environments share: even policies, and a machine with goal observations and two motors of its own."""

import signal
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

EDGE = 1.0  # falling off is the reset


def even(h: int, state: Any) -> Any:
    """Both of two actions alike."""
    return np.array([0.5, 0.5])


def evenly(problem: Any) -> Any:
    """All actions of a problem alike."""
    return lambda h, state: np.full(problem.n_actions, 1 / problem.n_actions)


class Reach(gymnasium.Env[Any, Any]):
    """Two motors push a point on a table towards a goal; the lamp burns where it is near."""

    def __init__(self, edge: float = EDGE, stops_at: int = 0) -> None:
        place = spaces.Box(-2.0, 2.0, (2,), np.float64)
        self.observation_space: spaces.Space[Any] = spaces.Dict(
            {
                "observation": spaces.Dict({"speed": spaces.Box(-np.inf, np.inf, (2,), np.float64),
                                            "lamp": spaces.Discrete(2)}),
                "achieved_goal": place,
                "desired_goal": place,
            }
        )  # fmt: skip
        self.action_space = spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))
        self.edge, self.stops_at, self.actions = edge, stops_at, list[Any]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at, self.speed = self.np_random.uniform(-0.2, 0.2, 2), np.zeros(2)
        self.goal = np.array([0.5, -0.5])
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.actions.append(action)
        if len(self.actions) == self.stops_at:
            signal.raise_signal(signal.SIGINT)  # Ctrl-C
        self.speed = 0.9 * self.speed + 0.1 * action
        self.at = self.at + 0.2 * self.speed
        fell = bool((np.abs(self.at) > self.edge).any())
        return self._seen(), float(np.exp(-np.linalg.norm(self.at - self.goal))), fell, False, {}

    def _seen(self) -> dict[str, Any]:
        lamp = int(np.linalg.norm(self.at - self.goal) < 0.3)
        own = {"lamp": lamp, "speed": self.speed.copy()}
        return {"observation": own, "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}
