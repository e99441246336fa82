"""What differs between systems: groups of processes, blocked signals and flags of files, where there are such.

Everything here does the most that the system can; docs/platforms.md lists what is less outside POSIX.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

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


def flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, where a folder can be opened: a power cut then takes none back."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
