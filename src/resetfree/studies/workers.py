"""A pool of local processes, one job at a time each: a killed one is replaced without effect on the others.

Each has its own pipe and, where there are such, its own process group. No lock is shared, so that a killed process
cannot block another, and killing one also kills the processes that it started.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, Self, TypeVar

from resetfree.core.children import Child
from resetfree.core.errors import ResetFreeError, RunError, one_line
from resetfree.core.interrupts import SLICE

J = TypeVar("J")
R = TypeVar("R")
GRACE = 0.4  # seconds in which a worker must acknowledge the request to end
PATIENCE = 10.0  # seconds that it may take to save its job after that
FAILURES = 6  # processes in a row that may die before they are ready


class Workers(Generic[J, R]):
    """A pool of processes as a context manager; leaving it ends their jobs.

    limit, overdue: seconds that a job may take; one that takes longer is killed with its process, and its result is
      `overdue(job)`.
    """

    def __init__(
        self,
        processes: int,
        work: Callable[[J], R],
        *,
        limit: float | None = None,
        overdue: Callable[[J], R] | None = None,
    ) -> None:
        self.size, self._work = processes, work
        self._limit, self._overdue = limit, overdue
        self._workers: list[_Worker[J, R]] = []
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

    def do(self, jobs: deque[J]) -> Iterator[tuple[J, R | None]]:
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

    def _end(self, worker: _Worker[J, R]) -> None:
        self._failures += not (worker.job or worker.ready)
        self._workers.remove(worker)
        worker.child.kill()


class _Worker(Generic[J, R]):
    """One process and its job."""

    def __init__(self, work: Callable[[J], R]) -> None:
        self.child = Child(_serve, work)
        self.job: tuple[J] | None = None
        self.ready = False  # for a job: it has started, and has none
        self.acknowledged = False  # the request to end
        self.gone = False
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Since it was given its job."""
        return time.monotonic() - self._began

    def give(self, job: J) -> None:
        self.job, self.ready, self._began = (job,), False, time.monotonic()
        self.send(self.job)

    def send(self, message: tuple[J] | None) -> None:
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
