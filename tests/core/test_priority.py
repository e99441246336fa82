"""A process takes the class that it may, and says which; in processes of their own, as nothing takes it back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, sys
from resetfree.core import system as priority
if {user} is not None:
    os.setuid({user})
got = priority.{function}()
real = {{getattr(os, "SCHED_FIFO", -1): "real-time", getattr(os, "SCHED_IDLE", -1): "idle"}}
kind = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK if sys.platform == "linux" else -2
nice = os.getpriority(os.PRIO_PROCESS, 0)
child = os.popen("awk '{{print $41}}' /proc/self/stat").read().strip()  # the policy of a child, by its number
print(got.name, real.get(kind, "nice " + str(nice) if nice else "usual"), child, got.words, sep="|")
"""


def outcome(function: str, user: int | None = None) -> tuple[str, str, str, str]:
    out = subprocess.run(
        [sys.executable, "-c", CODE.format(function=function, user=user)], capture_output=True, text=True, check=True
    )
    name, real, child, words = out.stdout.strip().split("|")
    return name, real, child, words


@pytest.mark.skipif(sys.platform == "win32", reason="no scheduling classes")
@pytest.mark.parametrize("function", ["take_highest", "take_lowest"])
def test_what_it_says_is_what_it_got(function: str) -> None:
    name, real, _, words = outcome(function)
    assert name in (real, "usual")
    assert words.startswith("It runs ")
    assert words.endswith(".")
    if function == "take_lowest":
        assert name in ("idle", "nice 19")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may become another user")
def test_without_privileges_it_stays_what_it_was_and_says_so() -> None:
    name, real, _, words = outcome("take_highest", user=65534)
    if name == "usual":  # as most systems have it
        assert not real.startswith("real-time")
        assert "neither the real-time class nor a lower nice is permitted" in words
    else:
        assert name == real
    assert outcome("take_lowest", user=65534)[0] in ("idle", "nice 19")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no real-time class here")
def test_a_child_does_not_inherit_the_real_time_class() -> None:
    name, _, child, _ = outcome("take_highest")
    assert child == str(os.SCHED_OTHER), name


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions do not share the processors here")
@pytest.mark.parametrize(("leads", "nice"), [(True, 19), (False, 0)])
def test_the_lowest_place_is_that_of_the_session_too_if_it_is_its_own(leads: bool, nice: int) -> None:
    code = """
import os, subprocess, sys
from resetfree.core import system as priority
priority.take_lowest()
print(open("/proc/self/autogroup").read())
"""
    run = [sys.executable, "-c", code]
    if not leads:  # a child of the session's leader, as a program of a shell is
        run = [sys.executable, "-c", f"import subprocess; subprocess.run({run!r}, check=True)"]
    out = subprocess.run(run, capture_output=True, text=True, check=True, start_new_session=True)
    assert out.stdout.split()[-2:] == ["nice", str(nice)]
