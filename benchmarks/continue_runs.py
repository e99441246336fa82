"""A run that is killed, extended, widened in range, and used to begin a second one: does that need fewer resets?

For each seed: a run on CartPole is killed (SIGKILL), resumed and extended to more episodes than planned. A second run,
with a wider reward range and another seed, begins with its data and policy and with five demonstrations of a controller
by hand. The table has the resets of the first run in as many episodes as the second has, those of the second, and those
of a second run without any data.

    python benchmarks/continue_runs.py --seeds 10                         # short: 60 episodes, extended to 80
    python benchmarks/continue_runs.py --seeds 10 --planned 600 --more 800 --second 600
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import resetfree as rf
from resetfree.core.errors import RunError
from resetfree.runs.ledger import read

ID, HORIZON, PLAYER = "gym:CartPole-v1", 50, "model-search"
DEMONSTRATIONS = 5


def problem(low: float, high: float) -> Any:
    return rf.from_gym(ID, horizon=HORIZON, reward_range=(low, high))


def demonstrations() -> list[list[tuple[Any, ...]]]:
    """Episodes of a controller by hand, which pushes to the side to which the pole falls."""
    env, found = gym.make("CartPole-v1"), []
    for seed in range(DEMONSTRATIONS):
        observation, _ = env.reset(seed=seed)
        steps: list[tuple[Any, ...]] = []
        for _ in range(HORIZON):
            action = int(observation[2] + 0.3 * observation[3] + 0.1 * observation[1] > 0)
            after, reward, terminated, truncated, _ = env.step(action)
            steps.append((observation, action, reward, terminated, truncated, after))
            observation = after
        found.append(steps)
    return found


def killed(path: Path, seed: int, planned: int) -> int:
    """Begin a run in another process and kill it after two thirds; how many rounds its file has."""
    words = [sys.executable, __file__, "--child", str(path), "--planned", str(planned), "--seed", str(seed)]
    with subprocess.Popen(words) as child:
        while child.poll() is None:
            time.sleep(0.2)
            try:
                if path.exists() and len(read(path).columns["k"]) >= 2 * planned // 3:
                    child.kill()
            except RunError:
                pass  # it is just being made
    return len(read(path).columns["k"])


def one_seed(seed: int, folder: Path, options: argparse.Namespace) -> tuple[int, ...]:
    path = folder / f"{seed}.rfrun"
    at = killed(path, seed, options.planned)
    first = rf.learn(problem(0.0, 1.0), PLAYER, seed=seed, episodes=options.more, path=path, resume=True)
    assert len(first) == options.more
    asked: dict[str, Any] = {"primal": PLAYER, "seed": 1000 + seed, "episodes": options.second}
    second = rf.learn(problem(-1.0, 3.0), data=demonstrations(), start_from=first, **asked)
    alone = rf.learn(problem(-1.0, 3.0), **asked)
    same = first.columns["reset"][: options.second].sum()
    return (
        at,
        int(first.realised_resets[-1]),
        int(same),
        int(second.realised_resets[-1]),
        int(alone.realised_resets[-1]),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--planned", type=int, default=60)
    parser.add_argument("--more", type=int, default=80)
    parser.add_argument("--second", type=int, default=60)
    parser.add_argument("--child", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.child is not None:
        found = problem(0.0, 1.0)
        rf.learn(found, PLAYER, seed=options.seed, episodes=options.planned, path=options.child, checkpoint_every=0.2)
        return
    print(f"seed  killed at  first, {options.more} ep.  first, {options.second} ep.  second  second without data")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            rows.append(one_seed(seed, Path(folder), options))
            at, first, same, second, alone = rows[-1]
            print(f"{seed:4} {at:10} {first:14} {same:14} {second:7} {alone:20}", flush=True)
    table = np.array(rows, dtype=np.float64)
    fewer = int((table[:, 3] < table[:, 2]).sum())
    means = " ".join(f"{x:.1f}" for x in table.mean(axis=0))
    print(f"mean: {means}; the second run needed fewer resets than the first in {fewer} of {len(rows)} seeds")


if __name__ == "__main__":
    main()
