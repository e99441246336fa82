"""Where the proved bounds say something: certified, expected and realised Resets of Algorithm 1 with width "proved".

Run: make bench-theory [OPTIONS="--episodes 200000 --only ledge"]. Resumable: what was played is kept in --out and goes
on from there, also after an interruption; the numbers do not depend on where it was interrupted. Certified is what
`resetfree certify` compares with ("Resets are at most their rate"), known before the first round: with probability at
least 0.95 expected Resets are below it after every K at once. Certified afterwards is the bound of `certify` that needs
no assumption, from the resets that happened (`anytime.resets_upper`): it holds as often, after every K at once as well.
Players know no K (`anytime`). Rounds are played by `compiled_rounds`, which are those of `learn` bit for bit: 2 to 7
microseconds of one core each, so that everything takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.compiled_rounds import compiled_rounds
from rich.console import Console
from rich.table import Table

import resetfree as rf
from resetfree.core.state import dump, load
from resetfree.game.loop import Game, begin
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.studies.statistics import interval
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.certificates.claims_rates import solved_for_resets

MOST = 5_000_000
GRID = [*np.unique(np.round(10 ** np.arange(1, np.log10(MOST), 0.05)).astype(np.int64)).tolist(), MOST]
CURVE = [*GRID[:-1:5], MOST]  # what is certified is smooth
SHARES = {"K": 1.0, "K/10": 0.1}
P = 0.05  # with which each of the two certified bounds may fail


@dataclass(frozen=True)
class Case:
    """A problem, and the settings of the primal player."""

    name: str
    make: Callable[[], rf.FiniteMDP]
    settings: dict[str, Any]

    def players(self, mdp: rf.FiniteMDP) -> tuple[Any, Any]:
        """Algorithm 1 with the least B."""
        B = float(np.nanmax(rf.solve(mdp).lambda_hat)) + 1.0
        return algorithm1(B=B, width="proved", anytime=True, p=P, **self.settings)


CASES = [
    Case("ledge, 1 place, H = 1", lambda: rf.make("ledge-v0"), {}),
    Case("ledge, 2 places, H = 2", lambda: rf.make("ledge-v0", places=2, horizon=2), {"pooled": True}),
    Case("ledge, 3 places, H = 3", lambda: rf.make("ledge-v0", places=3, horizon=3), {"pooled": True}),
    Case("thresholds-v0", lambda: rf.make("thresholds-v0"), {"pooled": True}),
    Case(
        "features, d = 2, H = 1",
        lambda: rf.make("random-linear-v0", n_states=3, n_actions=3, d=2, horizon=1),
        {},
    ),
]


def certified(primal: Any, problem: Any, k: int) -> float:
    """Above Resets after k rounds, with probability at least 1 - p: the rate of both players, as they know it."""
    bound = primal.primal_regret_bound(problem, k, k)
    return solved_for_resets(bound.most + 1.5 * primal.B * sqrt(k), bound.per_root_reset, k)


def first_below(primal: Any, problem: Any, share: float) -> int | None:
    """The first K from which on the certified bound is below a share of K (the bound over K falls); None above 2e8."""
    low, high = 1, 1
    while certified(primal, problem, high) >= share * high:
        low, high = high, 2 * high
        if high > 200_000_000:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if certified(primal, problem, middle) >= share * middle else (low, middle)
    return high


class Kept:
    """A run that can be interrupted: its game between two rounds, and what was counted so far."""

    def __init__(self, folder: Path, case: Case, seed: int) -> None:
        self.mdp = case.make()
        self.problem = self.mdp.problem()
        self.primal, self.dual = case.players(self.mdp)
        self.file = folder / f"{'-'.join(re.findall('[a-z0-9]+', case.name.lower()))}-{seed}.npz"
        self.game: Game = begin(self.problem, self.primal, self.dual, episodes=MOST, seed=seed)
        self.expected, self.realised = 0.0, 0
        self.rows: list[list[float]] = []  # K, expected and realised Resets
        if self.file.exists():
            self._take_up()

    def _take_up(self) -> None:
        kept = dict(np.load(self.file))
        about = json.loads(str(kept.pop("about")))
        game = self.game
        game.primal, game.dual = load(game.primal, kept, "primal."), load(game.dual, kept, "dual.")
        game.k, game.s1, game.rng.bit_generator.state = about["k"], about["s1"], about["rng"]
        self.expected, self.realised, self.rows = about["expected"], about["realised"], about["rows"]

    def keep(self) -> None:
        """Write it down, in one piece."""
        game = self.game
        about = {"k": game.k, "s1": game.s1, "rng": game.rng.bit_generator.state, "expected": self.expected}
        about |= {"realised": self.realised, "rows": self.rows}
        arrays = {**dump(game.primal, "primal."), **dump(game.dual, "dual."), "about": np.asarray(json.dumps(about))}
        part = self.file.with_suffix(".part.npz")
        np.savez(part, **arrays)  # type: ignore[arg-type]
        part.replace(self.file)

    def go_on(self, episodes: int) -> list[list[float]]:
        """Play until so many rounds are over; rows of K, expected and realised Resets."""
        game = self.game
        for mark in [k for k in GRID if game.k < k < episodes] + [episodes]:
            rounds = compiled_rounds(self.problem, self.primal, self.dual, game, episodes=mark)
            self.expected = float(np.cumsum(np.append(self.expected, rounds.exact_c))[-1])  # in the order of the rounds
            self.realised += int(rounds.reset.sum())
            if mark in GRID and len(rounds.reset):
                self.rows.append([mark, self.expected, self.realised])
                if mark > 10_000:
                    self.keep()
        self.keep()
        return self.rows


def at(rows: list[list[float]], k: int) -> list[float]:
    """The last row up to k."""
    return [row for row in rows if row[0] <= k][-1]


def late_exponent(rows: list[list[float]], k: int) -> float:
    """Of expected Resets between k/4 and k: 1 linear, 1/2 sqrt(K), 0 flat."""
    early, late = at(rows, k // 4), at(rows, k)
    return float(np.log(late[1] / early[1]) / np.log(late[0] / early[0]))


def draw(curves: dict[str, dict[str, Any]], file: Path) -> None:
    """Certified, expected and realised Resets against K, one panel per case."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    for panel, (name, curve) in zip(panels, curves.items(), strict=False):
        k = np.array(CURVE)
        panel.loglog(k, k, color="#888888", lw=1, ls=":", label="K: a fall in every episode")
        panel.loglog(k, k / 10, color="#888888", lw=1, ls="--", label="K / 10")
        panel.loglog(k, curve["certified"], color="#d95f02", lw=2, label="certified beforehand, width proved")
        panel.loglog(k, curve["theory"], color="#d95f02", lw=1, ls="-.", label="certified beforehand, width theory")
        rows = np.array(curve["rows"])
        after = resets_upper(rows[:, 2], P)
        panel.loglog(rows[:, 0], after, color="#7570b3", lw=1.5, label="certified afterwards, by what happened")
        panel.loglog(rows[:, 0], np.maximum(rows[:, 1], 0.5), color="#1b6ca8", lw=2, label="expected")
        panel.loglog(rows[:, 0], np.maximum(rows[:, 2], 0.5), color="#1b9e77", lw=1, label="realised")
        panel.set_title(name, fontsize=10)
        for text, share in SHARES.items():
            if where := curve["below"][text]:
                panel.axvline(where, color="#d95f02", lw=0.6, alpha=0.6)
                panel.text(where * 1.1, 1.3 if share == 1 else 4, f"< {text}\n{where:,}", fontsize=7, color="#a04000")
        panel.set_ylim(1, 1e8)
        panel.grid(alpha=0.2)
    for spare in panels[len(curves) :]:
        spare.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    panels[-1].legend(handles, labels, loc="center", frameon=False)
    figure.supxlabel("episodes K")
    figure.supylabel("Resets")
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=MOST, help="of the first seed of each case")
    parser.add_argument("--seeds", type=int, default=20, help="for the late exponents")
    parser.add_argument("--short", type=int, default=20_000, help="episodes of the other seeds")
    parser.add_argument("--only", default="", help="cases whose names begin like this")
    parser.add_argument("--out", type=Path, default=Path("runs/theory"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/theory.svg"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = (
        "problem",
        "S A H",
        "B",
        "certified < K at",
        "certified < K/10 at",
        "K",
        "certified",
        "afterwards",
        "expected",
        "realised",
    )
    table = Table(*names, "exponent of Resets, K/4 to K")
    curves: dict[str, dict[str, Any]] = {}
    for case in CASES:
        if not case.name.startswith(arguments.only):
            continue
        others = [Kept(arguments.out, case, seed).go_on(arguments.short) for seed in range(1, arguments.seeds)]
        first = Kept(arguments.out, case, 0)
        rows = first.go_on(arguments.episodes)
        primal, problem, mdp = first.primal, first.problem, first.mdp
        below = {text: first_below(primal, problem, share) for text, share in SHARES.items()}
        old = algorithm1(B=primal.B, width="theory")[0]
        curve = [certified(primal, problem, k) for k in CURVE]
        for text, share in SHARES.items():
            if (since := below[text]) is not None:  # and it stays below
                assert all(most < share * k for k, most in zip(CURVE, curve, strict=True) if k >= since)
        curves[case.name] = {
            "certified": curve,
            "theory": [certified(old, problem, k) for k in CURVE],
            "rows": rows,
            "below": below,
        }
        k, expected, realised = rows[-1]
        late = interval([late_exponent(one, arguments.short) for one in [*others, rows]])
        sizes = f"{mdp.n_states} {mdp.n_actions} {mdp.horizon}"
        found = [f"{since:,}" if since else "-" for since in below.values()]
        numbers = (k, certified(primal, problem, int(k)), float(resets_upper(realised, P)), expected, realised)
        table.add_row(
            case.name,
            sizes,
            f"{primal.B:.3g}",
            *found,
            *(f"{x:,.0f}" for x in numbers),
            f"{late.mean:.3f} [{late.low:.3f}, {late.high:.3f}]",
        )
    console = Console(width=170)
    console.print(
        f"Algorithm 1, width proved, optimistic feedback; exponents at K = {arguments.short:,}, {arguments.seeds} seeds"
    )
    console.print(table)
    if not arguments.only:
        draw(curves, arguments.picture)


if __name__ == "__main__":
    main()
