"""The process that learns, started and directed by the one that acts.

It reads its assignment from its standard input, and afterwards when to look for new rounds. When that pipe is closed
the process that acts has ended, in whatever way, and so does this one. What it raises is left in `said.json` beside its
boards, and its scheduling class in `class.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from resetfree.core.errors import ResetFreeError, one_line
from resetfree.core.plain_tree import decode
from resetfree.core.system import Scheduling, take_lowest
from resetfree.runs.live.assignment import END, START, Assignment, receive
from resetfree.runs.live.board import Board
from resetfree.runs.live.hanging import Progress
from resetfree.runs.live.learner import Learner

PLANS, CHECKPOINTS = "plans", "checkpoints"  # names of the boards
SAID, CLASS = "said.json", "class.json"
RAISED = 3  # exit status of a learner that raised; any other end is that of a process that was killed
AS_IT_IS = Scheduling("usual", "It runs in the class of the process that acts before that took a higher one.")
AGAIN = "it is started again, and acting continues meanwhile."
IDLE = 1.0  # seconds after which it looks for rounds although none was announced


class Ear(threading.Thread):
    """Listens to the process that acts, also while the learner computes."""

    def __init__(self, stream: BinaryIO, folder: Path) -> None:
        super().__init__(daemon=True)
        self._stream, self._folder = stream, folder
        self.heard = threading.Event()
        self.start_of_first: Any = None  # a dictionary with the start of round 1, when it is known
        self.ending = False

    def run(self) -> None:
        """Until the other end is closed."""
        try:
            while True:
                kind, data = receive(self._stream)
                if kind == START:
                    self.start_of_first = decode(data, {})
                self.ending |= kind == END
                self.heard.set()
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)  # whoever made it may have been killed
            self.end()

    def end(self) -> None:
        """End this process: what is being computed is no longer needed."""
        os._exit(0)


def main() -> None:
    """Learn until the process that acts has ended."""
    stream: BinaryIO = sys.stdin.buffer
    try:
        assignment = Assignment.receive(stream)
    except EOFError:
        return
    folder = assignment.boards
    try:
        got = take_lowest() if assignment.lowest else AS_IT_IS
        leave(folder / CLASS, {"name": got.name, "words": got.words})
        ear = Ear(stream, folder)
        ear.start()
        with (
            Board.join(folder / PLANS) as plans,
            Board.join(folder / CHECKPOINTS) as checkpoints,
            Progress(folder) as progress,
            Learner(assignment, plans, checkpoints, progress.advance) as learner,
        ):
            while True:
                ear.heard.clear()
                progress.advance()
                if ear.start_of_first is not None:
                    learner.begin(ear.start_of_first["start"])
                learner.work(ending=ear.ending)
                ear.heard.wait(IDLE)
    except BaseException as error:  # players may raise anything
        leave(folder / SAID, found := said(error))
        print(found["trace"], end="", file=sys.stderr, flush=True)
        os._exit(RAISED)


def leave(path: Path, what: dict[str, Any]) -> None:
    """Leave a message for the process that acts: whole, or not at all."""
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(what))
    draft.replace(path)


def said(error: BaseException) -> dict[str, Any]:
    """What a learner raised, as plain data; with where that happened, unless it was on purpose."""
    known = isinstance(error, ResetFreeError)
    words, trace = (str(error), "") if known else (one_line(error), "".join(traceback.format_exception(error)))
    return {"type": type(error).__name__, "known": known, "words": words, "trace": trace}
