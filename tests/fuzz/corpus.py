"""Honest files to spoil: runs of several players and problems, policies, a sweep, the results of a bench."""

import json
import os
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

SWEEP = """
[sweep]
episodes = 6
seeds = 2
[[problem]]
id = "grid-v0"
options.slip = [0.1, 0.2]
[[players]]
primal = ["linear-ucb", "ucbvi"]
dual = "projected-gradient"
bound = 40.0
settings.primal.scale = 0.1
"""
QUICK = ["--set", "primal.population=8", "--set", "primal.rounds=2"]  # a search that takes no time
# One for each way in which starts are kept, states are seen and a state is saved.
SHORT: dict[str, list[str]] = {
    "auto": ["grid-v0"],
    "algorithm1": ["random-linear-v0", "--primal", "linear-ucb", "--set", "primal.width=theory"],
    "stored": ["pits-v0", "--primal", "stored-linear"],
    "ucbvi": ["grid-v0", "--primal", "ucbvi", "--dual", "virtual-queue", "--set", "slip=0.1"],
    "continuous": ["continuous-linear-v0", *QUICK],
    "contexts": ["contexts-v0", "--primal", "politex"],
    "table": ["gym:FrozenLake-v1", "--set", "horizon=10"],
    "vectors": ["gym:CartPole-v1", "--set", "horizon=20", "--primal", "stored-linear", "--bound", "20"],
    "searched": ["gym:CartPole-v1", "--set", "horizon=20", *QUICK],
    "parts": ["gym:Blackjack-v1", "--set", "horizon=4", "--set", "reward_low=-1", "--set", "reward_high=1"],
    "unfinished": ["grid-v0", "--primal", "greedy-composite", "--max-resets", "2"],
}
LONG: dict[str, list[str]] = {
    "drifting": ["drifting-v0"],
    "numbered": [
        "gym:MiniGrid-Empty-5x5-v0",
        "--set",
        "horizon=10",
        "--set",
        "states=100",
        "--set",
        "reward_low=-2",
        "--set",
        "reward_high=1",
    ],
    "pieces": ["no-multiplier-v0", "--primal", "linear-ucb"],
    "drawn": ["drawn-v0", "--primal", "linear-ucb", "--set", "horizon=4"],
}


@dataclass(frozen=True)
class RunFile:
    """An honest run file, and the words that made it."""

    name: str
    file: str
    problem: str
    words: list[str]


@dataclass(frozen=True)
class Corpus:
    """What lies in the folder of a corpus."""

    folder: Path
    runs: list[RunFile]
    policies: list[tuple[str, str]]  # file and problem
    sweep: str  # a folder, played
    results: str  # of `bench smoke`

    @classmethod
    def read(cls, folder: Path) -> "Corpus":
        data = json.loads((folder / "corpus.json").read_text())
        runs = [RunFile(**one) for one in data["runs"]]
        return cls(folder, runs, [tuple(one) for one in data["policies"]], data["sweep"], data["results"])


def make(folder: Path, *, full: bool = False) -> Corpus:
    """Make every file with the commands that a user has; also compiles what they need."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    runs, policies = [], []
    for name, words in _runs(full).items():
        problem, *rest = words
        if not _run(["run", problem, *rest, "--episodes", "24", "--out", f"{name}.rfrun"], must=name in SHORT):
            continue
        runs.append(RunFile(name, f"{name}.rfrun", problem, rest))
        named = [problem] if ":" in problem else []
        if _run(["export", f"{name}.rfrun", *named, "-o", f"{name}.npz"], must=False):
            policies.append((f"{name}.npz", problem))
    Path("sweep.toml").write_text(SWEEP)
    _run(["sweep", "run", "sweep.toml", "--out", "sweep", "--engine", "local", "--workers", "1"])
    if full and _run(["sweep", "run", "sweep.toml", "--out", "batched", "--engine", "batched"], must=False):
        for i, file in enumerate(sorted(Path("batched").rglob("*.rfrun"))[:3]):
            runs.append(RunFile(f"batched{i}", str(file), "grid-v0", []))
    _run(
        [
            "bench",
            "smoke",
            "--seeds",
            "1",
            "--methods",
            "uniform",
            "--problems",
            "grid-v0",
            "--jobs",
            "1",
            "--out",
            "results.jsonl",
        ]
    )
    _run(["report", "auto.rfrun", "-o", "report.html"])
    corpus = Corpus(folder, runs, policies, "sweep", "results.jsonl")
    data: dict[str, Any] = {**asdict(corpus), "folder": ""}
    Path("corpus.json").write_text(json.dumps(data))
    return corpus


def _runs(full: bool) -> dict[str, list[str]]:
    if not full:
        return SHORT
    from resetfree.players import discover

    primal = {f"primal-{name}": ["grid-v0", "--primal", name] for name in discover("primal")}
    dual = {f"dual-{name}": ["grid-v0", "--primal", "linear-ucb", "--dual", name] for name in discover("dual")}
    return {**SHORT, **LONG, **primal, **dual}


def _run(argv: list[str], *, must: bool = True) -> bool:
    from resetfree.show.cli import main

    with redirect_stdout(StringIO()):
        status = main([*argv, "--json"])
    if status != 0 and must:
        raise RuntimeError(f"An honest command must succeed: {argv} ended with {status}.")
    return status == 0


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve(), full="--full" in sys.argv)
