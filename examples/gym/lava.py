"""MiniGrid's LavaGap and LavaCrossing: find the goal without a step into the lava, which is the reset.

Run: python examples/gym/lava.py [seed]
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import minigrid  # noqa: F401 - registers its environments
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.wrappers import FullyObsWrapper

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EPISODES, HORIZON = 400, 50
NAMES = {"gap": "MiniGrid-LavaGapS7-v0", "crossing": "MiniGrid-LavaCrossingS9N2-v0"}
LAYOUT = 0  # the seed of the one layout that is played
MOST = 4 * 7 * 7  # positions and directions of the agent
LEFT, RIGHT, FORWARD = 0, 1, 2


class OneLayout(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same walls and lava after every reset: the environment itself makes a new layout each time."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Back to the corner, in the same layout."""
        return self.env.reset(seed=LAYOUT, options=options)


def on_goal(observation: Any) -> bool:
    """Whether the agent is on the goal: it hides its own cell in the picture, so that no goal is visible."""
    return not (observation["image"][:, :, 0] == OBJECT_TO_IDX["goal"]).any()


def problem(layout: str = "gap") -> GymProblem:
    """Three actions; the distinct pictures of the whole grid are the states, numbered in order of occurrence."""
    # The environment ends in lava and at the goal. Only lava needs a reset; at the goal the agent may stay, and each
    # step there pays 1. (The environment's own reward shrinks with the time since its start, which is never reset.)
    wrapper: Any = FullyObsWrapper  # it has no types
    return rf.from_gym(
        wrapper(OneLayout(gymnasium.make(NAMES[layout]))),
        horizon=HORIZON,
        states=MOST,
        actions=[LEFT, RIGHT, FORWARD],
        name=f"lava {layout}",
        reset_when=lambda observation, reward, terminated, info: terminated and not on_goal(observation),
        reward=lambda observation, reward, terminated, info: float(on_goal(observation)),
    )


def sides_of_lava(lava: GymProblem) -> int:
    """The number of pairs that lead into lava, a step forward from each free cell beside it: a bound on the resets."""
    lava.env.reset()
    grid: Any = lava.env.unwrapped.grid  # type: ignore[attr-defined]
    kinds = {(x, y): getattr(grid.get(x, y), "type", "free") for x in range(grid.width) for y in range(grid.height)}
    beside = ((1, 0), (-1, 0), (0, 1), (0, -1))
    cells = [cell for cell, kind in kinds.items() if kind == "lava"]
    return sum(kinds.get((x + dx, y + dy)) in ("free", "goal") for x, y in cells for dx, dy in beside)


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn on both layouts."""
    for layout in NAMES:
        lava = problem(layout)
        run = rf.learn(lava, episodes=episodes, seed=seed)
        last = run.columns["reward"][-50:].mean() / HORIZON
        print(f"{lava.name}, {run.spec['primal']['name']}: {run.realised_resets[-1]} times in the lava,", end=" ")
        print(f"at most {sides_of_lava(lava)} possible; at the goal in {last:.0%} of the last 50 episodes' steps")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
