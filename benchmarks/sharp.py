"""How far certified Resets and Regret are from what happens: before and after the price of a reset entered the bounds.

Run: make bench-sharp [OPTIONS="--runs 300 --episodes 2000"]. Three players of Algorithm 1 with proved widths: against
projected gradient with the least B ("before" is its rate alone), against a constant penalty of 10^6 B (`first_falls`),
and with elimination inside (`algorithm1-safe`). Certified beforehand is known before the first episode; afterwards is
`resets_upper` of the resets that happened. With --runs, claims are checked on so many runs of random problems.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.players import make_player
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.anytime import DELTA, resets_upper
from resetfree.theory.certificates.claims_rates import solved_for_resets
from resetfree.theory.reset_limits import limit

GRID = (10**3, 10**4, 10**5, 10**6, 5 * 10**6)
PROBLEMS: dict[str, dict[str, Any]] = {
    "ledge-v0": {},
    "grid-v0": {},
    "pits-v0": {},
    "thresholds-v0": {},
    "random-linear-v0": {"n_states": 10, "n_actions": 3, "horizon": 3},
}
LINEAR = {"n_states": 3, "n_actions": 3, "d": 2, "horizon": 1}  # with features, d = 2
DEAR = 1e6


@dataclass(frozen=True)
class Case:
    """A problem, and what each player certifies on it."""

    name: str
    mdp: rf.FiniteMDP
    features: bool = False

    @property
    def B(self) -> float:
        """The least bound on the multipliers."""
        return float(np.nanmax(rf.solve(self.mdp).lambda_hat)) + 1.0

    def player(self, B: float) -> Any:
        """Algorithm 1 with proved widths."""
        once = {"width": "proved", "anytime": B == self.B, "pooled": self.mdp.stationary and not self.features}
        return make_player("primal", "linear-ucb", {"B": B, **once, **({} if B == self.B else {"alpha": 1e9})})

    def before(self, k: int) -> tuple[float, float]:
        """Certified Resets and Regret of Algorithm 1, as they were."""
        problem, primal = self.mdp.problem(), self.player(self.B)
        found = primal.primal_regret_bound(problem, k, k)
        resets = solved_for_resets(found.most + 1.5 * self.B * sqrt(k), found.per_root_reset, k)
        return resets, found.most + found.per_root_reset * sqrt(min(resets, k))

    def dear(self, k: int) -> tuple[float, float]:
        """The same against a constant penalty of 10^6 B."""
        problem, B = self.mdp.problem(), DEAR * self.B
        primal = self.player(B)
        found = primal.primal_regret_bound(problem, k, k)
        margin = B - self.B + 1.0
        resets = solved_for_resets(found.most / margin, found.per_root_reset / margin, k)
        falls = primal.falls(self.mdp, problem, k, np.full(k, B))
        if falls is not None:
            resets = min(resets, float(resets_upper(falls.counted, DELTA)) + falls.penalised)
        return resets, primal.regret_with_model(self.mdp, problem, k, k)

    def safe(self, k: int) -> tuple[float, float]:
        """With elimination inside."""
        primal = make_player("primal", "algorithm1-safe", {"anytime": True})
        most = limit(self.mdp).promised
        assert most is not None
        return float(resets_upper(most, DELTA)), primal.regret_with_model(self.mdp, self.mdp.problem(), k, k)

    def played(self, kind: str, episodes: int, seed: int) -> dict[str, float]:
        """What happens in a run."""
        B = self.B if kind == "before" else DEAR * self.B
        if kind == "safe":
            primal: Any = make_player("primal", "algorithm1-safe", {"anytime": True})
            dual, feedback = make_player("dual", "constant-penalty", {"C": 0.0}), "realised"
        else:
            name = "projected-gradient" if kind == "before" else "constant-penalty"
            primal, dual, feedback = self.player(B), make_player("dual", name, {"B": B}), "optimistic"
        run = rf.learn(self.mdp, primal, dual, episodes=episodes, seed=seed, feedback=feedback)
        realised = int(run.realised_resets[-1])
        after = float(resets_upper(realised, DELTA))
        return {
            "realised": realised,
            "expected": float(run.resets[-1]),
            "afterwards": after,
            "regret": float(run.regret[-1]),
        }


def cases() -> list[Case]:
    """The problems of the table."""
    found = [Case(name, rf.make(name, **options).replace(phi=None)) for name, options in PROBLEMS.items()]
    return [*found, Case("random-linear-v0, d = 2", rf.make("random-linear-v0", **LINEAR), features=True)]


def checked(runs: int, first: int) -> Counter[str]:
    """Claims of `certify` that are proved and fail, over runs on random problems; and how many were checked."""
    found: Counter[str] = Counter()
    for i in range(first, first + runs):
        rng = np.random.default_rng([30, i])
        mdp = rf.make("generated-v0", draw=int(rng.integers(400))).replace(phi=None)
        factor, safe = float(10 ** rng.uniform(0, 7)), i % 3 == 0
        B = factor * (float(np.nanmax(rf.solve(mdp).lambda_hat)) + 1.0)
        settings: dict[str, Any] = {"alpha": float(10 ** rng.uniform(0, 6)), "pooled": mdp.stationary and i % 2 == 0}
        primal = make_player("primal", "algorithm1-safe", settings)
        if not safe:
            primal = make_player("primal", "linear-ucb", {"B": B, "width": "proved", **settings})
        dual = ("constant-penalty", "adagrad-norm", "projected-gradient")[int(rng.integers(3))]
        feedback = ("optimistic", "realised", "exact")[int(rng.integers(3))]
        given = make_player("dual", dual, {"B": B})
        run = rf.learn(mdp, primal, given, episodes=int(rng.integers(5, 120)), seed=i, feedback=feedback)
        found["runs"] += 1
        for c in certify(run):
            if c.claim in RATES and c.status == "proved":
                found[f"proved: {c.claim}"] += 1
                found[f"failed: {c.claim}"] += not c.holds
                found[f"says something: {c.claim}"] += not c.detail["vacuous"]
    return found


def draw(rows: list[dict[str, Any]], file: Path) -> None:
    """Certified Resets of the three players, and what happens, against K."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.6), layout="constrained")
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    colours = {"before": "#888888", "dear": "#d95f02", "safe": "#1b9e77"}
    words = {"before": "rate of Algorithm 1, B least", "dear": "penalty 10^6 B", "safe": "elimination inside"}
    for panel, name in zip(panels, dict.fromkeys(row["problem"] for row in rows), strict=False):
        panel.loglog(GRID, GRID, color="#bbbbbb", ls=":", lw=1, label="K")
        for kind, colour in colours.items():
            mine = [row for row in rows if row["problem"] == name and row["player"] == kind]
            panel.loglog([r["K"] for r in mine], [r["resets"] for r in mine], color=colour, lw=2, label=words[kind])
            some = [r for r in mine if r.get("realised")]
            panel.loglog([r["K"] for r in some], [r["realised"] for r in some], "o", color=colour, ms=4)
        panel.set_title(name, fontsize=10)
        panel.set_ylim(0.8, 1e8)
        panel.grid(alpha=0.2)
    panels[0].legend(frameon=False, fontsize=8)
    figure.supxlabel("episodes K")
    figure.supylabel("Resets: certified beforehand (lines), realised (dots)")
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=10**4, help="up to which runs are played")
    parser.add_argument("--runs", type=int, default=0, help="check claims on so many random runs, and nothing else")
    parser.add_argument("--first", type=int, default=0, help="of these runs")
    parser.add_argument("--out", type=Path, default=Path("runs/sharp.jsonl"))
    parser.add_argument("--picture", type=Path, default=Path("docs/images/sharp.svg"))
    arguments = parser.parse_args()
    if arguments.runs:
        print(json.dumps(checked(arguments.runs, arguments.first), indent=1, sort_keys=True))
        return
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    kept = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    have = {(row["problem"], row["player"], row["K"]) for row in kept}
    for case in cases():
        for kind, certified in (("before", case.before), ("dear", case.dear), ("safe", case.safe)):
            for k in GRID:
                if (case.name, kind, k) in have:
                    continue
                resets, regret = certified(k)
                row = {"problem": case.name, "player": kind, "K": k, "resets": resets, "bound_on_regret": regret}
                if k <= arguments.episodes:
                    row |= case.played(kind, k, seed=0)
                kept.append(row)
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    names = ("problem", "player", "K", "certified Resets", "afterwards", "expected", "realised", "certified Regret")
    print("| " + " | ".join([*names, "K H", "Regret"]) + " |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    horizon = {case.name: case.mdp.horizon for case in cases()}
    for row in kept:
        cells = [row["problem"], row["player"], f"{row['K']:,}", f"{row['resets']:,.0f}"]
        cells += [f"{row[key]:,.0f}" if key in row else "" for key in ("afterwards", "expected", "realised")]
        cells += [f"{row['bound_on_regret']:,.0f}", f"{row['K'] * horizon[row['problem']]:,}"]
        print("| " + " | ".join([*cells, f"{row['regret']:,.0f}" if "regret" in row else ""]) + " |")
    draw(kept, arguments.picture)


if __name__ == "__main__":
    main()
