"""MuJoCo's inverted pendulum on a cart, with five forces to choose from; leaning past 0.2 radians is the reset.

Run: python examples/gym/inverted_pendulum.py [seed]
"""

from __future__ import annotations

import sys

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EPISODES, HORIZON, LONG = 100, 100, 5_000
FORCES = 5  # -3, -1.5, 0, 1.5, 3


def problem() -> GymProblem:
    """Five forces, four numbers: position of the cart, angle of the pole, and their speeds."""
    # `terminated` is true when the pole leans more than 0.2 radians, from where it cannot recover. The cart may be
    # anywhere on its rail; the rail's end at 1 is a wall, not a reset. The reward is 1 for each step that ends upright.
    return rf.from_gym("gym:InvertedPendulum-v5", horizon=HORIZON, actions=FORCES, reset_when="terminated")


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn, and print the steps at which it fell."""
    run = rf.learn(problem(), episodes=episodes, seed=seed)
    steps = run.columns["steps"].cumsum()
    fell = steps[run.columns["reset"] == 1]
    print(f"{run.spec['primal']['name']}: {len(fell)} falls in {steps[-1]} steps, at steps {fell.tolist()}")
    upright = steps[-1] - (fell[-1] if len(fell) else 0)
    print(f"It has been upright for the last {upright} steps{', long enough' if upright >= LONG else ''}.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
