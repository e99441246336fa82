"""The near end of a learner elsewhere: sends the rounds of a run file, and posts the plans that come back.

Rounds wait in the run file until the other side has said that it has them; nothing is held here besides. It knows no
network: `call(method, *arguments)` asks a `RemoteLearner`, and asks again, or raises, when no answer came.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.plain_tree import decode, encode
from resetfree.core.system import Closes
from resetfree.runs.file import runfile
from resetfree.runs.live.board import Board
from resetfree.runs.live.mirror import beginning, rounds_after
from resetfree.runs.live.remote_learner import this_machine

Call: TypeAlias = Callable[..., bytes]


class LearnerRaised(ResetFreeError):
    """The learner raised; it would again. `said` is what, as plain data."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(str(said["words"]))
        self.said = said


class Relay(Closes):
    """What one learner elsewhere has been sent, and the result; a new learner gets a new one.

    plans, checkpoints: the boards.
    """

    def __init__(self, file: Path, plans: Board, checkpoints: Board, call: Call) -> None:
        self._file, self._boards, self._call = file, {"plan": plans, "checkpoint": checkpoints}, call
        self._connection: sqlite3.Connection = runfile.connect(file, "ro")
        self._taken = {"plan": int(plans.newest().number > 0), "checkpoint": 0}  # numbers of the newest that came back
        self.acknowledged = 0  # the newest round that the other side has

    def close(self) -> None:
        """Close the run file."""
        self._connection.close()

    def assign(self, assignment: bytes) -> None:
        """Send the assignment and the beginning of the run file."""
        newest = self._boards["plan"].newest()
        self._call("assign", assignment, this_machine(), newest.tag if newest.number else -1)
        with runfile.sentences(self._file):
            for number, part in enumerate(list(beginning(self._connection)), 1):
                if decode(self._call("begin", number, part), {})["parts"] != number:
                    raise RunError(f"The learner elsewhere must be at part {number} of the run. It is not.")

    def exchange(self, first: dict[str, Any] | None, *, ending: bool) -> bool:
        """Send the rounds that were committed since, and post what comes back; whether more are there to be sent.

        first: {"start": s}, where round 1 starts, when it is known.  ending: whether the run ends.
        """
        with runfile.sentences(self._file):
            rounds, last, more = rounds_after(self._connection, self.acknowledged)
        request = {"last": last, "more": more, "ending": ending and not more, "first": first, **self._taken}
        answer = decode(self._call("work", encode(request), rounds), {})
        self.acknowledged = int(answer["k"])
        for name, board in self._boards.items():
            if (found := answer[name]) is not None and found["number"] > self._taken[name]:
                board.post(found["data"].tobytes(), found["tag"])
                self._taken[name] = found["number"]
        if answer["raised"] is not None:
            raise LearnerRaised(answer["raised"])
        return more or self.acknowledged < last
