"""Do Regret and Resets flatten? Late growth exponents of Algorithm 1 over 20 seeds, with 95 % bootstrap intervals.

Run: make bench-rates. The exponent of f between K/4 and K is log(f(K) / f(K/4)) / log 4: 1 linear, 1/2 sqrt(K), 0
flat. Regret may fall below zero (an unsafe policy out-earns pi*): seeds where it does have no exponent and are counted.
Three variants, that of the paper first: the feedback of the dual player is the optimistic estimate V_c^k and the width
is that of the theorem; the same with a tuned width and ridge; and, tuned, with the realised resets as feedback. No
theorem covers the tuned curves.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Literal

import numpy as np
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.studies.statistics import interval


def late_exponent(curve: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """Growth exponent over the last three quarters; nan where the curve is not positive there."""
    early, late = curve[len(curve) // 4 - 1], curve[-1]
    return float(np.log(late / early) / np.log(4)) if early > 0 and late > 0 else float("nan")


def with_interval(values: list[float]) -> str:
    """Mean and 95 % bootstrap interval over the seeds that have a value."""
    there = [v for v in values if np.isfinite(v)]
    if len(there) < 2:
        return "-"
    found, missing = interval(there), len(values) - len(there)
    return f"{found.mean:.3g} [{found.low:.3g}, {found.high:.3g}]" + (f" ({missing} without)" if missing else "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=8000)
    parser.add_argument("--scale", type=float, default=0.1)
    arguments = parser.parse_args()
    ways: list[tuple[Literal["optimistic", "realised"], dict[str, object]]] = [
        ("optimistic", {"width": "theory"}),
        ("optimistic", {"width": "tuned", "scale": arguments.scale}),
        ("realised", {"width": "tuned", "scale": arguments.scale}),
    ]
    names = ("problem", "data", "feedback", "width", "Regret", "Resets", "realised", "exp. of Regret", "exp. of Resets")
    table = Table(*names)
    for id, pooled in (("grid-v0", False), ("grid-v0", True), ("random-linear-v0", False), ("random-linear-v0", True)):
        mdp = rf.make(id)
        for feedback, width in ways:
            play = partial(rf.learn, mdp, "linear-ucb", "projected-gradient", episodes=arguments.episodes)
            settings = {"primal": {**width, "pooled": pooled}}
            runs = [play(seed=seed, feedback=feedback, settings=settings) for seed in range(arguments.seeds)]
            columns = (
                [float(run.regret[-1]) for run in runs],
                [float(run.resets[-1]) for run in runs],
                [float(run.realised_resets[-1]) for run in runs],
                [late_exponent(run.regret) for run in runs],
                [late_exponent(run.resets) for run in runs],
            )
            what = "pooled" if pooled else "per step"
            table.add_row(id, what, feedback, str(width["width"]), *map(with_interval, columns))
    console = Console(width=190)
    console.print(
        f"Algorithm 1, proved width or tuned one (scale {arguments.scale}), K = {arguments.episodes}, "
        f"{arguments.seeds} seeds, physical boundary"
    )
    console.print(table)


if __name__ == "__main__":
    main()
