"""Episodes per second of Algorithm 1, many seeds: the local engine and the batched engine on the device that JAX finds.

Run: OMP_NUM_THREADS=1 python benchmarks/batched.py  (one local process; compile time is reported separately).
`device` is the program alone, `all columns` the time of `play_batch` until every column is an array in host memory.
On a GPU the main row is pits-v0 (S = 25, A = 4, H = 10) with 8,192 seeds and 2,000 episodes each.
"""

from __future__ import annotations

import argparse
import time

import jax
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.players import make_player
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.studies.engines.batched import Batch, play_batch

PAIRS = {
    "Algorithm 1": ("linear-ucb", "projected-gradient", "optimistic"),
    "composite LSVI-UCB": ("greedy-composite", "constant-penalty", "realised"),
    "UCBVI": ("ucbvi", "counting", "realised"),
    "elimination": ("support-elimination", "constant-penalty", "realised"),
}
LOCAL_EPISODES = 1000


def local_rate(mdp: rf.FiniteMDP, method: str) -> float:
    """Episodes per second of `learn`, which includes the exact evaluation of every policy."""
    primal, dual, feedback = PAIRS[method]
    rf.learn(mdp, primal, dual, episodes=20, feedback=feedback)
    began = time.perf_counter()
    rf.learn(mdp, primal, dual, episodes=LOCAL_EPISODES, feedback=feedback)
    return LOCAL_EPISODES / (time.perf_counter() - began)


def batched(mdp: rf.FiniteMDP, method: str, seeds: int, episodes: int, **options: object) -> Batch:
    """One batch."""
    primal, dual, feedback = PAIRS[method]
    players = make_player("primal", primal), make_player("dual", dual)
    return play_batch(mdp, *players, episodes=episodes, seeds=range(seeds), feedback=feedback, **options)  # type: ignore[arg-type]


def rates(mdp: rf.FiniteMDP, method: str, seeds: int, episodes: int, **options: object) -> tuple[float, float]:
    """Compile time (the first batch less the best of three more) in seconds, and the best episodes per second."""
    first = batched(mdp, method, seeds, episodes, **options).seconds
    best = min(batched(mdp, method, seeds, episodes, **options).seconds for _ in range(3))
    return max(first - best, 0.0), seeds * episodes / best


def main() -> None:
    gpu = jax.default_backend() != "cpu"
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8192 if gpu else 64)
    parser.add_argument("--episodes", type=int, default=2000 if gpu else 500)
    arguments = parser.parse_args()
    console = Console(width=160)
    seeds, episodes = arguments.seeds, arguments.episodes
    table = Table("problem", "players", "local, one thread", "batched: compile s")
    for name in ("device", "all columns", "and exact values", "device / local", "all and exact / local"):
        table.add_column(name)
    for problem in ("pits-v0", "grid-v0", "random-linear-v0"):
        mdp = rf.make(problem)
        for method in PAIRS:
            if problem != "pits-v0" and method in ("UCBVI", "elimination"):
                continue
            local = local_rate(mdp, method)
            compiling, device = rates(mdp, method, seeds, episodes, columns=())
            _, everything = rates(mdp, method, seeds, episodes)
            _, exact = rates(mdp, method, seeds, episodes, evaluate=True)
            rest = [f"{rate:,.0f}" for rate in (device, everything, exact)]
            rest += [f"{device / local:,.1f}", f"{exact / local:,.1f}"]
            table.add_row(problem, method, f"{local:,.0f}", f"{compiling:.1f}", *rest)
    device = jax.devices()[0]
    console.print(
        f"Episodes per second, float64, {seeds:,} seeds x {episodes:,} episodes; batched on {device.device_kind}, "
        f"JAX {jax.__version__}"
    )
    console.print(table)
    mdp, (primal, dual) = rf.make("pits-v0"), algorithm1()
    batch = play_batch(mdp, primal, dual, episodes=200, seeds=[0, 1])
    same = all(
        bool((batch.columns["reset"][i] == rf.learn(mdp, primal, dual, episodes=200, seed=i).columns["reset"]).all())
        for i in range(2)
    )
    console.print(f"The same resets as the local engine, seeds 0 and 1, 200 episodes: {same}")


if __name__ == "__main__":
    main()
