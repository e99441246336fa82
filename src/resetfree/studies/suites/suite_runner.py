"""Play a suite: choose each method's width on other instances and seeds, then play the reported trials."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from resetfree.players.method import Method
from resetfree.studies.engines.runner import (
    Count,
    InProcess,
    Local,
    Outcome,
    Progress,
    Runner,
    Stop,
    outcomes,
    stoppable,
)
from resetfree.studies.suites.suite import Case, Instance, Suite
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

FIRST_TUNING_SEED = 1_000_000  # far from every reported seed


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
    episodes = max(1, round(suite.tuning_share * case.episodes))
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
