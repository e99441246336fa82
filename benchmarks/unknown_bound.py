"""What it costs not to know B: dual players that are given B and those that are not, on the same random numbers.

python benchmarks/unknown_bound.py [--seeds 5] [--episodes 1000]     # prints a table in Markdown
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import resetfree as rf

PROBLEMS = ("grid-v0", "pits-v0", "random-linear-v0", "thresholds-v0", "coin-chain-v0")
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
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--primal", default="ucbvi")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| " + " | ".join(["dual player", *PROBLEMS]) + " |")
    print("|---" * (len(PROBLEMS) + 1) + "|")
    for label, (dual, settings) in DUALS.items():
        cells = []
        for problem in PROBLEMS:
            same: dict[str, Any] = {"episodes": asked.episodes, "feedback": "realised", "settings": {"dual": settings}}
            runs = [rf.learn(problem, asked.primal, dual, seed=seed, **same) for seed in range(asked.seeds)]
            ends = np.array([[run.resets[-1], run.regret[-1], run.columns["lam"].max()] for run in runs]).mean(axis=0)
            cells.append(f"{ends[0]:.1f} / {ends[1]:.0f} ({ends[2]:.0f})")
        print("| " + " | ".join([label, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
