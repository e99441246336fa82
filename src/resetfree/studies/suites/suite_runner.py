"""Play a suite in local processes: tuning trials first, then the reported ones; what is in the file is not repeated."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.players.shared.method import Method
from resetfree.studies.suites.results import Results
from resetfree.studies.suites.suite import Suite
from resetfree.studies.suites.trials import Interrupted, Outcome, Trial, run_trial
from resetfree.studies.suites.tuning import Entry, choose_width, entries, reported_trials, tuning_trials
from resetfree.studies.workers import Workers, stopping

Progress: TypeAlias = Callable[[int, int, str], object]  # trials done, trials in all, what was done last


class BenchStopped(ResetFreeError):
    """The user stopped a comparison (Ctrl-C); what was finished is in the file."""


@dataclass(frozen=True)
class Played:
    """An entry with its width and the outcomes of its reported seeds, in their order."""

    entry: Entry
    width: float
    outcomes: tuple[Outcome, ...]


def run_suite(
    suite: Suite,
    chosen: Iterable[Method],
    results: Results,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Played]:
    """Play what the file does not have yet, and return everything that was asked for.

    jobs: processes (default: one per core; 1: this one).
    progress: called after each trial with the number done, the number in all, and a word on what it was.
    """
    rows = entries(suite, chosen)
    first = [trial for entry in rows for trial in tuning_trials(entry, suite)]
    total = len(first) + sum(suite.seeds for entry in rows if entry.inapplicable is None)
    note = progress or (lambda done, total, word: None)
    done = 0

    def finish(trials: Sequence[Trial], workers: _Workers) -> None:
        nonlocal done
        missing = [trial for trial in trials if trial.key not in results.outcomes]
        done += len(trials) - len(missing)
        note(done, total, "")
        for trial, outcome in workers.play(missing):
            results.add(trial, outcome)
            done += 1
            note(done, total, f"{trial.case}, {trial.method}")

    with _Workers(jobs or os.cpu_count() or 1, suite.limit) as workers:
        try:
            finish(first, workers)
            widths = [choose_width(entry, suite, results.outcomes) for entry in rows]
            second = [reported_trials(entry, suite, width) for entry, width in zip(rows, widths, strict=True)]
            finish([trial for trials in second for trial in trials], workers)
        except KeyboardInterrupt:
            raise BenchStopped(
                f"Stopped after {done} of {total} trials, saved in '{results.path}'. The same command goes on with it."
            ) from None
    return [
        Played(entry, width, tuple(results.outcomes[trial.key] for trial in trials))
        for entry, width, trials in zip(rows, widths, second, strict=True)
    ]


class _Workers:
    """Processes that play trials and survive until the end of the comparison, or this process if one is enough."""

    def __init__(self, jobs: int, limit: float) -> None:
        self._jobs, self._limit = jobs, limit
        self._workers: Workers[Trial, Outcome] | None = None

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.__exit__()  # trials under way end at their next look; nothing of them is kept

    def play(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Outcomes as they come, in any order."""
        if self._jobs == 1 or not trials:
            for trial in trials:
                yield trial, run_trial(trial, self._limit)
            return
        if self._workers is None:
            self._workers = Workers(self._jobs, partial(_work, limit=self._limit))
        for trial, outcome in self._workers.do(deque(trials)):
            if outcome is None:
                raise RunError(
                    "A process of the comparison was killed, perhaps for want of memory. What was finished is saved; "
                    "the same command goes on with it, and --jobs 1 takes the least memory."
                )
            yield trial, outcome


def _work(trial: Trial, limit: float) -> Outcome:
    if stopping():
        raise Interrupted
    return run_trial(trial, limit, stopping)
