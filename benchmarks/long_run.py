"""Planning for the episode and for the long run, side by side: rewards, resets, seconds, on the same seeds.

`python benchmarks/long_run.py` plays grid-v0, pits-v0 and doors-v0; `--held-out` a table of other problems, shorter.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import resetfree as rf
from resetfree.game.capabilities import choose
from resetfree.players import discover
from resetfree.problems.registry import find_world
from resetfree.theory.regret import possible

OBJECTIVES = ("episode", "long-run")
NAMED: list[tuple[str, dict[str, Any], int]] = [(name, {}, 10_000) for name in ("grid-v0", "pits-v0", "doors-v0")]
HELD_OUT: list[tuple[str, dict[str, Any], int]] = [
    ("gym:FrozenLake-v1", {"horizon": 20, "is_slippery": False}, 500),
    ("gym:CliffWalking-v1", {"horizon": 50}, 500),
    ("gym:Taxi-v4", {"horizon": 50}, 300),
    ("contexts-v0", {}, 1000),
    ("drawn-v0", {}, 1000),
    ("pits-v0", {"n": 8, "slip": 0.1, "density": 0.15, "seed": 3}, 1000),
    *(("generated-v0", {"draw": draw}, 1000) for draw in range(100, 142)),
]


class Row(NamedTuple):
    """What one objective came to on one problem."""

    reward: float  # per episode in the last tenth, mean over seeds
    worst: float  # of all seeds
    resets: int  # of all seeds
    best: float  # possible in the long run, nan where no model is known
    milliseconds: float  # of one core, per episode


def played(name: str, options: dict[str, Any], episodes: int, seeds: range, objective: str) -> Row | None:
    """All seeds; None where `auto` takes a player that does not eliminate."""
    choice = choose(find_world(name, options).problem, discover("primal").own, bound_known=False)
    if "objective" not in choice.settings.get("primal", {}):
        return None
    rewards, resets, best, began = [], 0, float("nan"), time.process_time()
    settings = {**choice.settings, "primal": {"objective": objective}, "problem": options}
    for seed in seeds:
        more: dict[str, Any] = {"feedback": choice.feedback, "episodes": episodes, "settings": settings}
        run = rf.learn(name, choice.primal, choice.dual, seed=seed, **more)
        rewards.append(float(run.columns["reward"][-episodes // 10 :].mean()))
        resets += int(run.realised_resets[-1])
        if run.mdp is not None:
            best = possible(run.solution, run.columns["s1"]).long_run or 0.0
    seconds = time.process_time() - began
    return Row(float(np.mean(rewards)), min(rewards), resets, best, 1000 * seconds / (episodes * len(seeds)))


def table(cases: list[tuple[str, dict[str, Any], int]], seeds: range) -> Iterator[str]:
    """A row for each problem and objective, as they are measured."""
    yield "| problem | objective | reward an episode: mean | worst seed | possible | resets | ms an episode |"
    yield "|---|---|---|---|---|---|---|"
    for name, options, episodes in cases:
        for objective in OBJECTIVES:
            row = played(name, options, episodes, seeds, objective)
            if row is not None:
                words = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
                best = f"{row.best:.4g}"
                yield (
                    f"| {words} | {objective} | {row.reward:.4g} | {row.worst:.4g} | {best} | {row.resets} "
                    f"| {row.milliseconds:.2g} |"
                )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--first", type=int, default=5000, help="the first seed")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    for line in table(HELD_OUT if given.held_out else NAMED, range(given.first, given.first + given.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
