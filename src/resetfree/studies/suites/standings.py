"""The results of a comparison: a table with intervals, the Pareto front, and the methods that dominate `auto`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from resetfree.studies.statistics import Interval, interval
from resetfree.studies.suites.suite import Case
from resetfree.studies.suites.suite_runner import PlayedEntry
from resetfree.studies.suites.trials import Measured, ground
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.reset_limits import depends_on_step, size_limit

MEASURES = ("regret", "resets", "realised", "last_reset", "seconds", "certificate")
SUBJECT = "auto"  # the method that others may dominate


@dataclass(frozen=True)
class Row:
    """A line of a table: a method on a case, pooled or not."""

    case: str
    episodes: int
    method: str
    kind: str
    guaranteed: bool
    pooled: bool
    width: float | None  # None for a method without one
    bound: float | None  # B, the largest of the instances
    trials: int
    done: int
    stopped: int
    failed: int
    measures: dict[str, Interval] | None  # over the seeds that were played to the end; None if none was
    most_realised: int | None  # the most realised resets of a seed
    covered: float | None  # share of the seeds whose anytime bound on Resets held after every episode
    note: str | None  # why it was not run, or its first error
    front: bool = False  # whether no other learner has fewer resets and less regret
    unsafe: int | None = None  # pairs or triples that bound elimination's resets, the most of the instances
    limit: int | None = None  # resets that every learner has on some problem of these sizes, likewise

    @property
    def complete(self) -> bool:
        """Whether every seed was played to the end: only then is the row compared with others."""
        return self.trials > 0 and self.done == self.trials


@dataclass(frozen=True)
class Dominator:
    """A row with significantly fewer resets than the subject, and no significantly larger regret."""

    case: str
    method: str
    kind: str
    pooled: bool
    resets: Interval  # its resets minus the subject's, seed by seed
    regret: Interval  # its regret minus the subject's, seed by seed
    clear: bool  # whether its mean regret is not larger either


@dataclass(frozen=True)
class Summary:
    """The rows of a suite by case, and the dominators of the subject in each case that it was played to the end."""

    rows: dict[str, list[Row]]
    dominators: dict[str, list[Dominator]]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "cases": {case: [asdict(row) for row in rows] for case, rows in self.rows.items()},
            "subject": SUBJECT,
            "dominators": {case: [asdict(d) for d in found] for case, found in self.dominators.items()},
        }


def compare(played: Sequence[PlayedEntry]) -> Summary:
    """Tables and comparisons of all entries."""
    rows: dict[str, list[Row]] = {}
    dominators: dict[str, list[Dominator]] = {}
    for label in dict.fromkeys(p.entry.case.label for p in played):
        here = [p for p in played if p.entry.case.label == label]
        found = [_row(p) for p in here]
        ours = [i for i, row in enumerate(found) if row.complete]
        learners = [i for i in ours if found[i].kind != "oracle"]  # a method that knows the model does not compete
        best = front([(_mean(found[i], "resets"), _mean(found[i], "regret")) for i in learners])
        on_front = {i for i, is_best in zip(learners, best, strict=True) if is_best}
        rows[label] = [replace(row, front=i in on_front) for i, row in enumerate(found)]
        complete = [here[i] for i in ours]
        subject = [p for p in complete if p.entry.method.name == SUBJECT]
        if subject:  # its pooled version, if any
            dominators[label] = _dominators(max(subject, key=lambda p: p.entry.pooled), complete)
    return Summary(rows, dominators)


def front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which points are Pareto optimal: no other is less in one coordinate and not more in the other.

    >>> front([(1.0, 5.0), (2.0, 3.0), (2.0, 4.0), (3.0, 3.0)])
    [True, True, False, False]
    """
    return [not any(x <= a and y <= b and (x < a or y < b) for x, y in points) for a, b in points]


def dominates(other: Sequence[Measured], subject: Sequence[Measured]) -> tuple[Interval, Interval] | None:
    """Differences of Resets and Regret if `other` dominates `subject`, else None.

    The seeds are the same and so are their random numbers, so differences are taken seed by seed. Resets must be fewer
    beyond the interval of the difference; regret may be larger only within it.
    """
    resets = interval([a.resets - b.resets for a, b in zip(other, subject, strict=True)])
    regret = interval([a.regret - b.regret for a, b in zip(other, subject, strict=True)])
    return (resets, regret) if resets.high < 0 and regret.low <= 0 else None


def _dominators(subject: PlayedEntry, complete: Sequence[PlayedEntry]) -> list[Dominator]:
    result = []
    for p in complete:
        method = p.entry.method
        found = None if method.name == SUBJECT else dominates(p.outcomes, subject.outcomes)
        if found is not None:
            resets, regret = found
            label = p.entry.case.label
            row = (label, method.name, method.kind, p.entry.pooled)
            result.append(Dominator(*row, resets=resets, regret=regret, clear=regret.mean <= 0))
    return sorted(result, key=lambda d: d.resets.mean)


def _row(p: PlayedEntry) -> Row:
    entry, method = p.entry, p.entry.method
    done = [o for o in p.outcomes if o.status == "done"]
    failed = [o for o in p.outcomes if o.status == "failed"]
    unsafe, limit = _limits(entry.case)
    note = entry.inapplicable if entry.inapplicable is not None else failed[0].error if failed else None
    return Row(
        case=entry.case.label,
        episodes=entry.case.episodes,
        method=method.name,
        kind=method.kind,
        guaranteed=method.guaranteed,
        pooled=entry.pooled,
        width=p.width if method.widths else None,
        bound=max((o.bound for o in p.outcomes), default=None),
        trials=len(p.outcomes),
        done=len(done),
        stopped=len(p.outcomes) - len(done) - len(failed),
        failed=len(failed),
        measures={name: interval([getattr(o, name) for o in done]) for name in MEASURES} if done else None,
        most_realised=max((o.realised for o in done), default=None),
        covered=float(np.mean([o.covered for o in done])) if done else None,
        note=note,
        unsafe=unsafe,
        limit=limit,
    )


@cache
def _limits(case: Case) -> tuple[int, int]:
    problems = [ground(one).mdp for one in case.reported]
    return max(map(unsafe_pairs, problems)), max(size_limit(mdp, depends_on_step(mdp)) for mdp in problems)


def _mean(row: Row, name: str) -> float:
    assert row.measures is not None
    return row.measures[name].mean
