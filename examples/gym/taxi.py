"""Taxi: an illegal pick-up or drop-off needs an intervention of the company, which is the reset.

Run: python examples/gym/taxi.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.theory.assumptions import unsafe_pairs

EPISODES, HORIZON = 3_000, 30


def delivered(observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> float:
    """One for each passenger at the destination; afterwards they may be picked up again."""
    return float(reward == 20)


def problem() -> GymProblem:
    """500 states (taxi, passenger, destination) and six actions."""
    # The environment pays -10 for an illegal pick-up or drop-off and continues. Here each of them is a reset. It is
    # `terminated` after a delivery, which needs none.
    return rf.from_gym("gym:Taxi-v4", horizon=HORIZON, reward=delivered, reset_when="reward<=-10")


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn on the environment itself; its transition table is used only for the exact figures."""
    taxi = problem()
    print(rf.check(taxi.mdp)["feasibility"])  # Assumption 1
    run = rf.learn(taxi, episodes=episodes, seed=seed)
    print(f"{run.spec['primal']['name']}: {run.realised_resets[-1]} resets, at most {unsafe_pairs(taxi.mdp)} possible")
    tenth = len(run) // 10
    print(f"exact regret per episode: {run.regret[tenth - 1] / tenth:.2f} in the first tenth of all episodes,", end=" ")
    print(f"{(run.regret[-1] - run.regret[-tenth - 1]) / tenth:.2f} in the last")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
