"""Ctrl-C and SIGTERM: handled within a moment wherever the program waits, and never in the middle of a round.

Python runs the handler of a signal between two of its own instructions. A signal that arrives after the last of them
and before the system call that waits, or in another thread, does not interrupt the wait: its handler runs when the wait
ends by itself. So every wait is split into short slices, and pending handlers run between two of them.

Python also drops what a handler raises in a finaliser or in the callback of a weak reference. A command then sends
itself the same signal once more a moment later. And a library that is interrupted may raise something else while it
cleans up: `interrupted` tells. Where a library goes on after it dropped an interrupt, and must not, `deferred` has
signals wait.
"""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeAlias, TypeVar

from resetfree.core.system import block, send_to_self

T = TypeVar("T")
Handler: TypeAlias = Callable[[int, FrameType | None], Any]
SLICE = 0.2  # seconds: the longest single wait
AGAIN = 0.02  # seconds until a dropped signal is sent again: the code that dropped it has returned by then
ANSWER = 0.5  # seconds after which a stop that has not come about is answered
STOPPING = "Stopping after this episode; Ctrl-C again stops at once."
usual: Handler = signal.default_int_handler


def wait(once: Callable[[float], T], seconds: float | None = None) -> T:
    """Wait in slices until once(seconds of the slice) is true; after `seconds` (None: never) return its last result.

    >>> wait(threading.Event().wait, 0.01)
    False
    """
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left = SLICE if end is None else min(SLICE, max(end - time.monotonic(), 0.0))
        found = once(left)
        if found or (end is not None and time.monotonic() >= end):
            return found


def interrupted(error: BaseException) -> bool:
    """Whether an exception is, or was raised while cleaning up after, Ctrl-C or SIGTERM.

    An interrupt may land within a library that then cannot end what it began, and raises something else.

    >>> try:
    ...     try:
    ...         raise KeyboardInterrupt
    ...     finally:
    ...         raise ValueError("a stream in the middle of a write cannot be closed")
    ... except ValueError as error:
    ...     interrupted(error), interrupted(ValueError())
    (True, False)
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


@contextmanager
def deferred() -> Iterator[None]:
    """Have Ctrl-C and SIGTERM wait until the end, if their handlers are Python's: the main thread alone runs those."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: dict[int, None] = {}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    waiting = [number for number, handler in handlers.items() if callable(handler)]
    for number in waiting:
        signal.signal(number, lambda number, frame: came.setdefault(number))
    try:
        yield
    finally:
        for number in waiting:
            signal.signal(number, handlers[number])
        for one in came:
            signal.raise_signal(one)


class Terminated:
    """The handler of SIGTERM in a command: does the same as Ctrl-C; `received` says whether the signal arrived."""

    def __init__(self) -> None:
        self.received = False
        self.then: Handler = usual

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note the signal and pass it on."""
        self.received = True
        self.then(number, frame)


@contextmanager
def terminable() -> Iterator[Terminated]:
    """Let SIGTERM interrupt as Ctrl-C does, unless it already has a handler (nohup, a supervisor, a host program)."""
    handler = Terminated()
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield handler
        return
    signal.signal(signal.SIGTERM, handler)
    try:
        with _resending(handler):
            yield handler
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _resending(terminated: Terminated) -> Iterator[None]:
    """Send again an interrupt that was raised where Python only prints exceptions."""
    before = sys.unraisablehook

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        number = signal.SIGTERM if terminated.received else signal.SIGINT
        # Not threading.Thread: the interrupted code may hold the lock that starting one takes.
        _thread.start_new_thread(_send, (number,))

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _send(number: signal.Signals) -> None:
    time.sleep(AGAIN)
    send_to_self(number)


class Stop:
    """Whether a stop was requested (`requested`), and whether it may interrupt at once (`now`)."""

    def __init__(self) -> None:
        self.requested, self.now = False, False

    def __bool__(self) -> bool:
        return self.requested

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The handler: the first signal is noted, a second one interrupts."""
        if self.requested or self.now:
            usual(number, frame)
        self.requested = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Let the first signal interrupt, as while an operator is waited for."""
        self.now = True
        try:
            if self.requested:  # just before
                raise KeyboardInterrupt
            yield
        finally:
            self.now = False


def say_stopping() -> None:
    """Answer the first Ctrl-C on standard error."""
    with suppress(OSError):  # it may be closed
        os.write(2, f"{STOPPING}\n".encode())


@contextmanager
def _answered(stop: Stop, numbers: Collection[int], say: Callable[[], object]) -> Iterator[None]:
    """Have a thread call `say` half a second after the first signal of `numbers`, unless all has ended by then.

    Python runs handlers between two of its own instructions, and compiled code may take minutes. The number of a signal
    is written to a socket without delay, and a thread that waits for it needs nothing of the main thread.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    ended = threading.Event()

    def listen() -> None:
        block()  # signals are for the main thread, which may have them wait
        while found := reader.recv(64):
            if stop.now or not any(number in numbers for number in found):
                continue
            if not ended.wait(ANSWER):
                say()
            return

    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if before >= 0:  # set by other code, such as an event loop: leave it, and write nothing
        signal.set_wakeup_fd(before)
        numbers = ()
    thread = threading.Thread(target=listen, name="signals", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if before < 0:
            signal.set_wakeup_fd(-1)
        ended.set()
        writer.close()
        thread.join()
        reader.close()


@contextmanager
def held(say: Callable[[], object] | None = None) -> Iterator[Stop]:
    """A flag that the first Ctrl-C or SIGTERM makes true; a second one interrupts at once.

    say: called half a second after the first one, by a thread: a round may take long, and its compiled code longer.

    A round must not be interrupted: players change their state in place, and half a round cannot be resumed.
    Where Ctrl-C is ignored (a shell in the background) or has a handler, nothing is changed; so with SIGTERM. A process
    of a pool leaves SIGTERM alone: its parent ends it so.
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
    alone = terminate is signal.SIG_DFL and multiprocessing.parent_process() is None
    if alone:
        signal.signal(signal.SIGTERM, stop)
    numbers = [signal.SIGINT] if interrupt is usual else []
    numbers += [signal.SIGTERM] if alone or isinstance(terminate, Terminated) else []
    try:
        with _answered(stop, numbers, say or say_stopping):
            yield stop
    finally:
        if alone:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if isinstance(terminate, Terminated):
            terminate.then = usual
        if interrupt is usual:
            signal.signal(signal.SIGINT, usual)
