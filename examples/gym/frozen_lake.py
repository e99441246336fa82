"""FrozenLake 8x8 on slippery ice: every hole is a reset, and the exact oracle gives the regret.

Run: python examples/gym/frozen_lake.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.theory.assumptions import unsafe_pairs

EPISODES, HORIZON, GOAL = 300, 100, 63


def at_goal(observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> float:
    """One for each step that ends at the goal.

    The environment rewards only the first arrival, and ends there. An agent that is never reset stays there, and each
    step must be rewarded: otherwise any other state would be as good.
    """
    return float(observation == GOAL)


def problem() -> GymProblem:
    """64 cells and four directions; a step goes to either side as often as in the chosen direction."""
    # The environment is `terminated` in a hole and at the goal; only a hole needs a reset.
    fell = f"terminated and observation!={GOAL}"
    return rf.from_gym(
        "gym:FrozenLake-v1", horizon=HORIZON, reward=at_goal, reset_when=fell, map_name="8x8", is_slippery=True
    )


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn on the environment itself; its transition table is used only for the exact figures."""
    lake = problem()
    print(rf.check(lake.mdp)["feasibility"])  # Assumption 1: whether every possible start has a reset-free policy
    run = rf.learn(lake, episodes=episodes, seed=seed)
    defined = run.solution.feasible[run.columns["s1"].astype(np.int64)]
    best = run.solution.value[run.columns["s1"].astype(np.int64)]
    regret = np.where(defined, best - run.columns["v_r"], 0.0).sum()
    print(f"{run.spec['primal']['name']}: {run.realised_resets[-1]} resets in {len(run)} episodes of {HORIZON} steps")
    print(f"unsafe pairs, which bound the resets where Assumption 1 holds: {unsafe_pairs(lake.mdp)}")
    print(f"exact regret {regret:.1f} over the {defined.sum()} episodes whose start has a reset-free policy")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
