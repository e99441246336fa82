"""The process that acts watches over the one that learns: it starts it, tells it of new rounds, and starts it again.

A learner that was killed is started again, after a pause that doubles; it finds everything in the run file. So is one
that hangs (`hanging`), after it was killed with all that it has started. One that raised would raise again: the run
ends with its sentence, and so it does when learners hang time after time.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from resetfree.core import ResetFreeError, RunError, errors
from resetfree.core.system import Closes, activity, kill_group, take_highest
from resetfree.problems import State
from resetfree.runs.live import learner as process
from resetfree.runs.live import ray_process
from resetfree.runs.live.assignment import END, LOOK, Assignment, message, start_message
from resetfree.runs.live.board import TICK, Board, Progress, Vigil, given_up

LEAST_PAUSE, MOST_PAUSE = 0.05, 10.0  # seconds before a learner is started again
PATIENCE = 5.0  # seconds in which a learner must end when it is requested to
LOOKING, ENDING = message(LOOK), message(END)


class Report(NamedTuple):
    """A sentence about the learner."""

    what: str
    restart: str = ""  # of a `Note`


class Supervisor(Closes):
    """The learner of a run, kept alive. `plans` and `checkpoints` are its boards, and `folder` theirs.

    `reports` are sentences about what happened since the last look; `failure` is what ended the learner for good.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plans, self.checkpoints = Board.make(folder / process.PLANS), Board.make(folder / process.CHECKPOINTS)
        self._progress = Progress.make(folder)
        self.reports: list[Report] = []
        self.failure: ResetFreeError | None = None
        self.starts = 0  # how often it was started
        self._first = b""  # the message that says where round 1 starts
        self._lock = threading.Lock()  # of the pipe, which is another one after a restart
        self._ending = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._newest: subprocess.Popen[bytes] | None = None  # the same, before it has its assignment
        self._hung = ""  # why it was killed
        self._threads: list[threading.Thread] = []

    def start(self, assignment: Assignment) -> None:
        """Start the learner, and watch over it."""
        vigil = Vigil(assignment.patience if assignment.ray is None else ray_process.PATIENCE)
        self._threads = [
            threading.Thread(target=self._watch, args=(vigil,), daemon=True),
            threading.Thread(target=self._keep, args=(assignment, vigil), daemon=True),
        ]
        self._threads[0].start()
        self._begin(assignment)
        self._threads[1].start()

    @property
    def pid(self) -> int:
        """The process that learns now."""
        return 0 if self._child is None else self._child.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._child is not None and self._child.poll() is None

    def begin(self, start: State) -> None:
        """Say where round 1 starts."""
        with self._lock:
            self._first = start_message(start)
            self._send(self._first)

    def look(self, *, ending: bool = False) -> None:
        """Say that rounds were committed, or that no more will come."""
        with self._lock:
            self._send(ENDING if ending else LOOKING)

    def check(self) -> None:
        """Raise what ended the learner for good."""
        if self.failure is not None:
            raise self.failure

    def scheduling(self) -> str | None:
        """The sentence about the learner's scheduling class, None before it is known."""
        found = _left(self.folder / process.CLASS)
        return None if found is None else str(found.get("words"))

    def close(self) -> None:
        """End the learner, and remove the boards."""
        self._ending.set()
        with self._lock:
            child = self._child
            if child is not None and child.stdin is not None:
                with suppress(OSError):
                    child.stdin.close()  # it ends when it reads that
        if child is not None:
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                kill_group(child.pid)
                child.kill()
                child.wait()
        if self._newest is not None and self._newest is not child:  # it does not read its assignment
            kill_group(self._newest.pid)
            self._newest.kill()
        for thread in self._threads:
            if thread.ident is not None:  # it was started
                thread.join()
        self._progress.close()
        self.plans.close()
        self.checkpoints.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _begin(self, assignment: Assignment) -> None:
        module, out = (process, 2) if assignment.ray is None else (ray_process, subprocess.PIPE)
        command = [sys.executable, "-c", f"from {module.__name__} import main; main()"]
        # In a session of its own: Ctrl-C in a terminal is for the process that acts. What it prints is no result.
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, start_new_session=True, bufsize=0)
        assert child.stdin is not None
        self._newest = child
        view = memoryview(assignment.messages)
        with suppress(BrokenPipeError):  # it has ended already
            while view:
                view = view[child.stdin.write(view) :]
        with self._lock:
            before, self._child = self._child, child
            if before is not None and before.stdin is not None:
                before.stdin.close()
            self.starts += 1
            os.set_blocking(child.stdin.fileno(), False)  # a learner that is busy is not waited for
            self._send(self._first)

    def _send(self, data: bytes) -> None:
        """Send a short message, unless the learner is gone, or has so many to read that it looks anyway."""
        child = self._child
        if data and child is not None and child.stdin is not None and not child.stdin.closed:
            with suppress(BrokenPipeError):
                child.stdin.write(data)

    def _watch(self, vigil: Vigil) -> None:
        """Kill the learner whenever it hangs."""
        take_highest()  # the thread that acts would wait for one that holds the interpreter and gets no processor
        watched = None
        while not self._ending.wait(TICK):
            child = self._newest
            if child is not watched:
                vigil.begin()
                watched, self._hung = child, ""
            if child is None or child.returncode is not None or self._hung:
                continue
            count = self._progress.count
            vigil.planned(self.plans.newest().number)
            # Nothing is looked up of a learner that goes on.
            why = vigil.see(time.monotonic(), count, None if vigil.is_new(count) else activity(child.pid))
            if why is not None:
                self._hung = why
                kill_group(child.pid)
                child.kill()

    def _keep(self, assignment: Assignment, vigil: Vigil) -> None:
        """Start the learner again whenever it was killed."""
        pause = LEAST_PAUSE
        while True:
            assert self._child is not None
            begun = time.monotonic()
            if self._child.stdout is not None:
                with self._child.stdout as sentences:
                    for line in sentences:
                        restart, _, sentence = line.decode(errors="replace").strip("\n").partition("\t")
                        self.reports.append(Report(sentence, restart))
            status = self._child.wait()
            if self._ending.is_set():
                return
            found = _left(self.folder / process.SAID) if status == process.RAISED else None
            if found is not None:
                self.failure = _failure(found)
                return
            if self._hung:
                if not vigil.hung():
                    self.failure = RunError(given_up(self._hung))
                    return
                self.reports.append(Report(f"The learner hung ({self._hung}) and was killed: {process.AGAIN}", "hung"))
            elif status != ray_process.LOST:  # which has said why
                self.reports.append(Report(f"The learner ended ({_why(status)}): {process.AGAIN}", "ended"))
            if time.monotonic() - begun > MOST_PAUSE:  # it is not its start that fails
                pause = LEAST_PAUSE
            if self._ending.wait(pause):
                return
            pause = min(2.0 * pause, MOST_PAUSE)
            try:
                self._begin(assignment)
            except OSError as error:
                self.failure = RunError(f"The learner cannot be started again: {error.strerror}.")
                return
            if self._ending.is_set():  # it was closed while the new one began
                assert self._child.stdin is not None
                self._child.stdin.close()


def _left(path: Path) -> dict[str, object] | None:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _failure(said: dict[str, object]) -> ResetFreeError:
    """What a learner raised, as it raised it if it was one of our exceptions that take a sentence."""
    words = str(said.get("words"))
    kind = getattr(errors, str(said.get("type")), None) if said.get("known") else None
    if isinstance(kind, type) and issubclass(kind, ResetFreeError):
        with suppress(TypeError):  # others take more than a sentence
            return kind(words)
        return ResetFreeError(words)
    return RunError(f"The learner raised {words}. The rounds so far are saved.")


def _why(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
