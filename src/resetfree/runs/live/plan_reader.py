"""Plans are read ahead, in a thread: the one that acts finds the newest plan as it is needed, and only takes it.

To decode a plan is to copy it, a quarter of a millisecond for a MB, without holding the interpreter. Old plans are kept
until newer ones have come, so that their memory is given back in this thread too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from resetfree.core.system import Closes, take_highest
from resetfree.game.delayed import HeldPlan
from resetfree.runs.live.board import Board

PAUSE = 0.004  # seconds between two looks at the board
KEPT = 4  # plans: one that is in use, those of rounds that are being recorded, and the newest


class ReadPlan(NamedTuple):
    """A plan as it was on the board."""

    number: int  # of its message
    digest: int
    held: HeldPlan


class PlanReader(Closes):
    """Reads the newest plan of a board as soon as it is there.

    classes: what policies may be made of, see `policy_classes`.
    """

    def __init__(self, board: Board, classes: Mapping[str, type]) -> None:
        self.newest: ReadPlan | None = None
        self._board, self._classes = board, classes
        self._kept: deque[ReadPlan] = deque(maxlen=KEPT)
        self._failure: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise what it raised."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """End the thread."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        take_highest()  # the thread that acts would wait for one that holds the interpreter and gets no processor
        try:
            while not self._ending.wait(PAUSE):
                self._look()
        except BaseException as error:  # raised again where the run is played
            self._failure = error

    def _look(self) -> None:
        found = self._board.take(self._read, 0 if self.newest is None else self.newest.number)
        if found is not None:
            posted, held = found
            self._kept.append(ReadPlan(posted.number, posted.digest, held))
            self.newest = self._kept[-1]

    def _read(self, data: memoryview) -> HeldPlan:
        return HeldPlan.read(data, self._classes, kept=False)
