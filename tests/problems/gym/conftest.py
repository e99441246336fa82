"""A plant to be learned on, which counts its resets and fails where it is told to."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces


class Line(gymnasium.Env[Any, Any]):
    """A walk on a line: action 1 leads right, 0 left, with some noise; falling off either end terminates."""

    def __init__(self, length: float = 6.0, observation: str = "box") -> None:
        self.observation_space = {
            "box": spaces.Box(-np.inf, np.inf, (2,)),
            "discrete": spaces.Discrete(41, start=-20),
            "dictionary": spaces.Dict({"at": spaces.Box(-9.0, 9.0, (1,)), "word": spaces.Text(9)}),
        }[observation]
        self.action_space: spaces.Space[Any] = spaces.Discrete(2)
        self.length, self.kind = length, observation
        self.reset_calls: list[int | None] = []
        self.steps, self.steps_after_truncation = 0, 0
        self.fail: dict[int, Any] = {}  # step in all -> an exception, or what to observe or give as a reward
        self.rewards: dict[int, Any] = {}
        self.own_limit: int | None = None
        self._buffer = np.zeros(2, dtype=np.float32)

    def _seen(self) -> Any:
        if self.kind == "discrete":
            return round(self.at)
        if self.kind == "dictionary":
            return {"at": np.array([round(self.at)], dtype=np.float32), "word": "left" if self.at < 0 else "right"}
        self._buffer[:] = self.at, self.steps % 2  # one array again and again, as some environments do
        return self._buffer

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.reset_calls.append(seed)
        self.at, self.life = float(self.np_random.uniform(-1, 1)), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.life += 1
        wrong = self.fail.get(self.steps)
        if isinstance(wrong, Exception):
            raise wrong
        self.at += (1.0 if action == 1 else -1.0) + float(self.np_random.normal(0, 0.3))
        fell = abs(self.at) >= self.length
        late = self.own_limit is not None and self.life > self.own_limit
        observation = self._seen() if wrong is None else wrong
        return observation, self.rewards.get(self.steps, 1.0), fell, late, {"fell": fell}


@pytest.fixture
def line() -> type[Line]:
    return Line
