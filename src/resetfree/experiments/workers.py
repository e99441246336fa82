"""Local processes that do one job at a time each: one that is killed is replaced, and the others do not notice."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Generic, Self, TypeVar

from resetfree import interrupts

J = TypeVar("J")
R = TypeVar("R")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Workers(Generic[J, R]):
    """So many processes that live as long as this context; leaving it tells them to end what they are doing."""

    def __init__(self, processes: int, work: Callable[[J], R]) -> None:
        self._work = work
        self._context = multiprocessing.get_context("spawn")  # no copy of this process's locks and threads
        self._stop = self._context.Event()
        # One pool per process: the death of a process breaks its pool, and with it all that the pool was given.
        self._pools: list[ProcessPoolExecutor | None] = [None] * processes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()  # jobs under way end at their next look at `stopping`
        for pool in self._pools:
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)

    def do(self, jobs: deque[J]) -> Iterator[tuple[J, R | None]]:
        """Results as they come, in any order; None where the process died. More jobs may be put in meanwhile."""
        running: dict[Future[R], tuple[int, J]] = {}
        free = list(range(len(self._pools)))
        while jobs or running:
            while jobs and free:
                place, job = free.pop(), jobs.popleft()
                running[self._submit(place, job)] = place, job
            for future in interrupts.wait(lambda left: wait(running, left, FIRST_COMPLETED).done):
                place, job = running.pop(future)
                try:
                    result: R | None = future.result()
                except BrokenProcessPool:
                    self._discard(place)
                    result = None
                free.append(place)
                yield job, result

    @property
    def size(self) -> int:
        """How many jobs are done at once."""
        return len(self._pools)

    def _submit(self, place: int, job: J) -> Future[R]:
        for _ in range(2):
            pool = self._pools[place]
            if pool is None:
                pool = self._pools[place] = ProcessPoolExecutor(1, self._context, _begin, (self._stop,))
            try:
                with _one_thread_each():
                    return pool.submit(self._work, job)
            except BrokenProcessPool:  # killed while it was idle
                self._discard(place)
        raise BrokenProcessPool("A process died twice before it was given anything to do.")

    def _discard(self, place: int) -> None:
        pool, self._pools[place] = self._pools[place], None
        if pool is not None:
            pool.shutdown(wait=True)


_stop: Any = None  # in a worker: the event that tells it to end


def stopping() -> bool:
    """Whether this process is a worker that shall end what it is doing."""
    return _stop is not None and bool(_stop.is_set())


def _begin(stop: Any) -> None:
    global _stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; the first one decides
    _stop = stop
    threading.Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End when the first process was killed: nobody would ever ask for what is done here."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
