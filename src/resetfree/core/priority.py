"""Scheduling classes: the process that acts takes the highest that it may, the one that learns the lowest.

Which ones a user may take is the system's to say (`ulimit -r` and `ulimit -e` on Linux), so both functions return what
they got, in words. Where a system has no such classes they change nothing, and say so.

Linux may also share the processors among sessions (autogroups), each of them counting the same, whatever the classes of
its processes: a learner in a session of its own would then take half of what the process that acts wants. So the lowest
place is taken for the session too, if it belongs to the caller.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

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
    """Give the caller's session the least weight among sessions, if the caller leads it; a shell's is left alone."""
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
