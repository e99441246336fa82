"""Large finite problems on one machine: cost and growth of planning, evaluation and elimination on `pits-v0`.

Run: OMP_NUM_THREADS=1 python benchmarks/large.py  (a few minutes). Times are CPU seconds of one thread; they depend on
the machine, the exponents do not. Memory is what NumPy allocated for the state and the plan, untouched pages included.
"""

from __future__ import annotations

import os
import resource
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.core.state import dump
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.game.loop import Game, begin, play
from resetfree.players.dual.one_multiplier import Counting
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.players.elimination.support_elimination import SupportElimination
from resetfree.players.linear.linear_ucb import LargeLinearState, LinearUCB
from resetfree.players.tabular.sparse_counts import SeenCounts
from resetfree.theory.oracle import Evaluator

B, TIMES = 5.0, 10
CONSOLE = Console(width=120)


def gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def cpu(task: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some repeats."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        task()
        times.append(time.process_time() - began)
    return min(times)


def allocated(task: Callable[[], Any]) -> float:
    """Peak of allocated MB during the task."""
    tracemalloc.start()
    kept = task()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    del kept
    return peak


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def fill_counts(seen: SeenCounts, mdp: rf.FiniteMDP) -> None:
    """Fill the counts as if every pair had been tried TIMES times, with the model's frequencies: the worst case."""
    t, pairs = mdp.transition, (mdp.n_states, mdp.n_actions)
    n_edges = np.diff(t.indptr).reshape(pairs).astype(np.int32)
    seen.number = seen.state = np.arange(mdp.n_states, dtype=np.int32)
    seen.known, seen.known_last = mdp.reset.copy(), mdp.last_reset.copy()
    seen.row = np.where(mdp.reset, -1, np.arange(mdp.n_states))[:, None].astype(np.int32)
    seen.times = np.maximum(1, np.round(TIMES * t.prob)).astype(np.int64)
    seen.tried = np.add.reduceat(np.append(seen.times, 0), t.indptr[:-1]).reshape(pairs) * (n_edges > 0)
    seen.moved, seen.earned = seen.tried.copy(), mdp.reward[0] * seen.tried
    seen.begin = t.indptr[:-1].reshape(pairs).copy()
    seen.room, seen.used, seen.successor = n_edges, n_edges.copy(), t.indices.copy()
    seen.size = np.array([mdp.n_states, mdp.n_states, t.nnz, 0])


def knowing(mdp: rf.FiniteMDP) -> tuple[LinearUCB, LargeLinearState]:
    """Algorithm 1, pooled, with counts of every pair."""
    player = LinearUCB(B=B, pooled=True)
    state = player.init(mdp.problem(), 2000, 0)
    assert isinstance(state, LargeLinearState), "the problem is too small for sparse counts"
    fill_counts(state.seen, mdp)
    return player, state


def centre(mdp: rf.FiniteMDP) -> int:
    """The state in the middle of the field that is not a reset state."""
    inside = np.flatnonzero(~mdp.last_reset)
    n = round(mdp.n_states**0.5)
    return int(inside[np.abs(inside - (n // 2 * n + n // 2)).argmin()])


def played(mdp: rf.FiniteMDP, player: PrimalPlayer[Any], episodes: int) -> tuple[Game, int]:
    """A game after so many episodes, and its number of resets."""
    problem = mdp.problem()
    dual: DualPlayer[Any] = Counting() if player.name == "support-elimination" else ProjectedGradient(B=B)
    game = begin(problem, player, dual, episodes=episodes, seed=0)
    return game, sum(this.episode.reset for this in play(problem, player, dual, game, episodes=episodes))


def busiest(player: LinearUCB, state: LargeLinearState) -> int:
    """Of some visited states, the one whose plan has the most entries (h, s)."""
    seen = state.seen.state[: state.seen.size[0]][~state.seen.known_last[: state.seen.size[0]]]
    starts = np.random.default_rng(0).choice(seen, 200)
    return int(max(starts, key=lambda s1: player.plan(state, int(s1), 1.0).policy.n_places))


def one_plan() -> None:
    """One planning pass of Algorithm 1 at n = 300, H = 200."""
    table = Table(
        "what is known", "start", "places (h, s)", "CPU s per plan", "MB of the plan", title="n = 300, H = 200"
    )
    mdp = rf.make("pits-v0", n=300, horizon=200)

    def row(what: str, where: str, plan: Callable[[], Any]) -> None:
        places = plan().policy.n_places
        table.add_row(what, where, f"{places:,}", f"{cpu(plan, 5):.4f}", f"{allocated(plan):.1f}")

    for pooled in (False, True):
        for episodes in (200, 2000):
            player = LinearUCB(B=B, pooled=pooled)
            game, _ = played(mdp, player, episodes)
            what = f"{episodes} episodes, {'pooled' if pooled else 'per step'}"
            row(what, "worst of 200", partial(player.plan, game.primal, busiest(player, game.primal), 1.0))
    for slip in (0.0, 0.1):
        mdp = rf.make("pits-v0", n=300, horizon=200, slip=slip)
        player, state = knowing(mdp)
        for where, s1 in (("corner", 0), ("centre", centre(mdp))):
            row(f"every pair, slip {slip}", where, partial(player.plan, state, s1, 1.0))
    CONSOLE.print(table, f"peak of the process: {gigabytes():.2f} GB")


def worked_out(player: LinearUCB, state: LargeLinearState, s1: int, everywhere: bool) -> Any:
    """A plan from one start, or the pass over all states and steps."""
    policy: Any = player.plan(state, s1, 1.0).policy
    if everywhere:
        for h in range(policy.shape[0] - 1, -1, -1):
            policy.work_out(h, np.arange(policy.shape[1], dtype=np.int32))
    return policy


def growth() -> None:
    """The growth of a plan and its exact evaluation when every pair is known."""
    names = ("n", "H", "planned from", "states", "non-zeros used", "plan (CPU ms)", "evaluation (CPU ms)", "MB")
    table = Table(*names, title="every pair known, slip 0.1")
    points: dict[str, list[tuple[float, ...]]] = {"states": [], "horizon": [], "all": [], "evaluation": []}
    cases = [("states", n, 100, True) for n in (50, 100, 200, 400)]
    cases += [("horizon", 300, h, False) for h in (25, 50, 100, 200)]
    for group, n, horizon, everywhere in cases:
        mdp = rf.make("pits-v0", n=n, horizon=horizon, slip=0.1)
        player, state = knowing(mdp)
        s1, evaluator = centre(mdp), Evaluator(mdp)
        plan = partial(worked_out, player, state, s1, everywhere)
        policy = plan()
        took, memory = cpu(plan, 3), allocated(plan)
        worth = cpu(partial(evaluator, policy, s1), 3)
        touched = policy.touched()
        points[group].append((mdp.n_states if group == "states" else horizon, took, memory))
        points["all"].append((touched, took, memory))
        if not everywhere:
            points["evaluation"].append((touched, worth, memory))
        sizes = (str(n), str(horizon), "all states" if everywhere else "one start", f"{mdp.n_states:,}", f"{touched:,}")
        table.add_row(*sizes, f"{1e3 * took:.1f}", f"{1e3 * worth:.1f}", f"{memory:.0f}")
    CONSOLE.print(table)
    axes = {"states": "states (planned from all)", "horizon": "horizon (one start)", "all": "non-zeros used"}
    x, seconds, _ = zip(*points["evaluation"], strict=True)
    CONSOLE.print(f"exact evaluation: fitted exponent of time against non-zeros {exponent(x, seconds):.3f}")
    for group, name in axes.items():
        x, seconds, megabytes = zip(*points[group], strict=True)
        CONSOLE.print(
            f"fitted exponents against {name}: time {exponent(x, seconds):.3f}, memory {exponent(x, megabytes):.3f}"
        )


def against_episodes() -> None:
    """The growth of plan and state with the episodes, for elimination, whose long episodes visit many states."""
    names = ("episodes", "states seen", "resets", "CPU ms per episode", "CPU ms per plan", "MB of the state")
    table = Table(*names, title="support elimination, n = 300, H = 200, slip 0.1")
    mdp = rf.make("pits-v0", n=300, horizon=200, slip=0.1)
    player, problem, dual = SupportElimination(), mdp.problem(), Counting()
    episodes = [125, 250, 500, 1000]
    game = begin(problem, player, dual, episodes=episodes[-1], seed=0)
    rounds = play(problem, player, dual, game, episodes=episodes[-1])
    resets, total, totals, sizes = 0, 0.0, [], []
    for until in episodes:
        began = time.process_time()
        while game.k < until:
            resets += next(rounds).episode.reset
        total += time.process_time() - began
        totals.append(total)
        sizes.append(sum(array.nbytes for array in dump(game.primal).values()) / 1e6)
        plan = cpu(lambda: player.plan(game.primal, game.s1, 0.0), 5)
        costs = (f"{1e3 * total / until:.2f}", f"{1e3 * plan:.2f}", f"{sizes[-1]:.1f}")
        table.add_row(str(until), f"{int(game.primal.data.seen.size[0]):,}", str(resets), *costs)
    CONSOLE.print(table)
    CONSOLE.print(
        f"fitted exponents against episodes: time of a run {exponent(episodes, totals):.3f}, "
        f"memory of the state {exponent(episodes, sizes):.3f}"
    )


def million() -> None:
    """A million states (n = 1000): the problem, its oracle, and elimination with lazy plans."""
    table = Table("n = 1000, H = 200", "CPU s", "peak GB", "")
    for slip in (0.0, 0.1):
        began = time.process_time()
        mdp = rf.make("pits-v0", n=1000, horizon=200, slip=slip)
        table.add_row(f"make, slip {slip}", f"{time.process_time() - began:.1f}", f"{gigabytes():.2f}", str(mdp))
        began = time.process_time()
        game, resets = played(mdp, SupportElimination(), 2000)
        took, note = time.process_time() - began, f"{int(game.primal.data.seen.size[0]):,} states seen, {resets} resets"
        table.add_row("2,000 episodes of elimination", f"{took:.1f}", f"{gigabytes():.2f}", note)
    began = time.process_time()
    value = rf.solve(mdp, starts=[]).value
    note = f"V* from {np.isfinite(value).sum():,} feasible states"
    table.add_row("V*, pi* and safe sets, slip 0.1", f"{time.process_time() - began:.1f}", f"{gigabytes():.2f}", note)
    CONSOLE.print(table)


def in_threads(task: Callable[[int], Any], seeds: Sequence[int], threads: int) -> float:
    """Wall seconds of all seeds: kernels release the GIL, so that threads of one process share the problem."""
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(task, seeds))
    return time.perf_counter() - began


def threads() -> None:
    """Four seeds of Algorithm 1 with counts of every pair, n = 200, H = 100, 20 episodes each; plans only read them."""
    mdp = rf.make("pits-v0", n=200, horizon=100)

    player, state = knowing(mdp)

    def seed(number: int) -> None:
        problem, rng = mdp.problem(), np.random.default_rng(number)
        s1 = centre(mdp)
        for _ in range(20):
            policy = player.plan(state, s1, 1.0).policy
            s1 = problem.rollout(policy, s1, rng.random(problem.n_uniforms)).next_start

    block = bytes(50_000_000)
    seed(0)
    for what, task in (("4 seeds", seed), ("4 hashes, which show what this machine allows", lambda _: sha256(block))):
        took = {n: min(in_threads(task, range(4), n) for _ in range(3)) for n in (1, 2)}
        CONSOLE.print(
            f"{what}: wall seconds {took[1]:.2f} with one thread, {took[2]:.2f} with two, {took[1] / took[2]:.2f} "
            f"times as fast (load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores)"
        )


def main() -> None:
    played(rf.make("pits-v0", n=60, horizon=60), SupportElimination(), 3)  # compile, or load what was compiled before
    played(rf.make("pits-v0", n=60, horizon=60), LinearUCB(B=B), 3)
    for part in (one_plan, growth, against_episodes, threads, million):
        part()


if __name__ == "__main__":
    main()
