"""A plant whose states are counted from -20 and whose resets are counted too."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces


class Walk(gymnasium.Env[Any, Any]):
    """A walk on a line: action 2 (the last of 1, 2) leads right, 1 left, with noise; falling off either end ends it."""

    def __init__(self, observation: str = "discrete", length: float = 6.0) -> None:
        self.kind, self.length = observation, length
        self.observation_space = {
            "discrete": spaces.Discrete(41, start=-20),
            "box": spaces.Box(-9.0, 9.0, (1,), np.float64),
            "tuple": spaces.Tuple((spaces.Box(-9.0, 9.0, (1,), np.float64), spaces.Discrete(2))),
            "dictionary": spaces.Dict({"at": spaces.Box(-9.0, 9.0, (1,)), "side": spaces.Discrete(2)}),
        }[observation]
        self.action_space: spaces.Space[Any] = spaces.Discrete(2, start=1)
        self.reset_calls = 0

    def _seen(self) -> Any:
        side = int(self.at > 0)
        return {
            "discrete": round(self.at), "box": np.array([self.at]), "tuple": (np.array([self.at]), side),
            "dictionary": {"at": np.array([round(self.at)], dtype=np.float32), "side": side},
        }[self.kind]  # fmt: skip

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.reset_calls += 1
        self.at = float(self.np_random.uniform(-1, 1))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += (1.0 if action == 2 else -1.0) + float(self.np_random.normal(0, 0.3))
        return self._seen(), float(self.at > 0), abs(self.at) >= self.length, False, {}


@pytest.fixture
def walk() -> type[Walk]:
    return Walk
