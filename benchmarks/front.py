"""Where `auto` stands against the strongest others, without the sweeps of widths of `resetfree bench`: a quick look.

    python benchmarks/front.py front.jsonl                      # doors-v0, seeds 0 to 9; drifting-v0, seeds 0 to 4
    python benchmarks/front.py front.jsonl --draws 0:100        # and generated problems, seeds 0 to 3
    python benchmarks/front.py front.jsonl --table              # what is in the file; --picture FILE draws it

Trials are appended as they finish, and those in the file are not played again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from resetfree.problems.zoo.generated import family_of
from resetfree.show.cli.bench_pages import draw_pareto
from resetfree.show.report.comparison import span, verdict
from resetfree.studies.suites import Case, Instance, instance, methods
from resetfree.studies.suites.suite_runner import Entry, PlayedEntry, compare
from resetfree.studies.suites.trials import Measured, MethodPlayers, ground, run_trial
from resetfree.studies.trial import Trial

# Widths are those that docs/results/full.md found; generated problems are played with the smallest.
DOORS = {"auto": 0.0, "fixed penalty B": 0.02, "fixed penalty 4B": 0.05}
DRIFT = {
    "auto": 0.0,
    "olsvi.fh, penalty B": 0.02,
    "fixed penalty B": 0.1,
    "fixed penalty 4B": 0.1,
    "LSVI-UCB++": 0.2,
}
DRAWN = ("auto", "fixed penalty B", "olsvi.fh, penalty B", "LSVI-UCB++", "fixed penalty 4B", "support elimination")
SHIPPED = {"doors-v0": (10, 300), "drifting-v0": (5, 600)}  # seeds and episodes
DRAW_SEEDS, DRAW_EPISODES = 4, 200


class Job(NamedTuple):
    """One trial, and the problem that it is counted to."""

    case: str
    on: Instance
    method: str
    width: float
    episodes: int
    seed: int

    @property
    def pooled(self) -> bool:
        """Wherever the method and the problem allow it."""
        return methods()[self.method].pools and ground(self.on).mdp.stationary

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it apart from others."""
        return self.case, self.method, self.seed

    def play(self) -> Measured:
        """Its outcome."""
        players = MethodPlayers(self.case, self.method, self.pooled, self.width, False)
        return run_trial(Trial(self.on.id, dict(self.on.options), players, self.episodes, self.seed))


def jobs(draws: range) -> Iterator[Job]:
    """All trials, problem by problem."""
    shipped: list[tuple[str, dict[str, float], Callable[[int], Instance]]] = [
        ("doors-v0", DOORS, lambda seed: instance("doors-v0")),
        ("drifting-v0", DRIFT, lambda seed: instance("drifting-v0", seed=1 + seed % 5)),
    ]
    for case, widths, on in shipped:
        seeds, episodes = SHIPPED[case]
        for seed in range(seeds):
            for method, width in widths.items():
                yield Job(case, on(seed), method, width, episodes, seed)
    for draw in draws:
        case, here = f"draw {draw}, {family_of(draw)}", instance("generated-v0", draw=draw)
        for method in DRAWN:
            width = 0.02 if methods()[method].widths else 0.0
            for seed in range(DRAW_SEEDS):
                yield Job(case, here, method, width, DRAW_EPISODES, seed)


def played(wanted: list[Job], found: dict[tuple[str, str, int], Measured]) -> list[PlayedEntry]:
    """The methods of which every seed was played, as the comparison reads them."""
    result = []
    for case, method in dict.fromkeys((job.case, job.method) for job in wanted):
        here = [job for job in wanted if (job.case, job.method) == (case, method)]
        if all(job.key in found for job in here):
            one = Case(case, tuple(dict.fromkeys(job.on for job in here)), (), here[0].episodes)
            entry = Entry(one, methods()[method], here[0].pooled, None)
            result.append(PlayedEntry(entry, here[0].width, tuple(found[job.key] for job in here)))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--draws", default="0:0", metavar="A:B")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    wanted = list(jobs(range(*map(int, given.draws.split(":")))))
    lines = given.file.read_text().splitlines() if given.file.exists() else []
    found = {(case, method, seed): Measured(**one) for case, method, seed, one in map(json.loads, lines)}
    if not (given.table or given.picture):
        with given.file.open("a") as file:
            for job in wanted:
                if job.key not in found:
                    found[job.key] = outcome = job.play()
                    file.write(json.dumps([*job.key, vars(outcome)]) + "\n")
                    file.flush()
    summary = compare(played(wanted, found))
    print("| problem | method | seeds | Resets | Regret |\n|---|---|---|---|---|")
    for rows in summary.rows.values():
        for row in rows:
            if row.measures is not None:
                both = " | ".join(span(row.measures[name]) for name in ("resets", "regret"))
                print(f"| {row.case} | {row.method} | {row.done} | {both} |")
    for case in summary.rows:
        print(f"- {case}: {verdict(summary, case)}")
    if given.picture:
        draw_pareto(summary, given.picture, "auto and the strongest others: mean and 95 % interval")


if __name__ == "__main__":
    main()
