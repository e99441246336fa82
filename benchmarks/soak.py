"""A soak: whether memory, the file's growth and the time per step stay flat over millions of steps.

Run: python benchmarks/soak.py ledge-v0 --episodes 10000000 --every 100000 --out soak.jsonl  (about half an hour)
     python benchmarks/soak.py gym:CartPole-v1 --steps 200000 --every 5000 --out soak.jsonl
     python benchmarks/soak.py --table soak.jsonl

The run is in a file beside `--out`; interrupted, the same command continues it. Each sample is one JSON line: `steps`
and `episodes` so far, `rss` (resident memory in bytes), `file` (bytes of the run file and its log), `cpu` and `wall`
(seconds of this process so far) and `session`, which tells one process from the next. The last line of a run, `end`,
also has `peak`: reading the whole run back at its end takes memory in proportion to its rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf

PAGE = os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """A callback that appends a sample after every `every` steps."""

    def __init__(self, problem: str, every: int, out: Path, file: Path) -> None:
        self.problem, self.every, self.out, self.file = problem, every, out, file
        self.steps = self.episodes = self.due = 0
        self.session = f"{int(time.time())}-{os.getpid()}"

    def begin(self, session: Any) -> None:
        """Begin where an interrupted run ended."""
        if session.k:
            held = session.columns()
            self.steps, self.episodes = int(held["steps"].sum()), session.k
            del held
        self.began, self.cpu = time.monotonic(), time.process_time()
        self.due = self.steps + self.every
        self.sample("begin")

    def __call__(self, session: Any) -> None:
        """Count the steps of a round."""
        self.steps += len(session.round.episode.actions)
        if self.steps >= self.due:
            self.episodes, self.due = session.k, self.due + self.every
            self.sample("sample")

    def sample(self, kind: str, **more: Any) -> None:
        """Append one line."""
        beside = [Path(f"{self.file}{ending}") for ending in ("", "-wal")]
        line = {
            "kind": kind, "problem": self.problem, "session": self.session, "steps": self.steps,
            "episodes": self.episodes, "cpu": round(time.process_time() - self.cpu, 3),
            "wall": round(time.monotonic() - self.began, 3),
            "rss": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE,
            "file": sum(one.stat().st_size for one in beside if one.exists()), **more,
        }  # fmt: skip
        with self.out.open("a") as file:
            file.write(json.dumps(line) + "\n")


def soak(asked: argparse.Namespace) -> None:
    """Play, or go on."""
    file = asked.out.with_name(f"{asked.out.stem}-{asked.problem.replace(':', '-')}.rfrun")
    sampler = Sampler(asked.problem, asked.every, asked.out, file)
    run = rf.learn(
        asked.problem,
        episodes=asked.episodes or 10 * asked.steps,
        steps=asked.steps,
        path=file,
        resume=file.exists(),
        callbacks=[sampler],
    )
    sampler.steps, sampler.episodes = int(run.columns["steps"].sum()), len(run)
    sampler.sample("end", peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def table(samples: list[dict[str, Any]]) -> str:
    """First and last tenth of each run side by side, without the first sample of a session, which compiles."""
    lines = ["| problem | steps | episodes | | first tenth | last tenth |", "|---|---:|---:|---|---:|---:|"]
    for problem in dict.fromkeys(one["problem"] for one in samples):
        held = [one for one in samples if one["problem"] == problem and one["kind"] == "sample"]
        pairs = [(a, b) for a, b in pairwise(held) if a["session"] == b["session"]]
        if not pairs:
            continue
        tenth = max(1, len(pairs) // 10)
        parts = pairs[:tenth], pairs[-tenth:]

        def rate(part: list[tuple[Any, Any]], what: str, of: str = "steps") -> float:
            return float(sum(b[what] - a[what] for a, b in part) / sum(b[of] - a[of] for a, b in part))

        rows = {
            "memory, MB": [f"{np.mean([b['rss'] for _, b in part]) / 1e6:.1f}" for part in parts],
            "CPU per step, microseconds": [f"{1e6 * rate(part, 'cpu'):.1f}" for part in parts],
            "file per step, bytes": [f"{rate(part, 'file'):.1f}" for part in parts],
        }
        head = f"`{problem}` | {held[-1]['steps']:,} | {held[-1]['episodes']:,}"
        for name, values in rows.items():
            lines.append(f"| {head} | {name} | {' | '.join(values)} |")
            head = " | | "
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", default="ledge-v0")
    parser.add_argument("--episodes", type=int, help="How many to play; with --steps, 10 for each of them at most.")
    parser.add_argument("--steps", type=int, help="End after so many steps.")
    parser.add_argument("--every", type=int, default=100_000, help="Steps between two samples.")
    parser.add_argument("--out", type=Path, default=Path("soak.jsonl"))
    parser.add_argument("--table", type=Path, metavar="FILE", help="Print the table of these samples instead.")
    asked = parser.parse_args()
    if asked.table:
        print(table([json.loads(line) for line in asked.table.read_text().splitlines()]))
    elif asked.episodes is None and asked.steps is None:
        parser.error("how long? Give --episodes or --steps")
    else:
        soak(asked)


if __name__ == "__main__":
    main()
