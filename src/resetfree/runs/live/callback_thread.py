"""Callbacks of a run in real time: in a thread of their own, after a round was committed, and never waited for.

They see every round once and in order, however far acting is ahead; what they answer counts at the next start of an
episode. They share the interpreter with the thread that acts, which gets its turn after a tenth of a millisecond: what
takes long in one piece (a large product of matrices, say) belongs in a process of its own.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from resetfree.core.interrupts import Stop
from resetfree.core.system import Closes
from resetfree.game.contract import Plan, Round
from resetfree.problems.operators import Operator
from resetfree.runs.file.ending import Ending
from resetfree.runs.file.ledger import read
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.session import Callback, Callbacks, Session
from resetfree.runs.setup import Setup

PATIENCE = 5.0  # seconds in which the last call must return when the run ends
LONG = 1.0  # seconds of calls after one round after which a message is due, if an episode is shorter


class _Planned:
    """Stands for the player, which is elsewhere: what it planned is what acted in the round."""

    def plan(self, state: Plan, s1: Any, lam: float) -> Plan:
        """The plan of the round."""
        return state


class RealTimeSession(Session):
    """A session whose last round is the one that callbacks are called for; acting may be ahead of it."""

    def __init__(self, setup: Setup, file: Path, shown: Path | None, operator: Operator | None, began: float) -> None:
        super().__init__(setup, path=shown, save=_saved, contents=lambda: read(file), operator=operator, began=began)

    @property
    def k(self) -> int:
        """The number of the last round."""
        return self.resumed if self._round is None else self._round.k

    @property
    def learned(self) -> TrainedPlayer:
        """What acted in the last round: the player and its state are in another process."""
        planned: Any = _Planned()
        return TrainedPlayer(planned, self.round.plan)


def _saved() -> None:
    """Every round is committed before callbacks are called, and the learner makes the checkpoints."""


class CallbackThread(Closes):
    """Calls the callbacks of a run.

    lasts: seconds of an episode. Callbacks that take longer fall behind, which is reported.
    """

    def __init__(self, callbacks: tuple[Callback, ...], session: RealTimeSession, lasts: float) -> None:
        self._callbacks, self._any, self._lasts = Callbacks(callbacks, session), bool(callbacks), lasts
        self.opened = self._callbacks.open()
        self.ended: Ending | None = None  # what a callback said, once
        self.reports: list[str] = []
        self._longest = max(lasts, LONG)  # that a round took; the next word is due at twice as long
        self._failure: BaseException | None = None
        self._rounds: SimpleQueue[Round | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        """Begin, with the methods `begin` of the callbacks."""
        self.opened.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        """End the thread after the call that it is in, and call the methods `end` of the callbacks."""
        self.close()
        self.opened.__exit__(*raised)  # type: ignore[arg-type]

    def add(self, this: Round) -> None:
        """Call them for a round that is committed, soon."""
        if self._any:
            self._rounds.put(this)

    def check(self) -> None:
        """Raise what a callback raised."""
        if self._failure is not None:
            raise self._failure

    def ending(self, k: int) -> Ending | None:
        """Why the run ends after round k, if a callback said so for that or an earlier one."""
        return None if self.ended is None else dataclasses.replace(self.ended, k=k)

    def finish(self, stop: Stop, seconds: float) -> None:
        """Wait until they were called for all rounds; if the user stops the run, at most so long."""
        self._rounds.put(None)
        until = time.monotonic() + seconds
        while self._thread.is_alive() and not (stop and time.monotonic() > until):
            self._thread.join(0.05)
        self.check()

    def close(self) -> None:
        """No further calls; one that does not return is left behind."""
        self._any = False
        self._rounds.put(None)
        self._thread.join(PATIENCE)

    def _work(self) -> None:
        while (this := self._rounds.get()) is not None and self._any:
            began = time.monotonic()
            try:
                ended = self._callbacks(this)
            except BaseException as error:  # raised again where the run is played
                self._failure = error
                return
            self.ended = self.ended or ended
            took = time.monotonic() - began
            if took > self._longest:
                self._longest = 2.0 * took
                self.reports.append(
                    f"The callbacks took {took:.3g} s after episode {this.k}, longer than an episode lasts "
                    f"({self._lasts:.3g} s): they are behind by {self._rounds.qsize()} episodes. Acting does not wait."
                )
