"""CartPole that is started once and reset only after a fall: how many falls before 5,000 upright steps in a row?

Run: python examples/gym/cartpole.py [seed]
"""

from __future__ import annotations

import sys

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EPISODES, HORIZON, LONG = 150, 100, 5_000


def problem() -> GymProblem:
    """Two actions, four numbers: the position and angle of the pole, and their speeds."""
    # `terminated` is true when the pole is past 12 degrees or the cart past 2.4, which needs a reset. The time limit of
    # 500 steps is lifted: an upright pole is no reason for a reset. The reward is 1 for each step.
    return rf.from_gym("gym:CartPole-v1", horizon=HORIZON, reset_when="terminated")


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
