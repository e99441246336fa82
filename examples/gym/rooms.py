"""Four rooms with pits, and a new goal every 2,500 steps: knowledge of the pits transfers to every task.

Run: python examples/gym/rooms.py [seed]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np

import resetfree as rf
from resetfree.game.contract import Round
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.problems.contract import Episode
from resetfree.problems.gym.adapter import GymProblem

PLAN = """#########
#0..#..1#
#.o...o.#
#...#...#
##.###.##
#...#...#
#.o...o.#
#2..#..3#
#########""".splitlines()
FREE = [(i, j) for i, row in enumerate(PLAN) for j, mark in enumerate(row) if mark != "#"]
GOALS = [next(cell for cell in FREE if PLAN[cell[0]][cell[1]] == digit) for digit in "0132"]  # in the order of tasks
MOVES = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))
START, TASK_STEPS, HORIZON = (3, 3), 2_500, 25


class Rooms(gymnasium.Env[Any, Any]):
    """The observation is the cell and the task, as one number; the task changes with time, and a pit terminates."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(len(GOALS) * len(FREE))
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self._cell, self._steps = START, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Back to the start; the task does not change."""
        super().reset(seed=seed)
        self._cell = START
        return self._observe(), {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """A move, or none against a wall; the reward is 1 on the goal of the task."""
        to = self._cell[0] + MOVES[action][0], self._cell[1] + MOVES[action][1]
        self._cell = to if to in FREE else self._cell
        reward = float(self._cell == GOALS[self.task])
        self._steps += 1
        return self._observe(), reward, PLAN[self._cell[0]][self._cell[1]] == "o", False, {}

    @property
    def task(self) -> int:
        """The index of the current goal, in cycles."""
        return self._steps // TASK_STEPS % len(GOALS)

    def _observe(self) -> int:
        return self.task * len(FREE) + FREE.index(self._cell)


@dataclass(frozen=True)
class OneWorld(SupportElimination):
    """Support elimination with the knowledge that tasks differ only in their goals: a pit in one is a pit in all.

    A step into a pit is counted in every task, with reward 0. Rewards are not shared.
    """

    name: ClassVar[str] = "one-world"

    def update(self, state: Any, round: Round) -> Any:
        """The usual update, and a step into a pit once more for each other task."""
        state = super().update(state, round)
        if round.episode.reset:
            last, action = int(round.episode.states[-2]), round.episode.actions[-1:]
            for shift in range(len(FREE), len(GOALS) * len(FREE), len(FREE)):
                there = (last + shift) % (len(GOALS) * len(FREE))
                step = Episode(np.array([there, round.episode.states[-1]]), action, np.zeros(1), True, None)
                state = super().update(state, round._replace(episode=step))
        return state


def decode(observation: int) -> dict[str, int]:
    """What the number of an observation stands for: rules about danger speak of these."""
    task, cell = divmod(int(observation), len(FREE))
    return {"row": FREE[cell][0], "column": FREE[cell][1], "task": task}


def problem() -> GymProblem:
    """A pit (`terminated`) is the reset event; a change of the goal is not."""
    named = "four rooms, four tasks"
    return rf.from_gym(Rooms(), horizon=HORIZON, reset_when="terminated", name=named, decode=decode)


def main(seed: int = 0, rounds: int = 2) -> None:
    """Every task `rounds` times, by both players."""
    shared: dict[str, Any] = {"feedback": "realised", "settings": {"dual": {"C": 0.0}}}
    episodes = rounds * len(GOALS) * TASK_STEPS // HORIZON
    for player in (SupportElimination(), OneWorld()):
        run = rf.learn(problem(), player, "constant-penalty", episodes=episodes, seed=seed, **shared)
        steps = run.columns["steps"].cumsum()
        task = (steps - run.columns["steps"]) // TASK_STEPS  # an episode belongs to the task that it begins in
        resets = np.bincount(task, weights=run.columns["reset"]).astype(int)
        earned = np.bincount(task, weights=run.columns["reward"]) / np.bincount(task, weights=run.columns["steps"])
        print(f"{player.name}: resets task by task {resets.tolist()}, in all {resets.sum()}")
        print(f"  reward per step, task by task: {' '.join(f'{share:.2f}' for share in earned)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
