"""What it costs not to know B: dual players that are given B and those that are not, on the same random numbers.

python benchmarks/unknown_bound.py [--seeds 20] [--episodes 2000] [--only grid-v0]     # prints a table in Markdown

Resets are means over the seeds with 95 % intervals; on several cores, one process for each problem (a line each).
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.studies.statistics import interval

PROBLEMS = ("grid-v0", "pits-v0", "random-linear-v0", "thresholds-v0", "coin-chain-v0", "drawn-v0", "doors-v0")
DUALS: dict[str, tuple[str, dict[str, Any]]] = {
    "constant-penalty, given B": ("constant-penalty", {}),
    "projected-gradient, given B": ("projected-gradient", {}),
    "doubling": ("doubling", {}),
    "doubling, growth 0.1": ("doubling", {"growth": 0.1}),
    "doubling, growth 1": ("doubling", {"growth": 1.0}),
    "counting": ("counting", {}),
    "coin-betting": ("coin-betting", {"ceiling": 1e6}),
}


def main() -> None:
    """Play every dual player against one primal player that needs no B, and print means over seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--primal", default="ucbvi")
    parser.add_argument("--only", choices=PROBLEMS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| " + " | ".join(["problem", *DUALS]) + " |")
    print("|---" * (len(DUALS) + 1) + "|")
    for problem in [asked.only] if asked.only else PROBLEMS:
        cells = [cell(problem, asked.primal, dual, own, asked.episodes, asked.seeds) for dual, own in DUALS.values()]
        print("| " + " | ".join([problem, *cells]) + " |", flush=True)


def cell(problem: str, primal: str, dual: str, own: dict[str, Any], episodes: int, seeds: int) -> str:
    """Resets [interval] / Regret (largest multiplier) after so many episodes."""
    same: dict[str, Any] = {"episodes": episodes, "feedback": "realised", "settings": {"dual": own}}
    runs = [rf.learn(problem, primal, dual, seed=seed, **same) for seed in range(seeds)]
    resets = interval([float(run.resets[-1]) for run in runs])
    regret, lam = np.array([[run.regret[-1], run.columns["lam"].max()] for run in runs]).mean(axis=0)
    return f"{resets.mean:.1f} [{resets.low:.1f}, {resets.high:.1f}] / {regret:.0f} ({lam:.0f})"


if __name__ == "__main__":
    main()
