"""MiniGrid's LavaGap and LavaCrossing: find the goal, and do not step into the lava. That is the reset.

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
MOST = 4 * 7 * 7  # where the agent can be, and which way it looks
LEFT, RIGHT, FORWARD = 0, 1, 2


class OneLayout(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The same walls and lava after every reset: by itself the environment makes a new world each time."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Back to the corner, in the same world."""
        return self.env.reset(seed=LAYOUT, options=options)


def on_goal(observation: Any) -> bool:
    """The whole grid is seen, the agent in the place of what it stands on: nowhere a goal means that it is there."""
    return not (observation["image"][:, :, 0] == OBJECT_TO_IDX["goal"]).any()


def problem(layout: str = "gap") -> GymProblem:
    """Three actions; the distinct pictures of the whole grid are numbered as they come, and counted as states."""
    # The environment ends in lava and at the goal. Only lava needs somebody; at the goal the agent may stand, and each
    # step there pays 1. (The environment's own reward shrinks with the time since its start, which nobody resets.)
    world: Any = FullyObsWrapper  # it has no types
    return rf.from_gym(
        world(OneLayout(gymnasium.make(NAMES[layout]))), horizon=HORIZON, states=MOST,
        actions=[LEFT, RIGHT, FORWARD], name=f"lava {layout}",
        reset_when=lambda observation, reward, terminated, info: terminated and not on_goal(observation),
        reward=lambda observation, reward, terminated, info: float(on_goal(observation)),
    )  # fmt: skip


def sides_of_lava(lava: GymProblem) -> int:
    """Pairs that lead into lava: a step forward from each free cell beside it. No more resets than that can come."""
    lava.env.reset()
    grid: Any = lava.env.unwrapped.grid  # type: ignore[attr-defined]
    kinds = {(x, y): getattr(grid.get(x, y), "type", "free") for x in range(grid.width) for y in range(grid.height)}
    beside = ((1, 0), (-1, 0), (0, 1), (0, -1))
    return sum(
        kinds.get((x + dx, y + dy)) in ("free", "goal")
        for (x, y), kind in kinds.items() if kind == "lava" for dx, dy in beside
    )  # fmt: skip


def main(seed: int = 0, episodes: int = EPISODES) -> None:
    """Learn both."""
    for layout in NAMES:
        lava = problem(layout)
        run = rf.learn(lava, episodes=episodes, seed=seed)
        last = run.columns["reward"][-50:].mean() / HORIZON
        print(f"{lava.name}, {run.spec['primal']['name']}: {run.realised_resets[-1]} times in the lava,", end=" ")
        print(f"at most {sides_of_lava(lava)} possible; at the goal in {last:.0%} of the last 50 episodes' steps")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
