"""Play a suite and compare: each width is chosen on other instances and seeds, then the reported trials are played.

Trials in the results file are not repeated. Regret and Resets belong together: a method dominates another if it has
fewer Resets and no larger Regret, beyond the intervals of the differences seed by seed.
"""

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from resetfree.players import Method
from resetfree.studies.engines import Count, InProcess, Local, Outcome, Progress, Runner, Stop, outcomes, stoppable
from resetfree.studies.statistics import Interval, interval
from resetfree.studies.suites import Case, Instance, Suite
from resetfree.studies.suites.trials import (
    Interrupted,
    Measured,
    MethodPlayers,
    MethodTrial,
    Results,
    ground,
    key_of,
    run_trial,
)
from resetfree.studies.trial import Trial
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.reset_limits import depends_on_step, size_limit

FIRST_TUNING_SEED = 1_000_000  # far from every reported seed
TUNING_SHARE = 0.5  # of the episodes: what a tuning trial plays


@dataclass(frozen=True)
class Entry:
    """A method on a case, pooled or not: one row of a table."""

    case: Case
    method: Method
    pooled: bool
    inapplicable: str | None  # why it has no trials


def entries(suite: Suite, chosen: Iterable[Method]) -> list[Entry]:
    """Every method on every case; both pooled and not if the method supports it and the problem is stationary."""
    result = []
    for case in suite.cases:
        worlds = [ground(instance).mdp for instance in case.reported]
        stationary = all(mdp.stationary for mdp in worlds)
        for method in chosen:
            why = next((why for mdp in worlds if (why := method.inapplicable(mdp)) is not None), None)
            ways = [True, False] if method.pools and stationary and why is None else [False]
            result += [Entry(case, method, pooled, why) for pooled in ways]
    return result


def tuning_trials(entry: Entry, suite: Suite) -> list[MethodTrial]:
    """One trial per width, tuning instance and tuning seed; none if there is only one width."""
    if entry.inapplicable is not None or len(entry.method.widths) < 2:
        return []
    case = entry.case
    episodes = max(1, round(TUNING_SHARE * case.episodes))
    return [
        _trial(entry, width, instance, FIRST_TUNING_SEED + i, episodes=episodes, tuning=True)
        for width in entry.method.widths
        for instance in case.tuning[: suite.tuning_instances]
        for i in range(suite.tuning_seeds)
    ]


def reported_trials(entry: Entry, suite: Suite, width: float) -> list[MethodTrial]:
    """One trial per seed, with the width that was chosen."""
    if entry.inapplicable is not None:
        return []
    on, k = entry.case.reported, entry.case.episodes
    return [_trial(entry, width, on[i % len(on)], i, episodes=k, tuning=False) for i in range(suite.seeds)]


def choose_width(entry: Entry, suite: Suite, outcomes: Mapping[str, Measured]) -> float:
    """The width with the least mean Regret + B Resets over the tuning trials; the smaller one of equals.

    outcomes: by the key of the trial; those of reported trials are not used.
    """
    widths = entry.method.widths
    if len(widths) < 2 or entry.inapplicable is not None:
        return widths[0] if widths else 0.0
    scores: dict[float, list[float]] = {width: [] for width in widths}
    for trial in tuning_trials(entry, suite):
        scores[trial.players.width].append(score(outcomes[key_of(trial)], trial.episodes))
    return min(sorted(widths), key=lambda width: sum(scores[width]) / len(scores[width]))


def score(outcome: Measured, episodes: int) -> float:
    """Regret + B Resets; extrapolated at the same rate for a stopped trial, infinite for a failed one.

    >>> score(Measured("done", played=10, regret=3.0, resets=2.0, bound=5.0), 10)
    13.0
    """
    if outcome.status == "failed" or outcome.played == 0:
        return math.inf
    return (outcome.regret + outcome.bound * outcome.resets) * episodes / outcome.played


def _trial(entry: Entry, width: float, on: Instance, seed: int, *, episodes: int, tuning: bool) -> MethodTrial:
    case = entry.case.family if tuning and entry.case.family else entry.case.label
    players = MethodPlayers(case, entry.method.name, entry.pooled, width, tuning)
    return Trial(on.id, dict(on.options), players, episodes, seed)


class Attempt(NamedTuple):
    """The job of a worker: a trial, and the seconds after which it is stopped."""

    trial: MethodTrial
    limit: float
    again: str = ""  # no runner ends it: it has its own limit

    @property
    def id(self) -> str:
        """The key of the trial."""
        return key_of(self.trial)

    def play(self, stop: Stop) -> Outcome:
        """Play the trial; nothing is kept of one that is stopped."""
        try:
            return Outcome("done", result=run_trial(self.trial, self.limit, stop))
        except Interrupted:
            return Outcome("stopped")

    def failed(self, error: BaseException) -> Outcome:
        """Its process died, which is not a result of the method: the comparison ends."""
        why = "perhaps for want of memory: --jobs 1 takes the least memory."
        return Outcome("lost", f"A process of the comparison was killed, {why}")


@dataclass(frozen=True)
class PlayedEntry:
    """An entry with its width and the outcomes of its reported seeds, in their order."""

    entry: Entry
    width: float
    outcomes: tuple[Measured, ...]


def run_suite(
    suite: Suite,
    chosen: Iterable[Method],
    results: Results,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[PlayedEntry]:
    """Play the trials that are not in the file, and return all entries with their outcomes.

    jobs: processes (default: one per core; 1: this one).
    progress: called after each trial with the count so far.
    """
    rows = entries(suite, chosen)
    first = list({key_of(trial): trial for entry in rows for trial in tuning_trials(entry, suite)}.values())
    reported = [entry.case.episodes * suite.seeds for entry in rows if entry.inapplicable is None]
    count = Count(len(first) + suite.seeds * len(reported))
    count.left = sum(trial.episodes for trial in first) + sum(reported)
    note = progress or (lambda count: None)

    def finish(trials: Sequence[MethodTrial], runner: Runner[Attempt]) -> None:
        missing = deque(Attempt(trial, suite.limit) for trial in trials if key_of(trial) not in results.outcomes)
        count.done += len(trials) - len(missing)
        count.left -= sum(trial.episodes for trial in trials) - sum(job.trial.episodes for job in missing)
        note(count)
        for job, outcome in outcomes(runner, missing, count, results.path):
            trial = job.trial
            results.add(trial, outcome.result)
            count.add_done(trial.episodes)
            count.last = f"{trial.players.case}, {trial.players.method}"
            note(count)

    processes = jobs or os.cpu_count() or 1
    with (
        closing(InProcess() if processes == 1 else Local[Attempt](processes, deaths=1)) as runner,
        stoppable(count, results.path),
    ):
        finish(first, runner)
        widths = [choose_width(entry, suite, results.outcomes) for entry in rows]
        second = [reported_trials(entry, suite, width) for entry, width in zip(rows, widths, strict=True)]
        finish([trial for trials in second for trial in trials], runner)
    return [
        PlayedEntry(entry, width, tuple(results.outcomes[key_of(trial)] for trial in trials))
        for entry, width, trials in zip(rows, widths, second, strict=True)
    ]


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
