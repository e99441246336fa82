"""How the exact oracle scales on `pits-v0`: time and memory against non-zeros, and multipliers of all starts.

Run: make bench  (or python benchmarks/oracle.py). Times depend on the machine, the exponents do not.
"""

from __future__ import annotations

import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import resetfree as rf

HORIZON = 100
SIZES = (25, 50, 100, 200, 300)
REPEATS = 3


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def best_of(task: object, repeats: int = REPEATS) -> float:
    assert callable(task)
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        task()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    console = Console(width=120)
    rf.solve(rf.make("pits-v0"), starts=[0]).lambda_hat.sum()  # compile, or load what was compiled before
    base = peak_megabytes()
    names = ("n", "states", "non-zeros", "solve (ms)", "ns per step and non-zero", "peak MB above start")
    table = Table(*names)
    nnz, seconds = [], []
    for n in SIZES:
        mdp = rf.make("pits-v0", n=n, slip=0.2, horizon=HORIZON)
        took = best_of(lambda mdp=mdp: rf.solve(mdp))
        nnz.append(mdp.transition.nnz)
        seconds.append(took)
        per = 1e9 * took / (HORIZON * nnz[-1])
        row = (n, mdp.n_states, nnz[-1], f"{1e3 * took:.1f}", f"{per:.2f}", f"{peak_megabytes() - base:.0f}")
        table.add_row(*map(str, row))
    exponent = np.polyfit(np.log(nnz), np.log(seconds), 1)[0]
    console.print(f"V*, safe sets and policy of pits-v0, slip 0.2, H = {HORIZON}, one thread, best of {REPEATS}")
    console.print(table)
    console.print(f"fitted exponent of time against non-zeros: {exponent:.3f}")

    mdp = rf.make("pits-v0", n=100, horizon=HORIZON)
    console.print(f"pits-v0 n=100, no slip, H={HORIZON}: solve {1e3 * best_of(lambda: rf.solve(mdp)):.1f} ms")

    for slip in (0.0, 0.2):
        mdp = rf.make("pits-v0", n=20, slip=slip, horizon=50)
        took = best_of(lambda mdp=mdp: rf.solve(mdp).lambda_hat, repeats=1)
        n_starts = len(rf.solve(mdp).starts)
        console.print(f"lambda_hat of all {n_starts} starts, pits-v0 n=20, slip {slip}, H=50: {took:.2f} s")


if __name__ == "__main__":
    main()
