"""A run that is killed, extended, widened in range, and used to begin a second one: does that need fewer resets?

For each seed: a run on CartPole is killed (SIGKILL), resumed and extended to more episodes than planned. A second run,
with a wider reward range and another seed, begins with its data and policy and with five demonstrations of a controller
by hand. The table has the resets of the first run in as many episodes as the second has, those of the second, and those
of a second run without any data.

    python benchmarks/continue_runs.py --seeds 10                         # short: 60 episodes, extended to 80
    python benchmarks/continue_runs.py --seeds 10 --planned 600 --more 800 --second 600 --file continued.jsonl

With --file, each seed is added to it as a JSON line, and seeds that are there with the same numbers are not played
again: stop it with Ctrl-C and go on later.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium as gym

import resetfree as rf
from resetfree.core.errors import RunError
from resetfree.runs.file.ledger import read

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


def one_seed(seed: int, folder: Path, options: argparse.Namespace) -> dict[str, int]:
    path = folder / f"{seed}.rfrun"
    at = killed(path, seed, options.planned)
    first = rf.learn(problem(0.0, 1.0), PLAYER, seed=seed, episodes=options.more, path=path, resume=True)
    assert len(first) == options.more
    asked: dict[str, Any] = {"primal": PLAYER, "seed": 1000 + seed, "episodes": options.second}
    second = rf.learn(problem(-1.0, 3.0), data=demonstrations(), start_from=first, **asked)
    alone = rf.learn(problem(-1.0, 3.0), **asked)
    return {
        "killed": at,
        "first": int(first.realised_resets[-1]),
        "first_as_long": int(first.columns["reset"][: options.second].sum()),
        "second": int(second.realised_resets[-1]),
        "second_without_data": int(alone.realised_resets[-1]),
    }


def sizes(options: argparse.Namespace) -> dict[str, int]:
    return {"planned": options.planned, "more": options.more, "second_episodes": options.second}


def known(options: argparse.Namespace) -> dict[int, dict[str, int]]:
    """The results of the file with these numbers of episodes, by seed; a line that was cut off is left out."""
    lines = options.file.read_text().splitlines() if options.file is not None and options.file.exists() else []
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return {one["seed"]: one for one in found if sizes(options).items() <= one.items()}


def add(file: Path, result: str) -> None:
    """A line at the end of a file, also after one that was cut off."""
    cut_off = file.exists() and not file.read_text().endswith("\n") and file.stat().st_size > 0
    with file.open("a") as lines:
        lines.write("\n" * cut_off + result + "\n")


def table(results: list[dict[str, int]]) -> str:
    """In Markdown, with the means in the last row."""
    columns = ("killed", "first", "first_as_long", "second", "second_without_data")
    of = results[0]
    rows = [
        f"| seed | killed after | first run, {of['more']} episodes | its first {of['second_episodes']} | second run | "
        "second run without data |",
        "|" + "---|" * 6,
    ]
    rows += [f"| {one['seed']} | " + " | ".join(str(one[name]) for name in columns) + " |" for one in results]
    means = [f"{sum(one[name] for one in results) / len(results):.1f}" for name in columns]
    fewer = sum(one["second"] < one["first_as_long"] for one in results)
    last = f"The second run needed fewer resets than the first in {fewer} of {len(results)} seeds."
    return "\n".join([*rows, f"| mean | {' | '.join(means)} |", "", last])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--planned", type=int, default=60)
    parser.add_argument("--more", type=int, default=80)
    parser.add_argument("--second", type=int, default=60)
    parser.add_argument("--file", type=Path, help="to which seeds are added as JSON lines, and from which it goes on")
    parser.add_argument("--child", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.child is not None:
        found = problem(0.0, 1.0)
        rf.learn(found, PLAYER, seed=options.seed, episodes=options.planned, path=options.child, checkpoint_every=0.2)
        return
    done = known(options)
    with tempfile.TemporaryDirectory() as folder:
        for seed in (seed for seed in range(options.seeds) if seed not in done):
            done[seed] = {"seed": seed, **sizes(options), **one_seed(seed, Path(folder), options)}
            print(json.dumps(done[seed]), flush=True)
            if options.file is not None:
                add(options.file, json.dumps(done[seed]))
    print(table([done[seed] for seed in sorted(done)]))


if __name__ == "__main__":
    main()
