"""Falls before 5,000 upright steps in a row, of environments that are started once and reset only after a fall.

Run: python benchmarks/gym_falls.py [--envs cartpole,..] [--primal auto,stored-linear] [--seeds 0:10] >> falls.jsonl
One JSON line per environment, player and seed. benchmarks/sb3_falls.py writes lines of the same form, and
     python benchmarks/gym_falls.py --table falls.jsonl ..
makes one table of all of them.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import resetfree as rf
from resetfree.problems.gym.adapter import GymProblem

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "gym"
ENVIRONMENTS = ("cartpole", "pendulum", "inverted_pendulum")
LONG, MOST = 5_000, 60_000  # steps in a row that count as learned, and steps after which a trial ends


class Enough(Exception):
    """The trial is over."""


def load_example(name: str) -> Any:
    """An example script as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # classes are looked up there
    spec.loader.exec_module(module)
    return module


def count_falls(problem: GymProblem, primal: str, seed: int, settings: Any = None) -> dict[str, Any]:
    """Learn until LONG upright steps in a row, or for MOST steps."""
    falls = steps = upright = 0
    # With a named primal player, `auto` is the paper's dual, which needs an oracle: use the dual of `auto`.
    named: dict[str, Any] = {} if primal == "auto" else {"dual": "constant-penalty", "feedback": "realised"}
    if settings is None and primal != "auto":
        settings = {"primal": {"planning": 200}, "dual": {"C": 200.0}}

    def look(game: Any, this: rf.Round) -> None:
        nonlocal falls, steps, upright
        taken = len(this.episode.actions)
        falls, steps, upright = falls + this.episode.reset, steps + taken, 0 if this.episode.reset else upright + taken
        if upright >= LONG or steps >= MOST:
            raise Enough

    began = time.perf_counter()
    with contextlib.suppress(Enough):
        rf.learn(problem, primal, episodes=MOST, seed=seed, progress=look, settings=settings, **named)
    return {"falls": falls, "steps": steps, "reached": upright >= LONG, "seconds": time.perf_counter() - began}


def table(lines: Iterable[str]) -> str:
    """Lines of both sides as one table in Markdown."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        one = json.loads(line)
        found[one["env"], one["player"]].append(one)
    rows = ["| environment | learner | falls: median | most | each seed | steps: median |", "|" + "---|" * 6]
    order = sorted(found, key=lambda key: (ENVIRONMENTS.index(key[0]), median(one["falls"] for one in found[key])))
    for key in order:
        ones = sorted(found[key], key=lambda one: one["seed"])
        each = " ".join(f"{one['falls']}{'' if one['reached'] else '+'}" for one in ones)
        middle = median(one["falls"] for one in ones)
        rows.append(
            f"| {key[0]} | {key[1]} | {middle:g} | {max(one['falls'] for one in ones)} | {each} "
            f"| {median(one['steps'] for one in ones):.0f} |"
        )
    return "\n".join([*rows, "", f"+ not learned within the cap of steps (ours {MOST})."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", default=",".join(ENVIRONMENTS))
    parser.add_argument("--primal", default="auto")
    parser.add_argument("--seeds", default="0:10", help="first:end")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines to make a table of")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(line for file in arguments.table for line in file.read_text().splitlines() if line.startswith("{")))
        return
    first, end = map(int, arguments.seeds.split(":"))
    for env in arguments.envs.split(","):
        for primal in arguments.primal.split(","):
            for seed in range(first, end):
                result = count_falls(load_example(env).problem(), primal, seed)
                print(json.dumps({"env": env, "player": primal, "seed": seed} | result), flush=True)


if __name__ == "__main__":
    main()
