"""The linear player on stored transitions: one planning pass against its matrix products, and the cost of an episode.

Run: python benchmarks/stored_transitions.py [--transitions 50000] [--features 300] [--planning 100] [--episodes 500]

First part: one pass over all transitions, alternating in one process with the matrix products of a pass alone (features
times weights, features transposed times targets, on whole matrices, once per step). The limit is 3 times.
Second part: episodes of 200 steps, and at some of them a naive player without caches, which computes plan and widths
from scratch; the values of all rows and steps must agree to 1e-8 of their range. On a busy machine:
OPENBLAS_NUM_THREADS=1 python benchmarks/stored_transitions.py
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.linear.stored_linear import StoredLinear, StoredState
from resetfree.players.linear.stored_ridge import fit, use_features
from resetfree.problems.features.basis import RandomFourier
from resetfree.problems.stepping import Step, SteppedProblem

Floats = NDArray[np.float64]
LIMIT = 3.0
AGREEMENT = 1e-8
N_ACTIONS, SIZE = 2, 4
PARTS = 10  # of a run; the episodes of each are timed together
NAIVE = 20_000  # transitions up to which the naive player is run: beyond, it takes minutes
REPEATS = 3  # of the timed tasks, alternating; the least counts, as the machine may be busy


class Drift(SteppedProblem):
    """A noisy linear system of four numbers and two actions; the first number beyond 1 is a reset."""

    step_uniforms = SIZE

    def __init__(self, horizon: int, d: int) -> None:
        self.name, self.horizon, self.n_actions, self.n_states = "drift", horizon, N_ACTIONS, None
        self.stationary, self.n_transitions, self.end_resets = True, horizon, False
        self.phi, self.xi, self.features = None, None, RandomFourier(d=d)
        self.low, self.high = np.full(SIZE, -np.inf), np.full(SIZE, np.inf)
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(SIZE, SIZE)))[0]
        self._move, self._push = 0.97 * turn, np.array([0.03, -0.02, 0.02, 0.01])

    def first_start(self, u: float) -> Floats:
        """The origin."""
        return np.zeros(SIZE)

    def step(self, h: int, state: Floats, action: int, u: Floats) -> Step:
        """The reward of a step is 1 less the distance from the origin."""
        after = self._move @ state + (2 * action - 1) * self._push + 0.2 * (u - 0.5)
        return Step(after, max(0.0, 1.0 - float(np.abs(state).max())), bool(after[0] > 1.0))

    def leave(self, state: Floats, reset: bool, u: Floats) -> Floats:
        """The state itself; the origin after a reset."""
        return self.first_start(0.0) if reset else state


def filled(transitions: int, d: int, planning: int) -> tuple[StoredLinear, StoredState]:
    """A player with so many transitions of random actions."""
    problem, player = Drift(100, d), StoredLinear(planning=planning)
    state = player.init(problem, 1, 0)
    rng, start = np.random.default_rng(1), np.zeros(SIZE)
    while int((state.rows.action[: state.rows.n] >= 0).sum()) < transitions:
        episode = problem.rollout(lambda h, s: np.array([0.5, 0.5]), start, rng.random(problem.n_uniforms))
        state.rows.add(episode)
        start = episode.next_start
    features = RandomFourier(d=d).fit(state.rows.state[: state.rows.n], np.full(SIZE, -1.0), np.full(SIZE, 1.0), 0)
    state.ridge = use_features(state.ridge, state.rows, features)
    return player, state


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def products(psi: Floats, steps: int) -> None:
    """The least work of a pass: the values of all rows, and the sums of their targets."""
    columns = 3 * N_ACTIONS
    w, y = np.ones((psi.shape[1], columns)), np.ones((len(psi), columns))
    q, total = np.empty((len(psi), columns)), np.empty((psi.shape[1], columns))
    for _ in range(steps):
        np.matmul(psi, w, out=q)
        np.matmul(psi.T, y, out=total)


def naive_weights(player: StoredLinear, state: StoredState, lam: float, horizon: int) -> Floats:
    """The weights [H, d, A] of a plan, computed from scratch from the rows so far."""
    rows, n = state.rows, state.ridge.fitted
    psi = state.ridge.features(rows.state[:n])
    psi[rows.terminated[:n]] = 0.0
    taken = [np.flatnonzero(rows.action[:n] == a) for a in range(N_ACTIONS)]
    grams = [player.ridge() * np.eye(psi.shape[1]) + psi[i].T @ psi[i] for i in taken]
    width = np.sqrt(np.stack([(psi * np.linalg.solve(g, psi.T).T).sum(axis=1) for g in grams], axis=1))
    v = np.where(rows.terminated[:n], -lam, 0.0)
    weights = np.empty((horizon, psi.shape[1], N_ACTIONS))
    for t in range(1, horizon + 1):
        target = rows.reward[:n] + np.append(v[1:], 0.0)
        w = np.stack([np.linalg.solve(g, psi[i].T @ target[i]) for g, i in zip(grams, taken, strict=True)], axis=1)
        weights[horizon - t] = w
        q = np.clip(psi @ w + player.scale * (horizon + lam) * width, -lam, t)
        v = np.where(rows.terminated[:n], -lam, q.max(axis=1))
    return weights


def one_pass(console: Console, transitions: int, d: int, planning: int) -> bool:
    """The first part; returns whether the limit is kept."""
    player, state = filled(transitions, d, planning)
    psi = state.ridge.psi[: state.rows.n]
    player._pass(state, 64.0, 0.5)  # compiled
    alone, whole = float("inf"), float("inf")
    for _ in range(REPEATS):
        alone = min(alone, seconds(lambda: products(psi, planning)))
        whole = min(whole, seconds(lambda: player._pass(state, 64.0, 0.5)))
    anew = seconds(lambda: use_features(state.ridge, state.rows, state.ridge.features))
    state.ridge.fitted -= 100
    more = seconds(lambda: fit(state.ridge, state.rows))
    console.print(f"{transitions:,} transitions, d = {d}, A = {N_ACTIONS}, planning horizon {planning}")
    console.print(
        f"matrix products alone {alone:.2f} s, one pass {whole:.2f} s: {whole / alone:.2f} times (limit {LIMIT:g})"
    )
    console.print(f"widths of all rows: {more:.2f} s for 100 more rows, {anew:.2f} s from scratch, features included")
    return whole <= LIMIT * alone


def run(console: Console, episodes: int, d: int, horizon: int) -> bool:
    """The second part; returns whether the fast and the naive player agree."""
    problem, player, dual = Drift(horizon, d), StoredLinear(), ConstantPenalty(C=64.0)
    game = begin(problem, player, dual, episodes=episodes, seed=0)
    took, naive, worst = [0.0], [], 0.0
    names = ("episodes", "transitions", "plans so far", "ms per episode", "naive: ms per episode", "difference of Q")
    table = Table(*names)
    part, last = max(episodes // PARTS, 1), time.perf_counter()
    for this in play(problem, player, dual, game, episodes=episodes, feedback="realised"):
        took[-1] += time.perf_counter() - last
        if this.k % part == 0:
            state: StoredState = game.primal
            n, difference = int((state.rows.action[: state.rows.n] >= 0).sum()), float("nan")
            naive.append(float("nan"))
            if n <= NAIVE:
                began = time.perf_counter()
                slow = naive_weights(player, state, 64.0, horizon)
                naive[-1] = time.perf_counter() - began
                fast = player.plan(state, state.rows.state[0], 64.0).policy.weight
                psi = state.ridge.psi[: state.ridge.fitted]
                difference = max(float(np.abs(psi @ w).max()) for w in fast - slow) / (horizon + 64.0)
                worst = max(worst, difference)
            compared = ("", "") if n > NAIVE else (f"{1e3 * naive[-1]:.0f}", f"{difference:.1e}")
            table.add_row(str(this.k), f"{n:,}", str(state.switches), f"{1e3 * took[-1] / part:.0f}", *compared)
            took.append(0.0)
        last = time.perf_counter()
    console.print(table)
    half = len(took) // 2
    ratio = float(np.mean(took[half:-1]) / np.mean(took[1:half]))
    console.print(f"an episode of the second half took {ratio:.2f} times one of the first (without the first tenth)")
    console.print(f"largest difference of values {worst:.1e} of their range (limit {AGREEMENT:g})")
    console.print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB resident")
    return worst <= AGREEMENT


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--transitions", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--planning", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--horizon", type=int, default=200)
    arguments = parser.parse_args()
    console = Console(highlight=False, width=120)
    good = one_pass(console, arguments.transitions, arguments.features, arguments.planning)
    good &= run(console, arguments.episodes, arguments.features, arguments.horizon)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
