"""The interface of engines, and the local one: a runner plays jobs, wherever and with however many processes.

Locally a pool of processes, one job at a time each; a killed one is replaced without effect on the others, and loses at
most the rounds since its last commit. Each has its own pipe and, where there are such, its own process group. No lock
is shared, so that a killed process cannot block another, and killing one also kills the processes that it started.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from resetfree.core import ResetFreeError, RunError, one_line
from resetfree.core.interrupts import SLICE
from resetfree.core.system import Child

# "busy": another process is writing its file, so it is retried; "stopped": ended on request, and saved; "lost": not
# played because of a full disk, a lost cluster or the like, which is not a failure of the job: it remains to be played.
Status: TypeAlias = Literal["done", "failed", "busy", "stopped", "lost"]
Stop: TypeAlias = Callable[[], bool]  # polled: whether to end
RECENT = 20  # errors of failed trials that a count holds
AGAIN = "Run the same command again to continue."


class Outcome(NamedTuple):
    """The outcome of one attempt at a job."""

    status: Status
    sentence: str = ""  # the error, in one line
    result: Any = None  # of jobs that do not write it to a file


class Job(Protocol):
    """A trial and where it is saved, as it is sent to a worker."""

    @property
    def id(self) -> str:
        """A unique name."""

    @property
    def again(self) -> str:
        """What to type to continue it after it was ended, as a sentence."""

    def play(self, stop: Stop) -> Outcome:
        """Play it to its end, or until `stop` returns true; exceptions become part of the outcome."""

    def failed(self, error: BaseException) -> Outcome:
        """Record that it failed with this error."""


J = TypeVar("J", bound=Job)
Outcomes: TypeAlias = Generator[tuple[J, Outcome], None, None]


class Runner(Protocol[J]):
    """Plays jobs."""

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in order of completion; closing the generator ends the running jobs."""

    def close(self) -> None:
        """End processes that are kept between two calls."""


class StudyStopped(ResetFreeError):
    """The user stopped a sweep or a comparison (Ctrl-C); what was played is saved."""


@dataclass
class Count:
    """The progress of a study."""

    total: int
    done: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0  # neither done nor failed; while a study is played, running ones included
    engine: str = ""
    why: str = ""  # the reason for this engine
    engines: list[str] = field(default_factory=list)  # all engines so far
    errors: list[tuple[str, str]] = field(default_factory=list)  # ids and errors of some failed trials
    began: float = field(default_factory=time.monotonic)
    played: int = 0  # episodes of trials that this call finished
    left: int = 0  # episodes of trials that are not finished
    last: str = ""  # the last trial, in words

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the time per episode so far; None before the first trial is finished."""
        return None if self.played == 0 else (time.monotonic() - self.began) * self.left / self.played

    def add_done(self, episodes: int) -> None:
        """Count a trial that this call finished."""
        self.done += 1
        self.played += episodes
        self.left -= episodes

    def add_failed(self, id: str, error: str) -> None:
        """Count a failed trial, and hold its error if there is room."""
        self.failed += 1
        if len(self.errors) < RECENT:
            self.errors.append((id, error))


Progress: TypeAlias = Callable[[Count], object]


@contextmanager
def stoppable(count: Count, saved_in: Path) -> Iterator[None]:
    """Turn Ctrl-C into StudyStopped."""
    try:
        yield
    except KeyboardInterrupt:
        words = f"Stopped after {count.done} of {count.total} trials, saved in '{saved_in}'. {AGAIN}"
        raise StudyStopped(words) from None


def outcomes(runner: Runner[J], jobs: deque[J], count: Count, saved_in: Path) -> Iterator[tuple[J, Outcome]]:
    """The jobs that were done or failed; raises RunError for one that could not be played."""
    with closing(runner.play(jobs)) as found:  # an error ends the jobs at once
        for job, outcome in found:
            if outcome.status == "stopped":  # only the user stops a trial
                raise KeyboardInterrupt
            if outcome.status == "lost":
                words = f"So far {count.done} of {count.total} trials are done, saved in '{saved_in}'."
                raise RunError(f"{outcome.sentence} {words} {AGAIN}")
            yield job, outcome


class InProcess:
    """The runner without other processes: one job after the other."""

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in the order of the jobs."""
        while jobs:
            job = jobs.popleft()
            yield job, job.play(lambda: False)

    def close(self) -> None:
        """Nothing to close."""


MOST_DEATHS = 5  # of the process of one job, after which the job fails


class Local(Generic[J]):
    """A pool of processes, ended by `close`.

    limit: seconds that a job may take; one that takes longer is killed, and fails.
    deaths: number of deaths of its process after which a job fails; before, it is retried (default: MOST_DEATHS).
    """

    def __init__(self, processes: int, limit: float | None = None, deaths: int | None = None) -> None:
        self._limit, self._deaths = limit, MOST_DEATHS if deaths is None else deaths
        self._workers: Workers[J, Outcome] = Workers(processes, _work, limit=limit, overdue=self._overdue)

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in order of completion; a job whose process died is retried."""
        deaths: Counter[str] = Counter()
        for job, outcome in self._workers.do(jobs):
            if outcome is None:
                deaths[job.id] += 1
                if deaths[job.id] < self._deaths:
                    jobs.append(job)
                    continue
                why = f"The process that played the trial was killed {self._deaths} times, perhaps for memory."
                outcome = job.failed(RunError(why))
            elif outcome.status == "busy":
                jobs.append(job)
                continue
            yield job, outcome

    def close(self) -> None:
        """Save the running jobs, and end the processes."""
        self._workers.__exit__()

    def _overdue(self, job: J) -> Outcome:
        why = f"The trial took longer than its time limit of {self._limit:g} seconds, and was ended."
        return job.failed(RunError(f"{why} {job.again}"))


def _work(job: J) -> Outcome:
    return Outcome("stopped") if stopping() else job.play(stopping)


W = TypeVar("W")
R = TypeVar("R")
GRACE = 0.4  # seconds in which a worker must acknowledge the request to end
PATIENCE = 10.0  # seconds that it may take to save its job after that
FAILURES = 6  # processes in a row that may die before they are ready


class Workers(Generic[W, R]):
    """A pool of processes as a context manager; leaving it ends their jobs.

    limit, overdue: seconds that a job may take; one that takes longer is killed with its process, and its result is
      `overdue(job)`.
    """

    def __init__(
        self,
        processes: int,
        work: Callable[[W], R],
        *,
        limit: float | None = None,
        overdue: Callable[[W], R] | None = None,
    ) -> None:
        self.size, self._work = processes, work
        self._limit, self._overdue = limit, overdue
        self._workers: list[_Worker[W, R]] = []
        self._failures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Workers that acknowledge the request to end (see `stopping`) may save; the others are killed."""
        try:
            began = time.monotonic()
            for worker in self._workers:
                worker.send(None)
            while left := [worker for worker in self._workers if worker.may_still_end(time.monotonic() - began)]:
                wait_for([worker.child.process.sentinel for worker in left], SLICE / 10)
        finally:  # also at a second Ctrl-C
            for worker in self._workers:
                worker.child.kill()
            self._workers.clear()

    def do(self, jobs: deque[W]) -> Iterator[tuple[W, R | None]]:
        """Results in order of completion, None if the process died. Jobs may be added meanwhile.

        Raises RunError with the message of what a job raised.
        """
        while jobs or any(worker.job for worker in self._workers):
            self._start(len(jobs))
            for worker in self._workers:
                if jobs and worker.ready:
                    worker.give(jobs.popleft())
            wait_for([worker.child.pipe for worker in self._workers], SLICE)
            for worker in list(self._workers):
                job = worker.job
                alive = worker.child.process.is_alive()  # checked first: a result sent before its death is read below
                answer = worker.receive()
                if worker.ready:
                    self._failures = 0
                if job and answer:
                    yield job[0], answer[0]
                elif not alive or worker.gone:
                    self._end(worker)
                    if job:
                        yield job[0], None
                elif job and self._limit is not None and worker.seconds > self._limit and self._overdue is not None:
                    self._end(worker)
                    yield job[0], self._overdue(job[0])

    def _start(self, n_jobs: int) -> None:
        idle = sum(not worker.job for worker in self._workers)
        for _ in range(min(self.size - len(self._workers), n_jobs - idle)):
            if self._failures >= FAILURES:
                raise RunError(f"{FAILURES} processes in a row died before they could be given a job.")
            self._workers.append(_Worker(self._work))

    def _end(self, worker: _Worker[W, R]) -> None:
        self._failures += not (worker.job or worker.ready)
        self._workers.remove(worker)
        worker.child.kill()


class _Worker(Generic[W, R]):
    """One process and its job."""

    def __init__(self, work: Callable[[W], R]) -> None:
        self.child = Child(_serve, work)
        self.job: tuple[W] | None = None
        self.ready = False  # for a job: it has started, and has none
        self.acknowledged = False  # the request to end
        self.gone = False
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Since it was given its job."""
        return time.monotonic() - self._began

    def give(self, job: W) -> None:
        self.job, self.ready, self._began = (job,), False, time.monotonic()
        self.send(self.job)

    def send(self, message: tuple[W] | None) -> None:
        with suppress(OSError):  # it has died, which `receive` finds out
            self.child.pipe.send(message)

    def receive(self) -> tuple[R] | None:
        """The result of its job, None if it has none yet."""
        try:
            while self.child.pipe.poll():
                kind, value = self.child.pipe.recv()
                if kind == "ready":
                    self.ready = True
                elif kind == "ending":
                    self.acknowledged = True
                else:
                    self.job = None
                    if kind == "raised":
                        raise RunError(value)
                    return (value,)
        except (EOFError, ConnectionError):
            self.gone = True
        return None

    def may_still_end(self, seconds: float) -> bool:
        """Whether it is alive and has time left, so many seconds after the request to end."""
        with suppress(Exception):  # results and errors no longer matter
            self.receive()
        return self.child.process.is_alive() and seconds < (PATIENCE if self.acknowledged else GRACE)


_pipe: Connection | None = None  # in a worker: to the process that sends jobs
_acknowledged = False  # in a worker: whether it has acknowledged the request to end


def stopping() -> bool:
    """Whether this process is a worker that was requested to end its job."""
    global _acknowledged
    if _pipe is None or not _pipe.poll():  # during a job, the only message is the request to end
        return False
    if not _acknowledged:
        _acknowledged = True
        _send("ending", None)
    return True


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    global _pipe
    _pipe = pipe
    _send("ready", None)
    with suppress(EOFError, ConnectionError):
        while (job := pipe.recv()) is not None:
            try:
                kind, value = "done", work(job[0])
            except BaseException as error:
                kind, value = "raised", str(error) if isinstance(error, ResetFreeError) else one_line(error)
            _send(kind, value)
            _send("ready", None)


def _send(kind: str, value: Any) -> None:
    assert _pipe is not None
    with suppress(ConnectionError):
        _pipe.send((kind, value))
