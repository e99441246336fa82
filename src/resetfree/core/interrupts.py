"""Ctrl-C and SIGTERM: heard within a moment wherever the program waits, and never in the middle of a round.

Python runs the handler of a signal between two of its own instructions. A signal that lands after the last of them and
before the system call that waits, or in another thread, is noted and wakes nobody: it would be heard when the wait ends
by itself. So no wait of ours is long. It is made of slices, and between two of them every signal is heard.

Nor may a handler raise where Python drops what is raised: a signal that lands in a finaliser or in the callback of a
weak reference ends nothing. A command sends itself the same signal once more a moment later.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], Any]
SLICE = 0.2  # seconds: the longest that anything is waited for at once
AGAIN = 0.02  # seconds until a signal that was dropped is sent again: what dropped it has returned by then
usual: Handler = signal.default_int_handler


def wait(once: Callable[[float], T], seconds: float | None = None) -> T:
    """Wait in slices, for ever or so many seconds: until `once`, told how long it may wait, returns something true.

    >>> wait(threading.Event().wait, 0.01)
    False
    """
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = SLICE if end is None else min(SLICE, max(end - time.monotonic(), 0.0))
        found = once(left)
        if found or (end is not None and time.monotonic() >= end):
            return found


class Terminated:
    """What SIGTERM does in a command: the same as Ctrl-C; `asked` remembers that it came."""

    def __init__(self) -> None:
        self.asked = False
        self.then: Handler = usual

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        self.asked = True
        self.then(number, frame)


@contextmanager
def terminable() -> Iterator[Terminated]:
    """Let SIGTERM interrupt as Ctrl-C does, unless somebody has said what it shall do (nohup, a supervisor, a host)."""
    asked = Terminated()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield asked
        return
    signal.signal(signal.SIGTERM, asked)
    try:
        with _sent_again(asked):
            yield asked
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _sent_again(terminated: Terminated) -> Iterator[None]:
    """Let no interrupt be lost that was raised where Python only prints what is raised."""
    before = sys.unraisablehook

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        number = signal.SIGTERM if terminated.asked else signal.SIGINT
        # No threading.Thread: whoever was interrupted may hold the lock that starting one takes.
        _thread.start_new_thread(_send, (number,))

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _send(number: signal.Signals) -> None:
    time.sleep(AGAIN)
    os.kill(os.getpid(), number)


class Stop:
    """Whether the user wants to stop, and whether that may happen in the middle of what is going on."""

    def __init__(self) -> None:
        self.asked, self.now = False, False

    def __bool__(self) -> bool:
        return self.asked

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler: the first signal is noted, a second one interrupts."""
        if self.asked or self.now:
            usual(number, frame)
        self.asked = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While somebody is waited for: Ctrl-C need not wait as well."""
        self.now = True
        try:
            if self.asked:  # it came just before
                raise KeyboardInterrupt
            yield
        finally:
            self.now = False


@contextmanager
def held() -> Iterator[Stop]:
    """A flag that the first Ctrl-C makes true; a second one interrupts at once. SIGTERM too, where it is `terminable`.

    A round must not be cut in two: players change their state in place, and half a round is no state to go on from.
    Who ignores Ctrl-C (a shell in the background) or handles it is left alone.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    interrupt, terminate = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    if interrupt is usual:
        signal.signal(signal.SIGINT, stop)
    if isinstance(terminate, Terminated):
        terminate.then = stop
    try:
        yield stop
    finally:
        if isinstance(terminate, Terminated):
            terminate.then = usual
        if interrupt is usual:
            signal.signal(signal.SIGINT, usual)
