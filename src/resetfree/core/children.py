"""A child process that ends with its parent: in a process group of its own, with one thread for numerical libraries."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from resetfree.core.system import end_at_once, kill_group, lead_group, unblock, undisturbed

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Child:
    """A child process that calls `target(pipe, *args)`, and our end of the pipe."""

    def __init__(self, target: Callable[..., object], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")  # no copy of this process's locks and threads
        with undisturbed(), _one_thread_each():
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_run_child, args=(target, theirs, *args))
            self.process.start()
            theirs.close()

    def kill(self) -> None:
        """Kill it and the processes that it started."""
        assert self.process.pid is not None
        kill_group(self.process.pid)
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _run_child(target: Callable[..., object], pipe: Connection, *args: Any) -> None:
    """The entry point of a new process."""
    lead_group()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    unblock()
    threading.Thread(target=_follow_parent, daemon=True).start()
    target(pipe, *args)


def _follow_parent() -> None:
    """End when the parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_at_once()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give new processes one thread each, since there are as many of them as cores."""
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
