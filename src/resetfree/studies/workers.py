"""Local processes that do one job at a time each: one that is killed is replaced, and the others do not notice.

Each has a pipe of its own and a process group of its own. No lock is shared, so a process that is killed holds nothing
that another waits for, and killing one takes along whatever it started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, Self, TypeVar

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.interrupts import SLICE
from resetfree.core.naming import one_line

J = TypeVar("J")
R = TypeVar("R")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
GRACE = 0.4  # seconds in which a job must show that it heard that it shall end
PATIENCE = 10.0  # seconds that one which has heard may take to save what it has
SIGNALS = (signal.SIGINT, signal.SIGTERM)
FAILURES = 6  # processes in a row that may die before they are ready


class Child:
    """A process of ours that calls `target(pipe, *args)`, and this end of the pipe."""

    def __init__(self, target: Callable[..., object], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")  # no copy of this process's locks and threads
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_lead, args=(target, theirs, *args))
        resource_tracker.ensure_running()  # which sets the mask of signals as it likes
        with _undisturbed(), _one_thread_each():
            self.process.start()
        theirs.close()

    def kill(self) -> None:
        """End it and what it started, at once."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or is gone
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Workers(Generic[J, R]):
    """So many processes that live as long as this context; leaving it ends what they are doing.

    limit, overdue: seconds that a job may take; one that takes longer is killed with its process, and `overdue(job)` is
      its result.
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
        self._staff: list[_Worker[J, R]] = []
        self._failures = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Who hears that it shall end (see `stopping`) may save; the others are killed."""
        try:
            began = time.monotonic()
            for worker in self._staff:
                worker.tell(None)
            while left := [worker for worker in self._staff if worker.is_ending_within(time.monotonic() - began)]:
                wait_for([worker.child.process.sentinel for worker in left], SLICE / 10)
        finally:  # also at a second Ctrl-C
            for worker in self._staff:
                worker.child.kill()
            self._staff.clear()

    def do(self, jobs: deque[J]) -> Iterator[tuple[J, R | None]]:
        """Results as they come, in any order; None where the process died. More jobs may be put in meanwhile.

        What a job raises, RunError says here.
        """
        while jobs or any(worker.job for worker in self._staff):
            self._hire(len(jobs))
            for worker in self._staff:
                if jobs and worker.ready:
                    worker.give(jobs.popleft())
            wait_for([worker.child.pipe for worker in self._staff], SLICE)
            for worker in list(self._staff):
                job = worker.job
                alive = worker.child.process.is_alive()  # asked first: what it said before it died is read below
                answer = worker.listen()
                if worker.ready:
                    self._failures = 0
                if job and answer:
                    yield job[0], answer[0]
                elif not alive or worker.gone:
                    self._dismiss(worker)
                    if job:
                        yield job[0], None
                elif job and self._limit is not None and worker.seconds > self._limit and self._overdue is not None:
                    self._dismiss(worker)
                    yield job[0], self._overdue(job[0])

    def _hire(self, n_jobs: int) -> None:
        idle = sum(not worker.job for worker in self._staff)
        for _ in range(min(self.size - len(self._staff), n_jobs - idle)):
            if self._failures >= FAILURES:
                raise RunError(f"{FAILURES} processes in a row died before they could be given anything to do.")
            self._staff.append(_Worker(self._work))

    def _dismiss(self, worker: _Worker[J, R]) -> None:
        self._failures += not (worker.job or worker.ready)
        self._staff.remove(worker)
        worker.child.kill()


class _Worker(Generic[J, R]):
    """One process, and what it is doing."""

    def __init__(self, work: Callable[[J], R]) -> None:
        self.child = Child(_serve, work)
        self.job: tuple[J] | None = None
        self.ready = False  # to be given a job: it has started, and has none
        self.heard = False  # that it shall end
        self.gone = False
        self._began = 0.0

    @property
    def seconds(self) -> float:
        """Since it was given its job."""
        return time.monotonic() - self._began

    def give(self, job: J) -> None:
        self.job, self.ready, self._began = (job,), False, time.monotonic()
        self.tell(self.job)

    def tell(self, message: tuple[J] | None) -> None:
        with suppress(OSError):  # it has died, which is found out where it is listened to
            self.child.pipe.send(message)

    def listen(self) -> tuple[R] | None:
        """Its result, if it has come."""
        try:
            while self.child.pipe.poll():
                kind, value = self.child.pipe.recv()
                if kind == "ready":
                    self.ready = True
                elif kind == "ending":
                    self.heard = True
                else:
                    self.job = None
                    if kind == "raised":
                        raise RunError(value)
                    return (value,)
        except (EOFError, ConnectionError):
            self.gone = True
        return None

    def is_ending_within(self, seconds: float) -> bool:
        """Whether it is still at it, so long after it was told to end, and may be."""
        with suppress(Exception):  # what it raises or returns now is of no interest to anybody
            self.listen()
        return self.child.process.is_alive() and seconds < (PATIENCE if self.heard else GRACE)


_pipe: Connection | None = None  # in a worker: to the process that gives it jobs
_told = False  # in a worker: whether it has said that it heard


def stopping() -> bool:
    """Whether this process is a worker that shall end what it is doing."""
    global _told
    if _pipe is None or not _pipe.poll():  # during a job nothing comes but the word to end
        return False
    if not _told:
        _told = True
        _say("ending", None)
    return True


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    global _pipe
    _pipe = pipe
    _say("ready", None)
    with suppress(EOFError, ConnectionError):
        while (job := pipe.recv()) is not None:
            try:
                kind, value = "done", work(job[0])
            except BaseException as error:
                kind, value = "raised", str(error) if isinstance(error, ResetFreeError) else one_line(error)
            _say(kind, value)
            _say("ready", None)


def _say(kind: str, value: Any) -> None:
    assert _pipe is not None
    with suppress(ConnectionError):
        _pipe.send((kind, value))


def _lead(target: Callable[..., object], pipe: Connection, *args: Any) -> None:
    """The first function of a new process."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    target(pipe, *args)


def _follow_parent() -> None:
    """End when the first process was killed: nobody would ever ask for what is done here."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.killpg(0, signal.SIGKILL)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """No signal in the middle of starting a process, which inherits that until it stands on its own."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
