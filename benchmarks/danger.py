"""Resets of what `auto` takes beside those of support elimination, where one fall can teach about others.

Run: python benchmarks/danger.py [--envs taxi,rooms,..] [--seeds 100:103] [--players ..] --out danger.jsonl
     python benchmarks/danger.py --table danger.jsonl ..
One JSON line per environment, player and seed; what is in the file already is not played again. Seconds are those of
the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import resetfree as rf
from gym_falls import load_example  # type: ignore[import-not-found,unused-ignore]
from gym_resets import regret  # type: ignore[import-not-found,unused-ignore]

# Episodes of each, and the most resets wanted: median and most over the seeds.
TASKS = {"taxi": (5000, 40, 80), "rooms": (800, 16, 20), "cliff_walking": (1000, 10, 16)}
TASKS |= {"lava_crossing": (400, 4, 8), "lava_gap": (400, 0, 0), "frozen_lake": (1000, 0, 0)}
TASKS |= {"pits-300": (1000, 150, 150)}
TASKS |= {name: (1000, 0, 0) for name in ("grid-v0", "pits-v0", "doors-v0", "contexts-v0", "drifting-v0")}
PLAYERS = ("auto", "rule-elimination:pairs", "support-elimination")  # with `moves` after the colon


def problem_of(env: str) -> Any:
    """A fresh problem."""
    if env == "pits-300":
        return rf.make("pits-v0", n=300, horizon=200, slip=0.1).problem()
    if env.startswith("lava_"):
        return load_example("lava").problem(env.removeprefix("lava_"))
    return rf.make(env).problem() if env.endswith("-v0") else load_example(env).problem()


def result(env: str, player: str, seed: int, episodes: int) -> dict[str, Any]:
    """One run; the first episodes of another one compile what is compiled."""
    name, _, moves = player.partition(":")
    asked: dict[str, Any] = {"seed": seed}
    if name != "auto":
        settings: dict[str, Any] = {"dual": {"C": 0.0}, "primal": {"moves": moves} if moves else {}}
        asked |= {"primal": name, "dual": "constant-penalty", "feedback": "realised", "settings": settings}
    rf.learn(problem_of(env), episodes=20, **asked)
    problem, began = problem_of(env), time.process_time()
    run = rf.learn(problem, episodes=episodes, **asked)
    spent, tenth = time.process_time() - began, max(1, episodes // 10)
    steps, reward = run.columns["steps"], run.columns["reward"]
    return {
        "env": env,
        "player": player,
        "played": run.spec["primal"]["name"],
        "seed": seed,
        "episodes": episodes,
        "resets": int(run.realised_resets[-1]),
        "late": float(reward[-tenth:].sum() / steps[-tenth:].sum()),
        "reward": float(np.sum(reward)),
        "regret": regret(run),
        "milliseconds": 1000 * spent / episodes,
        "rules": [one.what for one in run.decisions],
    }


def table(lines: Iterable[str]) -> str:
    """All lines as one table in Markdown."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = json.loads(line)
        found[one["env"], one["player"]].append(one)
    rows = ["| task | player | episodes | resets: median | most | each seed | target | reward a step at the end "]
    rows[0] += "| all rewards | exact regret | ms an episode |"
    rows.append("|" + "---|" * 11)
    for (env, player), ones in found.items():
        middle = {key: median(one[key] or 0.0 for one in ones) for key in ("resets", "late", "reward", "milliseconds")}
        exact = "-" if ones[0]["regret"] is None else f"{median(one['regret'] for one in ones):.0f}"
        wanted = "{} / {}".format(*TASKS[env][1:]) if TASKS[env][1] else "-"
        each = " ".join(str(one["resets"]) for one in ones)
        rows.append(
            f"| {env} | {player} | {ones[0]['episodes']} | {middle['resets']:g} | {max(o['resets'] for o in ones)} "
            f"| {each} | {wanted} | {middle['late']:.3f} | {middle['reward']:.0f} | {exact} "
            f"| {middle['milliseconds']:.2f} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", default=",".join(TASKS))
    parser.add_argument("--seeds", default="100:103", help="first:end")
    parser.add_argument("--players", default=",".join(PLAYERS))
    parser.add_argument("--episodes", type=int, help="in place of those of each task")
    parser.add_argument("--out", type=Path, help="the file of lines to go on with; default: print them")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines to make a table of")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(line for file in arguments.table for line in file.read_text().splitlines() if line.startswith("{")))
        return
    first, end = map(int, arguments.seeds.split(":"))
    lines = arguments.out.read_text().splitlines() if arguments.out and arguments.out.exists() else []
    done = {(one["env"], one["player"], one["seed"], one["episodes"]) for one in map(json.loads, lines)}
    for env in arguments.envs.split(","):
        for player in arguments.players.split(","):
            for seed in range(first, end):
                asked = (env, player, seed, arguments.episodes or TASKS[env][0])
                if asked in done or (env == "pits-300" and player.endswith(":pairs")):  # played, or elimination itself
                    continue
                line = json.dumps(result(*asked))
                if arguments.out:
                    with arguments.out.open("a") as file:
                        file.write(line + "\n")
                else:
                    print(line, flush=True)


if __name__ == "__main__":
    main()
