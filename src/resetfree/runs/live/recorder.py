"""The recorder: a thread of the process that acts, which commits each round while the next one is played.

It alone uses the run file meanwhile. What it raises is raised again in the thread that acts, at its next look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeAlias

from resetfree.core.interrupts import wait
from resetfree.core.plain_tree import decode
from resetfree.core.system import Closes, take_highest
from resetfree.game.contract import Round
from resetfree.game.delayed import reset_chance
from resetfree.problems.contract import Intervention, Note, State
from resetfree.runs.file.columns import COLUMNS, columns_of
from resetfree.runs.file.ledger import Arrays, Ledger
from resetfree.runs.file.runfile import Checkpoint, plain_row
from resetfree.runs.live.supervisor import Supervisor
from resetfree.runs.stuck import Watch

Job: TypeAlias = Callable[[], object]
REWARD = COLUMNS.index("reward")


@dataclass(frozen=True, eq=False)
class PlayedRound:
    """A round, with what the thread that acts measured and noticed in it."""

    round: Round
    timing: tuple[int, int, int, float]  # of `columns.TIMING`
    notes: Sequence[Note]
    problem: Arrays  # the problem's own state after it


class Recorder(Closes):
    """Writes rounds, notes, interventions and the learner's checkpoints, in the order in which they come.

    as_text: whether starts are text in this file.
    seconds: how much time was spent on the run by now.
    progress: called with every round after it was committed.
    oracle: (policy, s1) -> exact V_r and V_c, if the model is known.
    watch: for standing still, after the rounds so far.
    pause: seconds that a round waits, in which the thread that acts has the interpreter to itself for its next step.

    `stuck` is the watch's sentence when it finds the run stuck, until the thread that acts takes it.
    """

    def __init__(
        self,
        ledger: Ledger,
        learner: Supervisor,
        *,
        as_text: bool,
        seconds: Callable[[], float],
        progress: Callable[[Round], object],
        oracle: Callable[[Any, State], tuple[float, float] | None] | None,
        watch: Watch,
        pause: float = 0.0,
    ) -> None:
        self._pause = pause
        self._ledger, self._learner, self._as_text = ledger, learner, as_text
        self.watch, self.stuck = watch, False
        self._seconds, self._progress, self._oracle = seconds, progress, oracle
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._taken = 0  # number of the newest checkpoint that was written
        self.newest: Checkpoint | None = None  # that checkpoint
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def add(self, played: PlayedRound) -> None:
        """Commit a round, soon."""
        self._jobs.put(lambda: self._write(played))

    def note(self, k: int, notes: Sequence[Note], problem: Arrays) -> None:
        """Commit notes, soon."""
        self._jobs.put(lambda: self._ledger.note(k, notes, problem))

    def intervened(self, interventions: Sequence[Intervention]) -> None:
        """Commit resets by an operator, soon."""
        self._jobs.put(lambda: self._moved(interventions))

    def look(self) -> None:
        """Write the newest checkpoint of the learner, if there is a new one, soon."""
        self._jobs.put(self._write_checkpoint)

    def check(self) -> None:
        """Raise what it raised."""
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """Wait until everything is committed; raises what it raised."""
        done = threading.Event()
        self._jobs.put(done.set)
        wait(lambda seconds: done.wait(seconds) or not self._thread.is_alive())
        self.check()

    def close(self) -> None:
        """Commit what is left, and end; what it raises then is in `check`."""
        if self._thread.is_alive():
            self._jobs.put(None)
            wait(self._has_ended)

    def _has_ended(self, seconds: float) -> bool:
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self) -> None:
        take_highest()  # the thread that acts would wait for one that holds the interpreter and gets no processor
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except BaseException as error:  # raised again where the run is played
                self._failure = error
                return

    def _moved(self, interventions: Sequence[Intervention]) -> None:
        self._ledger.intervened(interventions)
        self.watch.moved()
        self.stuck = False

    def _write(self, played: PlayedRound) -> None:
        time.sleep(self._pause)
        this = played.round
        if self._oracle is not None:
            this = this._replace(exact=self._oracle(this.plan.policy, this.s1))
        row = plain_row(columns_of(this), self._as_text)
        self._ledger.append(row, this.episode, played.timing)
        if played.notes:
            self._ledger.note(this.k, played.notes, played.problem)
        else:
            self._ledger.commit(None, played.problem)
        self._learner.look()
        self._write_checkpoint()
        end = this.episode
        if self.watch.see(this.k, this.s1, row[REWARD], end.reset, end.next_start, goals=end.goals):
            self.stuck = True
        self._progress(this)

    def _write_checkpoint(self) -> None:
        found = self._learner.checkpoints.take(lambda data: decode(data, {}), self._taken)
        if found is None:
            return
        posted, tree = found
        arrays: dict[str, Any] = tree["arrays"]
        chance = reset_chance(self._ledger.spec["seed"], tree["k"] + 1).bit_generator.state
        self.newest = Checkpoint(tree["k"], self._seconds(), dict(chance), tree["s1"], arrays)
        self._ledger.commit(self.newest)
        self._taken = posted.number
