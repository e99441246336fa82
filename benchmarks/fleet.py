"""A fleet against one machine: resets at equal steps, and when each first plays as well as one machine does at the end.

    python benchmarks/fleet.py grid-v0 --episodes 2000 --seeds 8

Time is counted in steps of a machine, waiting and resets included. "As well": the mean reward per step of 20 episodes
in a row (of 5 where there are fewer than 200) is at least 95 % of what one machine earns in its last fifth.
"""

import argparse
import json
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

import resetfree as rf
from resetfree.core.errors import Notice


def reached(run: rf.Run, target: float) -> float:
    """When the fleet first plays so well, in steps of a machine; infinite if it never does."""
    c, window = run.columns, 20 if len(run) >= 200 else 5
    sums = [np.convolve(column, np.ones(window), "valid") for column in (c["original_return"], c["steps"])]
    good = np.flatnonzero(sums[0] >= target * sums[1])
    return float(c["ended"][good[0]]) if len(good) else float("inf")


def late(columns: dict[str, NDArray[Any]]) -> float:
    """The reward per step of the last fifth."""
    part = slice(-max(len(columns["k"]) // 5, 1), None)
    return float(columns["original_return"][part].sum() / columns["steps"][part].sum())


def main() -> None:
    """Play, and print one line of JSON per seed and the means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("problem")
    parser.add_argument("--machines", type=int, default=16)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--operators", type=int, default=2)
    parser.add_argument("--reset-time", type=float, default=0.0)
    parser.add_argument("--risk", type=float, default=1.0)
    parser.add_argument("--primal", default="auto")
    parser.add_argument("--settings", type=json.loads, help="of the primal player, as JSON")
    given = parser.parse_args()
    warnings.simplefilter("ignore", Notice)
    rows: list[dict[str, Any]] = []
    how: dict[str, Any] = {"operators": given.operators, "reset_time": given.reset_time, "risk": given.risk}
    how["settings"] = {"primal": given.settings} if given.settings else None
    for seed in range(given.seeds):
        one, many = (
            rf.learn_fleet(given.problem, given.primal, n=n, episodes=given.episodes, seed=seed, **how)
            for n in (1, given.machines)
        )
        target = 0.95 * late(one.columns)
        row = {
            "seed": seed,
            "resets": [int(run.realised_resets[-1]) for run in (one, many)],
            "time": [float(run.columns["ended"][-1]) for run in (one, many)],
            "reached": [reached(run, target) for run in (one, many)],
            "late": [round(late(run.columns), 4) for run in (one, many)],
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    for name in ("resets", "time", "reached", "late"):
        a, b = np.mean([row[name] for row in rows], axis=0)
        print(f"{name}: one {a:.4g}, fleet {b:.4g}, ratio {b / max(a, 1e-9):.3g}")


if __name__ == "__main__":
    main()
