"""Play a suite: tuning trials first, then the reported ones; trials in the file are not repeated."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.players.shared.method import Method
from resetfree.studies.engines.local import Local
from resetfree.studies.engines.runner import InProcess, Outcome, Runner, Stop
from resetfree.studies.suites.results import Results
from resetfree.studies.suites.suite import Suite
from resetfree.studies.suites.trials import Interrupted, Measured, MethodTrial, run_trial
from resetfree.studies.suites.tuning import Entry, choose_width, entries, reported_trials, tuning_trials

Progress: TypeAlias = Callable[[int, int, str], object]  # trials done, trials in all, case and method of the last one


class BenchStopped(ResetFreeError):
    """The user stopped a comparison (Ctrl-C); finished trials are in the file."""


class Attempt(NamedTuple):
    """The job of a worker: a trial, and the seconds after which it is stopped."""

    trial: MethodTrial
    limit: float

    @property
    def id(self) -> str:
        """The key of the trial."""
        return self.trial.key

    @property
    def again(self) -> str:
        """What to type to continue it."""
        return "Finished trials are saved: run the same command again to continue; --jobs 1 takes the least memory."

    def play(self, stop: Stop) -> Outcome:
        """Play the trial; nothing is kept of one that is stopped."""
        try:
            return Outcome("done", result=run_trial(self.trial, self.limit, stop))
        except Interrupted:
            return Outcome("stopped")

    def failed(self, error: BaseException) -> Outcome:
        """Its process died, which is not a result of the method: the comparison ends."""
        return Outcome("lost", f"A process of the comparison was killed, perhaps for want of memory. {self.again}")


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
    progress: called after each trial with the number done, the number in all, and its case and method.
    """
    rows = entries(suite, chosen)
    first = [trial for entry in rows for trial in tuning_trials(entry, suite)]
    total = len(first) + sum(suite.seeds for entry in rows if entry.inapplicable is None)
    note = progress or (lambda done, total, word: None)
    done = 0

    def finish(trials: Sequence[MethodTrial], runner: Runner[Attempt]) -> None:
        nonlocal done
        missing = deque(Attempt(trial, suite.limit) for trial in trials if trial.key not in results.outcomes)
        done += len(trials) - len(missing)
        note(done, total, "")
        for (trial, _), outcome in runner.play(missing):
            if outcome.status == "stopped":
                raise KeyboardInterrupt
            if outcome.status != "done":
                raise RunError(outcome.sentence)
            results.add(trial, outcome.result)
            done += 1
            note(done, total, f"{trial.case}, {trial.method}")

    processes = jobs or os.cpu_count() or 1
    with closing(InProcess() if processes == 1 else Local[Attempt](processes, deaths=1)) as runner:
        try:
            finish(first, runner)
            widths = [choose_width(entry, suite, results.outcomes) for entry in rows]
            second = [reported_trials(entry, suite, width) for entry, width in zip(rows, widths, strict=True)]
            finish([trial for trials in second for trial in trials], runner)
        except KeyboardInterrupt:
            raise BenchStopped(
                f"Stopped after {done} of {total} trials, saved in '{results.path}'. Run the same command again to "
                "continue."
            ) from None
    return [
        PlayedEntry(entry, width, tuple(results.outcomes[trial.key] for trial in trials))
        for entry, width, trials in zip(rows, widths, second, strict=True)
    ]
