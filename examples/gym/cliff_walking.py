"""CliffWalking where the ground is slippery: a fall off the cliff is the reset.

Run: python examples/gym/cliff_walking.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem
from resetfree.theory.assumptions import unsafe_pairs

EPISODES, HORIZON, GOAL = 500, 100, 47


def at_goal(observation: Any, reward: float, terminated: bool, info: dict[str, Any]) -> float:
    """One for each step that ends at the goal; the environment's own -1 per step rewards only the first arrival."""
    return float(observation == GOAL)


def problem() -> GymProblem:
    """48 cells and four directions; a step goes to either side as often as in the chosen direction."""
    # The environment itself never ends at the cliff: it subtracts 100 and moves the agent back to the start. That is a
    # reset, so it is declared as one. At the goal, `terminated` needs none: the agent should stay there.
    return rf.from_gym(
        "gym:CliffWalking-v1", is_slippery=True, horizon=HORIZON, reward=at_goal, reset_when="reward<=-100"
    )


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn on the environment itself; its transition table is used only for the exact figures."""
    cliff = problem()
    print(rf.check(cliff.mdp)["feasibility"])  # Assumption 1
    run = rf.learn(cliff, episodes=episodes, seed=seed)
    print(f"{run.spec['primal']['name']}: {run.realised_resets[-1]} resets, at most {unsafe_pairs(cliff.mdp)} possible")
    print(
        f"exact regret {run.regret[-1]:.1f}, of which {run.regret[-1] - run.regret[len(run) // 2]:.1f} in the 2nd half"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
