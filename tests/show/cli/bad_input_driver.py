"""Plays many command lines or Python calls, each in a fork with bounds on memory and time; JSON lines in and out.

In:  {"words": [...]} for the command line, stopped as by Ctrl-C when the time is over;
     {"call": "f(x={})", "values": [...]} for Python, all as source; "files": {name: text} that lie where it is run.
Out: {"status": ..., "err": ...}. A negative status is a signal: -14 it could not be stopped, -9 or -11 worse.
     Of Python calls, `err` has one line for each that raised what is none of ours.
"""

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import matplotlib.pyplot  # noqa: F401 (drawing commands would load it in every fork)
import numpy as np

import resetfree as rf
from resetfree.show.cli import main

GRACE = 600  # seconds in which what was stopped must have ended


def call(source: str, values: list[str]) -> int:
    """How many calls raised what is none of ours."""
    wrong = 0
    for value in values:
        try:
            exec(source.format(value), {"rf": rf, "np": np, "Path": Path})
        except rf.ResetFreeError as error:
            if "\n" in str(error) or not str(error):
                wrong += 1
                print(f"{value}: not a sentence: {error}", file=sys.stderr)
        except ZeroDivisionError:
            pass  # what a function of the user raises is the user's
        except BaseException as error:
            wrong += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{value}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})", file=sys.stderr)
    return wrong


def play(case: dict[str, Any]) -> int:
    """One case, here."""
    return main(case["words"]) if "words" in case else call(case["call"], case["values"])


def _stop(number: int, frame: object) -> None:
    """First as Ctrl-C, then in a way that cannot be ignored."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(GRACE)
    signal.raise_signal(signal.SIGINT)


def bounded(case: dict[str, Any], memory: int, seconds: float, folder: str) -> tuple[int, str]:
    """Exit status and standard error of one case in a process of its own."""
    said = Path(folder) / "said"
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(null, 1)
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
            os.mkdir(f"{folder}/here")
            os.chdir(f"{folder}/here")
            for name, text in case.get("files", {}).items():
                Path(name).write_text(text)
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            if "words" in case:
                signal.signal(signal.SIGALRM, _stop)
                signal.setitimer(signal.ITIMER_REAL, seconds)
            else:
                signal.alarm(GRACE)
            status = play(case)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status, said.read_text(errors="replace")


def warm_up() -> None:
    """Load once what every fork would load again: compiled kernels, players, environments."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        out = f"{folder}/a.rfrun"
        for words in (
            ["run", "grid-v0", "--episodes", "3", "--out", out],
            ["run", "gym:FrozenLake-v1", "--episodes", "3", "--out", f"{folder}/b"],
            ["run", "gym:CartPole-v1", "--episodes", "3", "--out", f"{folder}/c"],
            ["run", "continuous-linear-v0", "--episodes", "3", "--out", f"{folder}/d"],
            ["solve", "grid-v0", "--picture", f"{folder}/a.png"],
            ["check", "grid-v0", "--theorems"],
            ["certify", out],
            ["evaluate", out],
            ["export", out, "-o", f"{folder}/a.npz"],
            ["report", out, "-o", f"{folder}/a.html"],
        ):
            assert main(words) == 0, words


def drive(memory: int, seconds: float) -> None:
    """All cases from standard input."""
    warm_up()
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            status, said = bounded(json.loads(line), memory, seconds, folder)
        print(json.dumps({"status": status, "err": said}), flush=True)


if __name__ == "__main__":
    drive(int(sys.argv[1]), float(sys.argv[2]))
