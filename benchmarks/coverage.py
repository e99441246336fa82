"""How often the claims with a probability hold, against the true model, and how much narrower widths may be.

Run: python benchmarks/coverage.py [--seeds 200] [--only exact|samples|NAME]. Three tables:
0. one coin of chance q: the probability itself with which its interval (one-hot features) or its width (one feature,
   the determinants of the data) is ever left, by a recursion over all sequences of tosses: no seed is in it;
1. the event behind the intervals: kl(Phat(E), P(E)) <= part x_n for all cells, sets and n at once. The part that a
   sequence of samples needs is computed exactly; its quantile at 1 - p' is the part at which the width begins to fail
   more often than it says. Samples of a cell are independent whatever the learner does, so each cell gets them all;
2. every claim of `certify` about runs of Algorithm 1 with width "proved" and parts of it: in how many runs it fails;
3. every proved claim about runs on drawn problems (3 to 5 states, features of states or one-hot), among them the bounds
   that know the price of a reset and those of `algorithm1-safe`, each player on --drawn problems of its own.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.core.certificate import failure_probability
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.certificates import OPTIMISM, RATES, certify
from resetfree.theory.proved_widths import CONCENTRATION, IntervalWidth, interval_width, radius

Floats = NDArray[np.float64]
Outside = Callable[[int, Floats, float], NDArray[np.bool_]]  # n, the shares 0 .. 1 that n samples can have, q
P = 0.05
COINS = (0.5, 0.1, 0.01)
PARTS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 256)
PROBLEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ledge, 1 place, H = 1": (lambda: rf.make("ledge-v0"), {}),
    "ledge, 3 places, H = 3": (lambda: rf.make("ledge-v0", places=3, horizon=3, fall=0.2), {"pooled": True}),
    "the same, coins for rewards": (
        lambda: rf.make("ledge-v0", places=3, horizon=3, fall=0.2).replace(noise="bernoulli"),
        {"pooled": True},
    ),
    "thresholds-v0, per step": (lambda: rf.make("thresholds-v0"), {}),
    "features, d = 3, H = 2": (
        lambda: rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=2),
        {},
    ),
}


@dataclass(frozen=True)
class Narrower(LinearUCB):
    """Algorithm 1's primal player with a part of the proved radii (of determinants: with its root)."""

    part: float = 1.0

    def init(self, *given: Any) -> Any:
        """With a part of the width."""
        state: Any = super().init(*given)
        if hasattr(state.width, "part"):
            state.width = state.width._replace(part=self.part)
        else:
            names = ("sigma_r", "sigma_c", "ridge_r", "ridge_c")
            state.width = state.width._replace(**{n: np.sqrt(self.part) * getattr(state.width, n) for n in names})
        return state


def failures(mdp: rf.FiniteMDP, part: float, seeds: int, episodes: int, **settings: Any) -> Counter[str]:
    """By claim, the number of runs in which it fails."""
    found: Counter[str] = Counter()
    for seed in range(seeds):
        primal = Narrower(width="proved", part=part, p=P, **settings)
        run = rf.learn(mdp, primal, "projected-gradient", episodes=episodes, seed=seed, feedback="optimistic")
        del run.spec["primal"]["settings"]["part"]  # it is certified as the player that it says it is
        failed = {c.claim for c in certify(run) if c.applies and not c.holds}
        found.update(failed)
        found["any"] += bool(failed)
        found["optimism"] += bool(failed & set(OPTIMISM))
        found["rates"] += bool(failed & set(RATES))
    return found


def ever_outside(q: float, samples: int, outside: Outside) -> float:
    """The probability that a coin of chance q is outside after some n <= samples tosses."""
    alive, gone = np.ones(1), 0.0  # of each number of heads, never outside before
    for n in range(1, samples + 1):
        alive = np.append(alive * (1 - q), 0.0) + np.append(0.0, alive * q)
        left = outside(n, np.arange(n + 1) / n, q)
        gone += float(alive[left].sum())
        alive[left] = 0.0
    return gone


def interval_left(delta: float, part: float = 1.0) -> Outside:
    """Kl(Phat, q) is more than a part of x_n, L = log(1 / delta)."""
    width = IntervalWidth(float(np.log(1 / delta)), 0.0, 0.0, part)
    return lambda n, share, q: _kl(share, q) > radius(width, n)


def width_left(delta: float, part: float = 1.0) -> Outside:
    """|sum phi (V - P V)| in the norm of Lam^-1 is more than a part of (R/2) sqrt(g + 2 log(1 / delta)); d = R = 1."""

    def outside(n: int, share: Floats, q: float) -> NDArray[np.bool_]:
        most = np.sqrt(part * (np.log(1 + n) + 2 * np.log(1 / delta))) / 2
        return np.asarray(n * np.abs(share - q) / np.sqrt(1 + n) > most)

    return outside


def exact_part(left: Callable[[float, float], Outside], q: float, samples: int) -> float:
    """The part with which a coin is ever outside as often as it says, by bisection."""
    low, high = 0.0, 1.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (middle, high) if ever_outside(q, samples, left(P, middle)) > P else (low, middle)
    return high


def part_needed(rows: Floats, log_term: float, samples: int, rng: np.random.Generator) -> float:
    """The least part of the radii with which all sets of all cells are inside after 1 .. samples draws."""
    needed, n = 0.0, np.arange(1, samples + 1)
    x = (log_term + np.log(2) + 0.5 * np.log(n)) / n
    for row in rows:
        seen = rng.random((samples, 1)) < np.cumsum(row)
        drawn = np.diff(seen, axis=1, prepend=False)  # [samples, outcomes], one True in each line
        for chosen in product((False, True), repeat=len(row) - 1):
            if any(chosen):
                true = float(row[:-1][list(chosen)].sum())
                share = np.cumsum(drawn[:, :-1][:, list(chosen)].any(axis=1)) / n
                if 0 < true < 1:
                    needed = max(needed, float((_kl(share, true) / x).max()))
    return needed


def _kl(a: Floats, b: float) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(a > 0, a * np.log(a / b), 0.0), np.where(a < 1, (1 - a) * np.log((1 - a) / (1 - b)), 0.0)
    return np.asarray(parts[0] + parts[1])


def outcomes(mdp: rf.FiniteMDP) -> Floats:
    """[cells, outcomes] the rows of a stationary problem outside its reset states, all reset states one outcome."""
    dense = mdp.transition.matrix(0).toarray()[np.repeat(~mdp.reset, mdp.n_actions)]
    return np.hstack([dense[:, ~mdp.reset], dense[:, mdp.reset].sum(axis=1, keepdims=True)])


def exact_table(samples: int) -> Table:
    """Failure probabilities of one coin, and the parts of the radii at which they are what they say."""
    title = f"One coin, ever outside within {samples:,} tosses, by a recursion; it says {P:.0%}"
    table = Table("chance", *(f"{of}: {x}" for of in ("interval", "width") for x in ("fails", "part")), title=title)
    for q in COINS:
        cells = []
        for left in (interval_left, width_left):
            cells += [f"{ever_outside(q, samples, left(P)):.2%}", f"{exact_part(left, q, samples):.2f}"]
        table.add_row(f"{q:g}", *cells)
    return table


def samples_table(seeds: int, samples: int) -> Table:
    """How often some set of some cell is ever outside its interval, of so many runs."""
    title = f"The event behind the intervals, for 1 .. {samples:,} samples of every cell"
    names = ("problem", "cells", "runs", "outside", "allowed", "part needed: median", "at 1 - p'", "largest")
    table = Table(*names, title=title)
    for name, (make, settings) in list(PROBLEMS.items())[:2]:
        mdp = make()
        log_term = interval_width(mdp.problem(), settings.get("pooled", False), P, 0.0).log_term
        rows = outcomes(mdp)
        needed = [part_needed(rows, log_term, samples, np.random.default_rng(seed)) for seed in range(seeds)]
        outside, quantile = sum(part > 1 for part in needed), np.quantile(needed, 1 - CONCENTRATION * P)
        numbers = (f"{x:.3f}" for x in (np.median(needed), quantile, max(needed)))
        allowed = f"{CONCENTRATION * P:.2%}"
        table.add_row(name, str(len(rows)), str(seeds), str(outside), allowed, *numbers)
    return table


def drawn_table(runs: int, episodes: int) -> Table:
    """On drawn problems: in how many runs each proved claim fails, and how many the claims allow."""
    title = f"Drawn problems, {episodes} rounds each: runs in which a proved claim fails"
    table = Table("players", "runs", "proved claims", "fail", "allowed: sum over runs", title=title)
    expensive: dict[str, dict[str, Any]] = {"primal": {"width": "proved"}, "dual": {"C": 1000.0}}
    methods: dict[str, tuple[str, str, str, dict[str, dict[str, Any]]]] = {
        "Algorithm 1, expensive resets": ("linear-ucb", "constant-penalty", "optimistic", expensive),
        "Algorithm 1": ("linear-ucb", "projected-gradient", "optimistic", {"primal": {"width": "proved"}}),
        "algorithm1-safe": ("algorithm1-safe", "constant-penalty", "realised", {"dual": {"C": 0.0}}),
        "elimination, width theory": (
            "support-elimination",
            "constant-penalty",
            "realised",
            {"primal": {"width": "theory"}, "dual": {"C": 0.0}},
        ),
    }
    for j, (name, (primal, dual, feedback, settings)) in enumerate(methods.items()):
        claims, failed, allowed = 0, Counter[str](), 0.0
        for i in range(runs):
            rng = np.random.default_rng([j, i])
            n, size, horizon = int(rng.integers(3, 6)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
            mdp = rf.make("random-linear-v0", n_states=n, n_actions=size, d=n * size, horizon=horizon, seed=i)
            mdp = mdp.replace(phi=None)
            run = rf.learn(mdp, primal, dual, feedback=feedback, episodes=episodes, seed=i, settings=settings)
            proved = [one for one in certify(run) if one.status == "proved"]
            claims, allowed = claims + len(proved), allowed + min(1.0, failure_probability(proved))
            failed.update({one.claim for one in proved if one.holds is False})
        words = ", ".join(f"{claim}: {times}" for claim, times in failed.items()) or "0"
        table.add_row(name, str(runs), str(claims), words, f"{allowed:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--drawn", type=int, default=750, help="runs of each player on drawn problems")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--exact", type=int, default=2000, help="tosses of the exact table")
    parser.add_argument(
        "--only", default="", help="exact, samples, drawn, or how the name of a problem begins; default: all"
    )
    arguments = parser.parse_args()
    console = Console(width=150)
    if arguments.only in ("", "exact"):
        console.print(exact_table(arguments.exact))
    if arguments.only in ("", "samples"):
        console.print(samples_table(arguments.seeds, arguments.samples))
    if arguments.only in ("", "drawn"):
        console.print(drawn_table(arguments.drawn, arguments.episodes))
    words = f"Claims of runs of {arguments.episodes} rounds; optimism and rates together may fail in {P:.0%} of them"
    for name, (make, settings) in PROBLEMS.items():
        if not name.startswith(arguments.only):
            continue
        table = Table("part of the radii", "runs", "optimism fails", "rates fail", "any claim fails", title=name)
        for part in PARTS:
            found = failures(make(), part, arguments.seeds, arguments.episodes, **settings)
            table.add_row(f"{part:.3g}", str(arguments.seeds), *(str(found[x]) for x in ("optimism", "rates", "any")))
        console.print(words, table)


if __name__ == "__main__":
    main()
