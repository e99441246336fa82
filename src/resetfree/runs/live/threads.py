"""The threads beside the one that acts: they read plans ahead, commit rounds, and call the callbacks.

Plans are read ahead: the thread that acts finds the newest plan as it is needed, and only takes it. To decode a plan is
to copy it, a quarter of a millisecond for a MB, without holding the interpreter. Old plans are kept until newer ones
have come, so that their memory is given back in this thread too.

The recorder commits each round while the next one is played, and alone uses the run file meanwhile. What it raises is
raised again in the thread that acts, at its next look.

Callbacks see every round once and in order, however far acting is ahead; what they answer counts at the next start of
an episode. They share the interpreter with the thread that acts, which gets its turn after a tenth of a millisecond:
what takes long in one piece (a large product of matrices, say) belongs in a process of its own.
"""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Self, TypeAlias

from resetfree.core.interrupts import Stop, wait
from resetfree.core.plain_tree import decode
from resetfree.core.system import Closes, take_highest
from resetfree.game.contract import Plan, Round
from resetfree.game.delayed import HeldPlan, reset_chance
from resetfree.problems import Intervention, Note, State
from resetfree.problems.operators import Operator
from resetfree.runs.file.ledger import Arrays, Ledger, read
from resetfree.runs.file.newfile import Ending
from resetfree.runs.file.recorded import COLUMNS, columns_of
from resetfree.runs.file.runfile import Checkpoint, plain_row
from resetfree.runs.live.board import Board
from resetfree.runs.live.supervisor import Supervisor
from resetfree.runs.recall import TrainedPlayer
from resetfree.runs.session import Callback, Callbacks, Session
from resetfree.runs.setup import Setup
from resetfree.runs.stuck import Watch

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
        end, steps = this.episode, len(this.episode.actions)
        if self.watch.see(this.k, this.s1, row[REWARD], end.reset, end.next_start, goals=end.goals, steps=steps):
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
