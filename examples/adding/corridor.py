"""Corridors with a hole at the end, as corridor:LENGTH."""

from typing import Any

import gymnasium

import resetfree as rf


class Corridor(gymnasium.Env[Any, Any]):
    """Walk left, right or stay: the closer to the hole, the better it pays."""

    def __init__(self, length: int, wind: float) -> None:
        self.length, self.wind = length, wind
        self.observation_space = gymnasium.spaces.Discrete(length + 1)
        self.action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Back to the left end."""
        super().reset(seed=seed)
        self.cell = 0
        return self.cell, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """`terminated` in the hole, which calls for a reset."""
        push = int(self.np_random.random() < self.wind)
        self.cell = min(max(self.cell + int(action) - 1 + push, 0), self.length)
        fell = self.cell == self.length
        return self.cell, 0.0 if fell else self.cell / self.length, fell, False, {}


def make(name: str, wind: float = 0.1) -> Corridor:
    """The corridor that corridor:LENGTH means."""
    if not name.isdigit() or int(name) < 2:
        raise rf.InvalidInput(f"A corridor must have a length from 2, as corridor:8. Got corridor:{name} instead.")
    return Corridor(int(name), wind)
