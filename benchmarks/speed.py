"""Microseconds per episode of Algorithm 1 through the ordinary game loop, exact evaluation included.

Run: make bench-speed  (one process, one thread, after compilation). `make bench-peers` compares with rlberry's
LSVI-UCB: it installs rlberry in a separate environment and passes its seconds with --peer-seconds.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.theory.oracle import Evaluator

B = 5.0
PEER_EPISODES = 500


def dense(mdp: rf.FiniteMDP, d: int) -> rf.FiniteMDP:
    """The same problem with d random features."""
    phi = np.random.default_rng(0).normal(size=(mdp.n_states, mdp.n_actions, d))
    return mdp.replace(phi=phi / np.linalg.norm(phi, axis=2, keepdims=True))


def seconds_of(mdp: rf.FiniteMDP, episodes: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Seconds spent on each tenth of a run."""
    primal, dual = algorithm1(B=B)
    problem = mdp.problem()
    game = begin(problem, primal, dual, episodes=episodes, seed=0)
    rounds = play(problem, primal, dual, game, episodes=episodes, oracle=Evaluator(mdp))
    ticks = [time.perf_counter()]
    for this in rounds:
        if this.k % (episodes // 10) == 0:
            ticks.append(time.perf_counter())
    return np.diff(ticks)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-seconds", type=float, help="CPU seconds of rlberry's LSVI-UCB for 500 episodes")
    parser.add_argument("--episodes", type=int, default=100_000)
    arguments = parser.parse_args()
    console = Console(width=120)
    field = rf.make("pits-v0")  # S = 25, A = 4, H = 10
    cases = {
        "one-hot, d = 100": (field, arguments.episodes),
        "dense, d = 100": (dense(field, 100), arguments.episodes // 5),
        "dense, d = 10": (dense(field, 10), arguments.episodes // 5),
    }
    seconds_of(field, 200)
    seconds_of(dense(field, 10), 200)  # compile both forms
    table = Table("features", "episodes", "us per episode", "last tenth / first tenth", "MB resident at most")
    for name, (mdp, episodes) in cases.items():
        took = seconds_of(mdp, episodes)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table.add_row(
            name, str(episodes), f"{1e6 * took.sum() / episodes:.1f}", f"{took[-1] / took[0]:.3f}", f"{memory:.0f}"
        )
    console.print("Algorithm 1 on pits-v0 (S = 25, A = 4, H = 10), seed 0, exact evaluation of every policy included")
    console.print(table)
    if arguments.peer_seconds is not None:
        began = time.process_time()
        seconds_of(field, PEER_EPISODES)
        ours = time.process_time() - began
        console.print(
            f"{PEER_EPISODES} episodes: rlberry's LSVI-UCB {arguments.peer_seconds:.1f} CPU s, ours {ours:.4f} CPU s: "
            f"{arguments.peer_seconds / ours:,.0f} times"
        )


if __name__ == "__main__":
    main()
