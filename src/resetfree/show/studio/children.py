"""Commands in processes of their own: few at once, each with a time limit, and what kills one harms nobody else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from resetfree.core.errors import RunError


class ChildFailed(RunError):
    """A process did not do what it was for, through no fault of whoever asked; `status` is what HTTP calls that."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Children:
    """At most so many processes at once; all of them are gone when this is closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._live: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, command: Sequence[str], what: str, seconds: float) -> None:
        """Run a command to its end. Status 2 raises RunError with the sentence that it said; anything else ChildFailed.

        command: as for `subprocess`; it gets the environment, the import path and one thread for linear algebra.
        what: how a sentence names what the command is for.
        """
        with self._start(command, what) as child:
            try:
                _, said = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise ChildFailed(f"The {what} took longer than {seconds:g} seconds, and was given up.", 504) from error
            finally:
                with self._lock:
                    _kill(child)
                    self._live.discard(child)
        if child.returncode == 2:
            raise RunError(" ".join(said.split()) or f"The {what} cannot be made.")
        if self._closed and child.returncode:
            raise ChildFailed("The studio is ending.", 503)
        if child.returncode:
            raise ChildFailed(f"The {what} could not be made: its process {_fate(child.returncode)}.", 500)

    def close(self) -> None:
        """Kill what goes on, and start nothing more."""
        with self._lock:
            self._closed = True
            for child in self._live:
                _kill(child)

    def _start(self, command: Sequence[str], what: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(sys.path)  # it finds what we found, wherever we were started from
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with self._lock:
            if self._closed:
                raise ChildFailed("The studio is ending.", 503)
            if len(self._live) >= self._most:
                raise ChildFailed(f"The {what} has to wait: {self._most} are being made. Try again in a minute.", 503)
            try:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                    errors="replace", env=environment, start_new_session=True,  # Ctrl-C is for us, who then end it
                )  # fmt: skip
            except OSError as error:
                raise ChildFailed(f"The {what} could not be made: {error.strerror}.", 500) from error
            self._live.add(child)
            return child


def _kill(child: subprocess.Popen[str]) -> None:
    """A process that still goes on, and what it started."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _fate(code: int) -> str:
    if code > 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
