"""How Regret and Resets of Algorithm 1 grow with K: late exponents over 20 seeds with 95 % intervals, beside 1/2.

Run: make bench-rates [OPTIONS="--only ledge --seeds 5"]; `--table FILE...` prints the table of what was played.
Resumable: one JSON line per run in --out, and runs that are there are not played again. On several cores: one process
for each range of seeds (`--seeds 0:5 --out a.jsonl`, ...), then `--table a.jsonl b.jsonl ...`. Algorithm 1 knows no K
(`anytime`), so that the first k episodes of a run are a run of k episodes. The exponent of a curve is the slope of its
logarithm against that of k over the late half, k = K/2 .. K: 1 linear, 1/2 the theorem's, 0 flat. It is that of the
mean over the seeds, in an interval over resamples of the seeds. Regret may be negative (a policy that falls can earn
more than pi*): then it has no exponent. No theorem covers the width "tuned"; "theory" is the theorem's own, "proved"
the smallest.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.compiled_rounds import compiled_rounds
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

import resetfree as rf
from resetfree.game.loop import begin
from resetfree.players.linear.algorithm1 import algorithm1

Floats = NDArray[np.float64]
POINTS, RESAMPLES = 17, 4000  # of the late half; of the seeds


@dataclass(frozen=True)
class Variant:
    """What is played by every seed."""

    problem: str
    options: dict[str, Any]
    data: str  # "per step" or "pooled"
    feedback: str  # "optimistic", that of the paper, or "realised"
    width: str
    episodes: int

    @property
    def name(self) -> str:
        """The problem with its options."""
        return ", ".join([self.problem, *(f"{key}={value}" for key, value in self.options.items())])


def variants() -> Iterator[Variant]:
    """All of them; K is such that everything takes about forty minutes of one core."""
    problems: list[tuple[str, dict[str, Any], dict[str, int]]] = [
        ("ledge-v0", {"places": 2, "horizon": 2}, {"theory": 400_000, "proved": 400_000, "tuned": 400_000}),
        ("thresholds-v0", {}, {"theory": 400_000, "proved": 400_000, "tuned": 400_000}),
        ("random-linear-v0", {}, {"proved": 100_000, "tuned": 100_000}),
        ("grid-v0", {}, {"tuned": 100_000, "proved": 40_000}),
    ]
    for problem, options, lengths in problems:
        for width, episodes in lengths.items():
            for data in ("per step", "pooled")[: 1 if width == "theory" else 2]:
                for feedback in ("optimistic", "realised"):
                    yield Variant(problem, options, data, feedback, width, episodes)


def late_half(episodes: int) -> list[int]:
    """The numbers of rounds after which a curve is noted: equally far apart on a logarithmic axis."""
    return [int(k) for k in np.unique(np.round(np.geomspace(episodes // 2, episodes, POINTS)))]


def played(variant: Variant, seed: int) -> dict[str, Any]:
    """The late curves of one run."""
    mdp = rf.make(variant.problem, **variant.options)
    problem, solution = mdp.problem(), rf.solve(mdp)
    B = float(np.nanmax(solution.lambda_hat)) + 1.0
    primal, dual = algorithm1(B=B, width=variant.width, anytime=True, pooled=variant.data == "pooled")
    game = begin(problem, primal, dual, episodes=variant.episodes, seed=seed)
    rounds = compiled_rounds(problem, primal, dual, game, episodes=variant.episodes, feedback=variant.feedback)
    curves = {
        "regret": solution.value[rounds.s1] - rounds.exact_r,
        "resets": rounds.exact_c,
        "realised": rounds.reset.astype(np.float64),
    }
    at = np.array(late_half(variant.episodes)) - 1
    return {"seed": seed, **{name: np.cumsum(curve)[at].round(6).tolist() for name, curve in curves.items()}}


def exponents(k: Floats, curves: Floats) -> Floats:
    """[n] the slopes of log(curve) against log(k) by least squares; nan where a curve is not positive."""
    x = np.log(k) - np.log(k).mean()
    logs = np.log(np.where(curves > 0, curves, np.nan))
    return np.asarray(logs @ x / (x @ x))


def with_interval(k: Floats, curves: Floats) -> str:
    """The exponent of the mean curve, and its 95 % bootstrap interval over the seeds; curves: [seeds, points]."""
    found = float(exponents(k, curves.mean(axis=0)[None])[0])
    if np.isnan(found):
        return "negative"
    chosen = np.random.default_rng(16).integers(len(curves), size=(RESAMPLES, len(curves)))
    again = exponents(k, curves[chosen].mean(axis=1))
    if np.isnan(again).any():
        return f"{found:.2f} (of some resamples negative)"
    low, high = np.quantile(again, (0.025, 0.975))
    return f"{found:.2f} [{low:.2f}, {high:.2f}]"


def table(*files: Path) -> str:
    """Markdown: a row per variant that was played; a seed that was played twice counts once."""
    runs: dict[str, dict[int, dict[str, Any]]] = {json.dumps(asdict(one)): {} for one in variants()}
    for line in "".join(file.read_text() for file in files).splitlines():
        run = json.loads(line)
        runs.setdefault(json.dumps(run["variant"]), {})[run["seed"]] = run
    names = ("problem", "width", "data", "feedback", "K", "seeds", "Regret", "Resets")
    head = [*names, "exponent of Regret", "exponent of Resets"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for text, by_seed in runs.items():
        if not (its := list(by_seed.values())):
            continue
        variant = Variant(**json.loads(text))
        k = np.array(late_half(variant.episodes), dtype=np.float64)
        regret, resets = (np.array([run[name] for run in its]) for name in ("regret", "resets"))
        cells = [f"`{variant.name}`", variant.width, variant.data, variant.feedback, f"{variant.episodes:,}"]
        cells += [str(len(its)), f"{regret[:, -1].mean():,.0f}", f"{resets[:, -1].mean():,.0f}"]
        lines.append(f"| {' | '.join([*cells, with_interval(k, regret), with_interval(k, resets)])} |")
    return "\n".join(lines)


def seed_range(text: str) -> range:
    """Of "20" the seeds 0 .. 19, of "5:10" the seeds 5 .. 9."""
    first, _, end = text.rpartition(":")
    return range(int(first or 0), int(end))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=seed_range, default=range(20), help="how many, or FIRST:END")
    parser.add_argument("--only", default="", help="problems whose names begin like this")
    parser.add_argument("--out", type=Path, default=Path("runs/rates.jsonl"))
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of these files, and play nothing")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(*arguments.table))
        return
    file: Path = arguments.out
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().splitlines() if file.exists() else []
    there = {(json.dumps(run["variant"]), run["seed"]) for run in map(json.loads, lines)}
    if not (wanted := [one for one in variants() if one.problem.startswith(arguments.only)]):
        parser.error(f"argument --only: no problem here begins with {arguments.only!r}")
    todo = [(one, seed) for seed in arguments.seeds for one in wanted]  # if interrupted: all have equally many
    todo = [(one, seed) for one, seed in todo if (json.dumps(asdict(one)), seed) not in there]
    for variant, seed in track(todo, console=Console(stderr=True)):
        run = {"variant": asdict(variant), **played(variant, seed)}
        with file.open("a") as to:
            to.write(json.dumps(run) + "\n")
    print(table(file))


if __name__ == "__main__":
    main()
