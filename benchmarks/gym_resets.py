"""Resets on the environments of examples/gym with finitely many states; the highway reports in its own example.

Run: python benchmarks/gym_resets.py [--envs lake,cliff,..] [--seeds 0:10] >> resets.jsonl
     python benchmarks/gym_resets.py --table resets.jsonl ..
One JSON line per environment, player and seed; the table shows medians over the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import resetfree as rf
from gym_falls import load_example  # type: ignore[import-not-found,unused-ignore]
from resetfree.theory.assumptions import unsafe_pairs

# Episodes of each.
ENVIRONMENTS = {"frozen_lake": 1000, "cliff_walking": 1000, "taxi": 5000}
ENVIRONMENTS |= {"lava_gap": 400, "lava_crossing": 400, "rooms": 800}
# Compared with `auto`, each with the dual player of Algorithm 1, whose bound B is the largest return of an episode:
# optimism on counts, Algorithm 1 itself, and uniform actions. All pool their data over the steps of an episode as
# `auto` does: separate counts per step learn far more slowly, which would hide how the players differ.
BASELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "ucbvi": ("realised", {"pooled": True}),
    "linear-ucb": ("optimistic", {"pooled": True}),
    "uniform": ("realised", {}),
}
SMALL = ("cliff_walking", "lava_gap")  # where Algorithm 1, with one feature per pair, takes less than a minute


def problem_of(env: str) -> tuple[Any, int]:
    """A fresh problem, and the number of pairs that can lead to states where a reset cannot be avoided."""
    if env.startswith("lava_"):
        lava = load_example("lava")
        return lava.problem(env.removeprefix("lava_")), lava.sides_of_lava(lava.problem(env.removeprefix("lava_")))
    problem = load_example(env).problem()
    if env == "rooms":  # each pit has four sides, in each of the four tasks
        rooms = load_example("rooms")
        return problem, 4 * sum(row.count("o") for row in rooms.PLAN) * len(rooms.GOALS)
    return problem, unsafe_pairs(problem.mdp)


def results(env: str, seed: int) -> Iterator[dict[str, Any]]:
    """Every player on one environment with one seed."""
    episodes = ENVIRONMENTS[env]
    for player in players(env):
        problem, unsafe = problem_of(env)
        run = player[1](problem, episodes, seed)
        reset, steps = run.columns["reset"].astype(np.int64), run.columns["steps"]
        tenth = episodes // 10
        trial = {"env": env, "player": player[0], "seed": seed, "episodes": episodes, "unsafe": unsafe}
        yield {
            **trial,
            "resets": int(reset.sum()),
            "late": 1000 * float(reset[-tenth:].sum() / steps[-tenth:].sum()),
            "reward": float(run.columns["reward"][-tenth:].sum() / steps[-tenth:].sum()),
            "regret": regret(run),
            "seconds": run.seconds,
        }


def players(env: str) -> Iterator[tuple[str, Callable[[Any, int, int], rf.Run]]]:
    """Names, and functions (problem, episodes, seed) -> run."""
    yield "auto", lambda problem, episodes, seed: rf.learn(problem, episodes=episodes, seed=seed)
    if env == "rooms":
        one_world, silent = load_example("rooms").OneWorld(), {"dual": {"C": 0.0}}
        yield (
            "one-world",
            lambda problem, episodes, seed: rf.learn(
                problem,
                one_world,
                "constant-penalty",
                episodes=episodes,
                seed=seed,
                feedback="realised",
                settings=silent,
            ),
        )
    for name, (feedback, settings) in BASELINES.items():
        if name == "linear-ucb" and env not in SMALL:
            continue
        yield (
            name,
            lambda problem, episodes, seed, n=name, f=feedback, s=settings: rf.learn(  # type: ignore[misc]
                problem, n, episodes=episodes, seed=seed, feedback=f, B=float(problem.horizon), settings={"primal": s}
            ),
        )


def regret(run: rf.Run) -> float | None:
    """Exact regret over the episodes whose start has a reset-free policy; None without an oracle."""
    if run.mdp is None:
        return None
    starts = run.columns["s1"].astype(np.int64)
    gaps = run.solution.value[starts] - run.columns["v_r"]
    return float(gaps[run.solution.feasible[starts]].sum())


def table(lines: Iterable[str]) -> str:
    """All lines as one table in Markdown."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = json.loads(line)
        found[one["env"], one["player"]].append(one)
    rows = [
        "| environment | player | seeds | episodes | resets: median | most | unsafe pairs "
        "| resets per 1,000 steps at the end | reward a step at the end | exact regret |",
        "|" + "---|" * 10,
    ]
    for (env, player), ones in found.items():

        def middle(key: str, form: str, ones: list[dict[str, Any]] = ones) -> str:
            return "-" if ones[0][key] is None else format(median(one[key] for one in ones), form)

        rows.append(
            f"| {env} | {player} | {len(ones)} | {ones[0]['episodes']} | {middle('resets', 'g')} "
            f"| {max(one['resets'] for one in ones)} | {middle('unsafe', 'g')} | {middle('late', '.2f')} "
            f"| {middle('reward', '.3f')} | {middle('regret', '.0f')} |"
        )
    return "\n".join([*rows, "", "The end: the last tenth of all episodes. Medians over the seeds."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", default=",".join(ENVIRONMENTS))
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines to make a table of")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(line for file in arguments.table for line in file.read_text().splitlines() if line.startswith("{")))
        return
    first, end = map(int, arguments.seeds.split(":"))
    for env in arguments.envs.split(","):
        for seed in range(first, end):
            for result in results(env, seed):
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
