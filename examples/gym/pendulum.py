"""A pendulum that starts upright and must stay there: to fall past 60 degrees is the reset.

Run: python examples/gym/pendulum.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EPISODES, HORIZON, LONG = 100, 100, 5_000
TORQUES = 5  # -2, -1, 0, 1, 2
NEAR = {"x_init": 0.1, "y_init": 0.1}  # radians from upright, radians per second


class Upright(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A reset holds the pendulum upright and lets go; the environment itself starts at any angle."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Near upright, at a small speed."""
        return self.env.reset(seed=seed, options=NEAR | (options or {}))


def angle(observation: Any) -> tuple[float, float]:
    """Angle and speed: the observation has cosine and sine, which are redundant."""
    cosine, sine, speed = observation
    return float(np.arctan2(sine, cosine)), float(speed)


def problem() -> GymProblem:
    """Five torques, two numbers: the angle and its speed."""
    # Past 60 degrees (a cosine below 0.5) the motor is too weak to bring it back: already 6 sin(24 degrees) of gravity
    # outweighs it. The reward is minus the squares of angle, speed and torque. Within 60 degrees that is never below
    # -5: even with the motor's help the fall ends with less than 6 rad/s, which costs 0.1 * 6**2 + 1.05**2 + 0.004.
    return rf.from_gym(
        Upright(gymnasium.make("Pendulum-v1")),
        horizon=HORIZON,
        actions=TORQUES,
        reset_when="observation[0]<0.5",
        reward_range=(-5.0, 0.0),
        features=angle,
        name="upright pendulum",
    )


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn, and print the steps at which it fell."""
    run = rf.learn(problem(), episodes=episodes, seed=seed)
    steps = run.columns["steps"].cumsum()
    fell = steps[run.columns["reset"] == 1]
    print(f"{run.spec['primal']['name']}: {len(fell)} falls in {steps[-1]} steps, at steps {fell.tolist()}")
    last = run.columns["original_return"][-10:].sum() / run.columns["steps"][-10:].sum()
    print(f"Reward per step of the last 10 episodes, 0 at best: {last:.4f}")
    upright = steps[-1] - (fell[-1] if len(fell) else 0)
    print(f"It has been upright for the last {upright} steps{', long enough' if upright >= LONG else ''}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
