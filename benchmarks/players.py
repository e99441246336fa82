"""Microseconds per episode of every method of our own on `grid-v0`, compared with Algorithm 1 in the same run.

Run: make bench-players  (one process, one thread, after compilation, exact evaluation included).
"""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players import Setting
from resetfree.studies.suites import methods
from resetfree.theory.oracle import Evaluator

EPISODES = 2000
BOUND = 38.8664632


def microseconds(name: str, mdp: rf.FiniteMDP, pooled: bool) -> float:
    problem = mdp.problem()
    primal, dual, feedback = methods()[name].build(Setting(BOUND, 0.05, pooled, problem))
    for episodes in (50, EPISODES):  # the first round compiles
        game = begin(problem, primal, dual, episodes=episodes, seed=0)
        began = time.perf_counter()
        for _ in play(problem, primal, dual, game, episodes=episodes, feedback=feedback, oracle=Evaluator(mdp)):
            pass
    return 1e6 * (time.perf_counter() - began) / EPISODES


def main() -> None:
    mdp = rf.make("grid-v0")
    table = Table("method", "pooled: us", "times Algorithm 1", "per step: us", "times Algorithm 1")
    base = {pooled: microseconds("algorithm 1", mdp, pooled) for pooled in (True, False)}
    for name in ("algorithm 1", *(m.name for m in methods().values() if m.kind == "ours")):
        cells = []
        for pooled in (True, False):
            took = microseconds(name, mdp, pooled)
            cells += [f"{took:.0f}", f"{took / base[pooled]:.2f}"]
        table.add_row(name, *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
