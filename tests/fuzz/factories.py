"""Problems and functions that a user's own module may have, as `tests.fuzz.factories:NAME`; most of them are broken."""

import sys
from typing import Any

import gymnasium
import numpy as np

import resetfree as rf


def good() -> Any:
    return rf.make("grid-v0")


def leaves() -> Any:
    sys.exit(3)


def raises() -> Any:
    raise RuntimeError("no\nproblem here")


def interrupts() -> Any:
    raise KeyboardInterrupt


def gives_nothing() -> Any:
    return None


def gives_text() -> Any:
    return "grid-v0"


def gives_class() -> Any:
    return rf.FiniteMDP


def wants_more(n: int) -> Any:
    return n


NOT_CALLABLE = 5


class Falls(gymnasium.Env[Any, Any]):
    """An environment that fails in one way each."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, how: str = "step") -> None:
        self.how = how
        self.observation_space: Any = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, **_: Any) -> Any:
        if self.how == "reset":
            raise ValueError("cannot stand up")
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        answers: dict[str, Any] = {
            "nan": (np.full(2, np.nan), 0.0, False, False, {}),
            "reward": (np.zeros(2), float("inf"), False, False, {}),
            "shape": (np.zeros(7), 0.0, False, False, {}),
            "nothing": None,
            "exit": None,
        }
        if self.how == "exit":
            sys.exit(4)
        if self.how == "step":
            raise OSError("the cable is loose")
        return answers[self.how]


def falls(how: str = "step") -> Any:
    return Falls(how)
