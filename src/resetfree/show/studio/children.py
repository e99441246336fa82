"""Commands in child processes: few at once, each with a time limit; one that dies affects no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

from resetfree.core.errors import RunError
from resetfree.core.system import kill_group


class ChildFailed(RunError):
    """A child process failed, and the request was not at fault; `status` is the HTTP status to answer with."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Children:
    """At most `most` processes at once; `close` kills all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._live: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, command: Sequence[str], what: str, seconds: float) -> None:
        """Run a command to its end. Status 2 raises RunError with its standard error, any other failure ChildFailed.

        command: as for `subprocess`; it gets the environment, the import path and one thread for linear algebra.
        what: names the purpose of the command in messages, as "report of 'NAME'".
        seconds: after which it is killed.
        """
        with self._start(command, what) as child:
            try:
                _, error_text = child.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise ChildFailed(f"The {what} took longer than {seconds:g} seconds, and was stopped.", 504) from error
            finally:
                with self._lock:
                    _kill(child)
                    self._live.discard(child)
        if child.returncode == 2:
            raise RunError(" ".join(error_text.split()) or f"The {what} cannot be made.")
        if self._closed and child.returncode:
            raise ChildFailed("The studio is shutting down.", 503)
        if child.returncode:
            raise ChildFailed(f"The {what} could not be made: its process {_fate(child.returncode)}.", 500)

    def close(self) -> None:
        """Kill the running processes and start no more."""
        with self._lock:
            self._closed = True
            for child in self._live:
                _kill(child)

    def _start(self, command: Sequence[str], what: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(sys.path)  # the child imports from the same places
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with self._lock:
            if self._closed:
                raise ChildFailed("The studio is shutting down.", 503)
            if len(self._live) >= self._most:
                raise ChildFailed(f"The {what} has to wait: {self._most} are being made. Try again in a minute.", 503)
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env=environment,
                    start_new_session=True,  # Ctrl-C reaches this process only, which then ends the child
                )
            except OSError as error:
                raise ChildFailed(f"The {what} could not be made: {error.strerror}.", 500) from error
            self._live.add(child)
            return child


def _kill(child: subprocess.Popen[str]) -> None:
    """Kill a running process with its descendants."""
    if child.poll() is None:
        kill_group(child.pid)
        child.kill()


def _fate(code: int) -> str:
    if code > 0:
        return f"ended with status {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
