"""What differs between systems: groups of processes, blocked signals, scheduling classes and flags of files.

Everything here does the most that the system can; docs/start.md lists what is less outside POSIX. The process that
acts takes the highest scheduling class that it may, the one that learns the lowest. Which ones a user may take is the
system's to say (`ulimit -r` and `ulimit -e` on Linux), so the functions return what they got, in words.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple


class Closes(AbstractContextManager[Any], ABC):
    """A context manager that is closed at the end of the block, whatever happens in it."""

    @abstractmethod
    def close(self) -> None:
        """Release resources."""

    def __exit__(self, *_: object) -> None:
        self.close()


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
SIGNALS = (signal.SIGINT, signal.SIGTERM)
GROUPS = hasattr(os, "killpg") and hasattr(os, "setpgid")
BLOCKS = hasattr(signal, "pthread_sigmask")
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # do not open a symbolic link
NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # do not wait for the other end of a pipe


def lead_group() -> None:
    """Make this process the leader of a group: what it starts is killed with it."""
    if GROUPS:
        os.setpgid(0, 0)


def kill_group(pid: int) -> None:
    """Kill a process and those that it started, if it leads a group; without groups, the caller kills it alone."""
    if GROUPS:
        with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or is gone
            os.killpg(pid, signal.SIGKILL)


def end_at_once() -> None:
    """End this process, with its group if there are groups."""
    kill_group(0)
    os._exit(1)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Block signals while a process is started; it inherits the mask, and unblocks them itself."""
    if not BLOCKS:
        yield
        return
    resource_tracker.ensure_running()  # before they are blocked: it changes the mask itself
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def block() -> None:
    """Leave signals to the other threads of this process."""
    if BLOCKS:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def unblock() -> None:
    """Let signals through that were blocked by `undisturbed`."""
    if BLOCKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def send_to_self(number: signal.Signals) -> None:
    """Send this process a signal; from any thread, it wakes the main one where the system can do that."""
    if os.name == "posix":
        os.kill(os.getpid(), number)
    else:  # there, os.kill ends the process
        signal.raise_signal(number)


def is_alive(pid: int) -> bool:
    """Whether there is such a process; where that cannot be found out without a signal, it is assumed."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def owned(about: os.stat_result) -> bool:
    """Whether a file is this user's, where files have owners."""
    return not hasattr(os, "getuid") or about.st_uid == os.getuid()


class Activity(NamedTuple):
    """What the threads of a process do."""

    states: frozenset[str]  # as Linux names them: R, S, D, T, t, ..
    seconds: float  # processor time that they have used

    @property
    def is_stopped(self) -> bool:
        """Whether it was stopped by a signal."""
        return "T" in self.states

    def could_use(self, before: Activity, passed: float) -> float:
        """Seconds of those that passed since an earlier look in which it could have gone on."""
        if self.is_stopped:
            return passed
        if self.states & {"D", "t"}:  # it waits for the disk, or a debugger has it
            return 0.0
        if "R" in self.states:  # it wants a processor, which others may have
            return min(max(self.seconds - before.seconds, 0.0), passed)
        return passed


def activity(pid: int) -> Activity | None:
    """What a process does, but for the calling thread; None where that cannot be known."""
    states, ticks, this = set(), 0, str(threading.get_native_id())
    try:
        for thread in os.scandir(f"/proc/{pid}/task"):
            with suppress(OSError):  # a thread that has just ended
                fields = Path(thread, "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
                states |= {fields[0]} - ({"R"} if thread.name == this else set())
    except OSError:
        return None
    return Activity(frozenset(states), ticks / os.sysconf("SC_CLK_TCK")) if states else None


REAL_TIME = 10  # priority in the real-time class: below what the kernel itself needs
HIGHEST, LOWEST = -20, 19  # nice values


class Scheduling(NamedTuple):
    """What a process got."""

    name: str  # "real-time", "nice -20" .. "nice 19", "idle" or "usual"
    words: str  # one sentence


def take_highest() -> Scheduling:
    """Give the calling thread the highest class that it may take: real-time, else a negative nice value, else its own.

    Processes that it starts later do not inherit the real-time class.
    """
    if sys.platform == "linux":
        try:
            policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(REAL_TIME))
            return Scheduling("real-time", f"It runs in the real-time class SCHED_FIFO, priority {REAL_TIME}.")
        except OSError:  # not permitted, here or in this container
            pass
    for nice in range(HIGHEST, 0):
        if _niced(nice):
            return Scheduling(f"nice {nice}", f"It runs at nice {nice}; the real-time class is not permitted.")
    return Scheduling("usual", "It runs in the usual class: neither the real-time class nor a lower nice is permitted.")


def take_lowest() -> Scheduling:
    """Give the calling process the lowest class: it runs when nothing else wants to, else at nice 19."""
    _niced(LOWEST)  # within the idle class too, and for threads of libraries that are started later
    _lower_session()
    if sys.platform == "linux":
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return Scheduling("idle", "It runs in the class SCHED_IDLE: only when nothing else wants the processor.")
        except OSError:
            pass
    return take_low()


def _lower_session() -> None:
    """Give the caller's session the least weight among sessions, if the caller leads it; a shell's is left alone.

    Linux may share the processors among sessions (autogroups), each of them counting the same, whatever the classes of
    its processes: a learner in a session of its own would then take half of what the process that acts wants.
    """
    group = Path("/proc/self/autogroup")
    if not group.exists() or os.getsid(0) != os.getpid():
        return
    for _ in range(3):
        try:
            group.write_text(str(LOWEST))
        except BlockingIOError:  # the kernel takes such a wish ten times a second at most
            time.sleep(0.1)
        except OSError:  # not permitted in this container
            return
        else:
            return


def take_low() -> Scheduling:
    """Give the calling process the last place among those of the usual class: for short work that others wait for."""
    if _niced(LOWEST):
        return Scheduling(f"nice {LOWEST}", f"It runs at nice {LOWEST}.")
    return Scheduling("usual", "It runs in the usual class: this system has no lower one.")


def _niced(nice: int) -> bool:
    """Whether the process runs at this nice value now."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except (AttributeError, OSError):  # a system without them, or not permitted
        return False
    return True


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
