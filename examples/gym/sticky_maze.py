"""A maze with glue on the floor: whoever steps into it stays there, safe for ever and worthless, until a person helps.

    python examples/gym/sticky_maze.py [seed]

Nothing here is a fall, so nothing ever calls for a reset: a run that may not ask stands in the first glue it finds.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import gymnasium as gym

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

PLAN = """#######
#S..#~#
#.#...#
#.~##.#
#..~..#
#~#..G#
#######""".splitlines()
CELLS = [(i, j) for i, row in enumerate(PLAN) for j, mark in enumerate(row) if mark != "#"]
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
EPISODES, HORIZON, SHORTEST = 300, 25, 8  # the last: steps from the start to the goal


class StickyMaze(gym.Env[Any, Any]):
    """The observation is the number of the cell; the goal pays 1 and terminates."""

    observation_space = gym.spaces.Discrete(len(CELLS))
    action_space = gym.spaces.Discrete(len(MOVES))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Back to the start."""
        super().reset(seed=seed)
        self.cell = next(cell for cell in CELLS if self._mark(cell) == "S")
        return CELLS.index(self.cell), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A move, or none against a wall and out of glue."""
        to = self.cell[0] + MOVES[action][0], self.cell[1] + MOVES[action][1]
        if to in CELLS and self._mark(self.cell) != "~":
            self.cell = to
        at_goal = self._mark(self.cell) == "G"
        return CELLS.index(self.cell), float(at_goal), at_goal, False, {}

    def _mark(self, cell: tuple[int, int]) -> str:
        return PLAN[cell[0]][cell[1]]


def problem() -> GymProblem:
    """Nothing is a fall; at the goal it restarts by itself."""
    return rf.from_gym(
        StickyMaze(), horizon=HORIZON, reset_when="never", goal_when="terminated", after_goal="restart for free"
    )


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """One run that only notices that it is stuck, and one that asks for help."""
    warnings.simplefilter("ignore")  # what is noticed is printed below
    for ask in ("never", "when-stuck"):
        run = rf.learn(problem(), episodes=episodes, seed=seed, ask=ask)
        requested, others = len(run.requested_resets), run.realised_resets[-1]
        print(f"ask={ask}: {run.goals[-1]} goals, {requested} resets requested, {others} others")
        print("   ", run.notes[0].what if run.notes else "It was never stuck.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
