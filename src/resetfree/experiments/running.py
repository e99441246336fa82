"""Play a suite in local processes: tuning trials first, then the reported ones; what is in the file is not repeated."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from resetfree.errors import ResetFreeError, RunError
from resetfree.experiments.method import Method
from resetfree.experiments.results import Results
from resetfree.experiments.suite import Suite
from resetfree.experiments.trials import Interrupted, Outcome, Trial, run_trial
from resetfree.experiments.tuning import Entry, choose_width, entries, reported_trials, tuning_trials

Progress: TypeAlias = Callable[[int, int, str], object]  # trials done, trials in all, what was done last
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
AHEAD = 4  # trials handed to each process before it asks: enough to keep it busy


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
        self._pool: ProcessPoolExecutor | None = None
        self._stop: Any = None

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._stop.set()  # trials under way end at their next look; nothing of them is kept
            self._pool.shutdown(wait=True, cancel_futures=True)

    def play(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outcome]]:
        """Outcomes as they come, in any order."""
        if self._jobs == 1 or not trials:
            for trial in trials:
                yield trial, run_trial(trial, self._limit)
            return
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # no copy of this process's locks and threads
            self._stop = context.Event()
            self._pool = ProcessPoolExecutor(self._jobs, context, _begin_worker, (self._stop,))
        waiting: dict[Future[Outcome], Trial] = {}
        queue = iter(trials)
        try:
            while True:
                with _one_thread_each():
                    for trial in islice(queue, max(AHEAD * self._jobs - len(waiting), 0)):
                        waiting[self._pool.submit(_work, trial, self._limit)] = trial
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool as error:
            raise RunError(
                "A process of the comparison was killed, perhaps for want of memory. What was finished is saved; "
                "the same command goes on with it, and --jobs 1 takes the least memory."
            ) from error


_stop: Any = None  # in a worker: the event that tells it to end


def _begin_worker(stop: Any) -> None:
    global _stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first one decides
    _stop = stop


def _work(trial: Trial, limit: float) -> Outcome:
    if _stop.is_set():
        raise Interrupted
    return run_trial(trial, limit, _stop.is_set)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """New processes inherit this: as many of them as cores must not each use all cores."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
