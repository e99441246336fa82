"""Play a suite: tuning trials first, then the reported ones; trials in the file are not repeated."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from resetfree.players.method import Method
from resetfree.studies.engines.local import Local
from resetfree.studies.engines.runner import Count, InProcess, Outcome, Progress, Runner, Stop, outcomes, stoppable
from resetfree.studies.suites.results import Results
from resetfree.studies.suites.suite import Suite
from resetfree.studies.suites.trials import Interrupted, Measured, MethodTrial, key_of, run_trial
from resetfree.studies.suites.tuning import Entry, choose_width, entries, reported_trials, tuning_trials


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
