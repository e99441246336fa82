"""A robot that gets wedged in a corner: safe for ever, and worthless.

It patrols a corridor of 10 m and is paid for the distance it drives. Where the floor is worn, at the end, it gets
wedged: no action moves it any more, it cannot fall, and without a word it would stand there for the rest of the run.

    python examples/gym/wedged_robot.py
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np

import resetfree as rf


class WedgedRobot(gym.Env[Any, Any]):
    """Position and battery; the actions are back, wait and forth. Beyond 9 m it is wedged until a person frees it."""

    observation_space = gym.spaces.Box(np.array([0.0, 0.0]), np.array([10.0, 1.0]), dtype=np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, worn: float = 9.0) -> None:
        self.worn = worn

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Put back to the middle by hand."""
        super().reset(seed=seed)
        self.x = 5.0 + self.np_random.uniform(-0.5, 0.5)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Drive up to half a metre; the reward is the part of it that was driven."""
        before = self.x
        if self.x <= self.worn:
            self.x = float(np.clip(self.x + 0.5 * (int(action) - 1) + self.np_random.normal(0, 0.05), 0.0, 10.0))
        return self._seen(), min(abs(self.x - before) / 0.5, 1.0), False, False, {}

    def _seen(self) -> Any:
        return np.array([self.x, 1.0 if self.x <= self.worn else 0.9 + 0.001 * self.np_random.random()])


def problem() -> Any:
    """Nothing is a fall; the distance of a step is its reward."""
    return rf.from_gym(WedgedRobot(), horizon=25, reset_when="never", reward_range=(0, 1))


def main() -> None:
    """One run that only notices it, and one that asks."""
    warnings.simplefilter("ignore")  # what is noticed is printed below
    for ask in ("never", "when-stuck"):
        run = rf.learn(problem(), "uniform", "counting", feedback="realised", episodes=200, seed=1, ask=ask)
        earned = float(run.columns["reward"].sum())
        print(f"ask={ask}: {earned:.0f} m in units of 0.5 m, {len(run.requested_resets)} resets requested")
        print("   ", run.notes[0].what)


if __name__ == "__main__":
    main()
