"""The learner of a run in real time: it follows the run file, learns every round once and in order, and makes plans.

It needs nothing but the run file and its assignment, and leaves nothing but plans and checkpoints: whoever acts writes
those into the run file. Started again, it continues from the newest checkpoint and the rounds since. The plans that
those rounds were played with are made again from the states that they rest on, with the same result.
One plan is under way: a new one is made when a round that was played with the newest was learned, or ended in a reset.

Its process is started and directed by the one that acts. It reads its assignment from its standard input, and
afterwards when to look for new rounds. When that pipe is closed the process that acts has ended, in whatever way, and
so does this one. What it raises is left in `said.json` beside its boards, its scheduling class in `class.json`.
"""

import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from resetfree.core import ResetFreeError, RunError, one_line, state
from resetfree.core.plain_tree import decode, encode
from resetfree.core.system import Closes, Scheduling, take_lowest
from resetfree.game.contract import Round
from resetfree.game.delayed import DelayedGame, HeldPlan, reset_chance, start_for_plan
from resetfree.game.loop import FEEDBACK, learn_round
from resetfree.problems import State
from resetfree.runs.data.dataset import read_data, taught
from resetfree.runs.file import runfile
from resetfree.runs.file.newfile import read_episodes
from resetfree.runs.file.recorded import RecordedRound, check_episode
from resetfree.runs.live.assignment import END, START, Assignment, receive
from resetfree.runs.live.board import Board, Posted, Progress
from resetfree.runs.resuming import restore_plans
from resetfree.runs.setup import plans_of

LEAST_REST = 20  # checkpoints take at most 1 / LEAST_REST of the time


class Postbox(Protocol):
    """Where a learner leaves what others take: a `Board`, or what is sent to one."""

    def newest(self) -> Posted:
        """The newest message, without its bytes."""

    def post(self, data: bytes, tag: int = 0) -> Posted:
        """Leave a message."""


class NotHeld(Exception):
    """A round was played with a plan that this learner has not made."""


class Learner(Closes):
    """The players' states after the rounds that were learned, and the plans that later rounds may be played with.

    plans, checkpoints: the boards.
    advance: called after every piece of work.
    """

    def __init__(
        self,
        assignment: Assignment,
        plans: Postbox,
        checkpoints: Postbox,
        advance: Callable[[], object] = lambda: None,
    ) -> None:
        self._advance = advance
        self._primal, self._dual, self._file = assignment.primal, assignment.dual, assignment.file
        self._plans, self._checkpoints = plans, checkpoints
        self._every, self._most = assignment.every, assignment.max_staleness
        self._connection = runfile.connect(assignment.file, "ro")
        with runfile.sentences(self._file):
            self._spec = runfile.read_spec(self._connection, self._file)
            self._episodes = read_episodes(self._connection, self._spec, self._file)
            self._given = read_data(self._connection, self._spec, self._file)
        self._problem = assignment.problem(self._spec)
        self._signal = FEEDBACK[self._spec["feedback"]]
        self._game = self._fresh()
        self._names = self._arrays().keys()
        self._first: State = None  # where round 1 starts
        self._played = -1  # the round that the plan of the last learned round rests on
        self._due, self._saved = 0.0, -1  # when the next checkpoint may be made, and the round of the last one
        self._rebuild()

    @property
    def k(self) -> int:
        """The rounds that were learned."""
        return self._game.k

    def begin(self, start: State) -> None:
        """Say where the first round starts."""
        self._first = start

    def work(self, *, ending: bool = False) -> None:
        """Learn what was committed since, make a plan if one is due, and hand over what is new.

        ending: whether the run ends, so that a checkpoint is needed now and a plan is not.
        """
        self._follow()
        if not ending and self._is_due():
            self._post()
        now = time.monotonic()
        ending = ending or self._game.k >= self._episodes
        if self._saved < self._game.k and (now >= self._due or ending):
            self.save()
            self._due = time.monotonic() + max(self._every, LEAST_REST * (time.monotonic() - now))

    def save(self) -> None:
        """Hand over a checkpoint."""
        arrays = self._arrays()
        state.check_structure(arrays, self._names, self._game.k)
        tree = {"k": self._game.k, "s1": self._game.s1, "arrays": {**arrays, **plans_of(self._game)}}
        self._checkpoints.post(encode(tree), self._game.k)
        self._saved = self._game.k
        self._advance()

    def close(self) -> None:
        """Close the run file."""
        self._connection.close()

    def _arrays(self) -> dict[str, Any]:
        arrays = state.dump(self._game.primal, "primal.") | state.dump(self._game.dual, "dual.")
        state.check_arrays(arrays)
        return arrays

    def _is_due(self) -> bool:
        """Whether a new plan is due, of the states as they are now."""
        game, newest = self._game, self._plans.newest()
        if game.k >= self._episodes or (game.k == 0 and self._first is None):
            return False
        if not newest.number:
            return True
        is_old = game.k - newest.tag > self._most  # it will not be played any more
        return game.k > newest.tag and (self._played >= newest.tag or game.fell > newest.tag or is_old)

    def _post(self) -> None:
        game = self._game
        game.hold(self._primal, self._dual, game.ahead if game.k else self._first)
        self._plans.post(game.plans[game.k].data, game.k)
        self._advance()

    def _follow(self) -> None:
        """Learn the rounds that were committed since; a plan that is missing is made again."""
        try:
            for played in self._rounds(self._game.k + 1):
                self._learn(played)
        except NotHeld:
            self._rebuild()

    def _learn(self, played: RecordedRound) -> None:
        game, k = self._game, played.k
        if played.k != game.k + 1:
            raise RunError(f"The run file '{self._file}' must hold round {game.k + 1}. Got round {k} instead.")
        check_episode(self._problem, played)
        if k == 1 or game.fell == k - 1:
            game.life = played.s1
        if k == 1:
            self._first = played.s1
            game.hold(self._primal, self._dual, played.s1)
        if played.based_on not in game.plans:
            raise NotHeld
        game.drop_before(played.based_on)
        held: HeldPlan = game.plans[played.based_on]
        cost = self._signal(held.plan, played.episode, None)
        this = Round(
            k, played.s1, held.lam, held.plan, played.episode, cost_signal=cost, exact=None, based_on=played.based_on
        )
        learn_round(self._primal, self._dual, game, this)
        game.fell = k if played.episode.reset else game.fell
        self._played = played.based_on
        game.ahead = start_for_plan(played.episode.next_start, game.life)

    def _rebuild(self) -> None:
        """Continue from the newest checkpoint and all rounds since, with the plans that those were played with."""
        with runfile.sentences(self._file):
            checkpoint = runfile.read_checkpoint(self._connection, self._file)
        game = self._game = self._fresh()
        self._played = -1
        if checkpoint is not None and checkpoint.k:
            for side in ("primal", "dual"):
                fresh = getattr(game, side)
                if state.is_replayed(fresh):
                    state.replay(fresh, (one.episode for one in self._rounds(1, checkpoint.k)))
                setattr(game, side, state.load(fresh, checkpoint.arrays, f"{side}."))
            game.k, game.s1 = checkpoint.k, checkpoint.s1
            restore_plans(self._problem, game, checkpoint.k, checkpoint.arrays)
            self._first = next(self._rounds(1, 1)).s1
            self._played = next(self._rounds(game.k, game.k)).based_on
        needed, posted = self._used_after(game.k), self._plans.newest()
        if posted.number:  # it may be played with later, and a checkpoint without it would be of no use then
            needed.add(posted.tag)
        if game.k and game.k in needed:
            game.hold(self._primal, self._dual, game.ahead)
        for played in self._rounds(game.k + 1):
            try:
                self._learn(played)
            except NotHeld:
                raise RunError(
                    f"The run file '{self._file}' lacks the plan of round {played.based_on}, which round {played.k} "
                    "was played with."
                ) from None
            self._advance()
            if game.k in needed:
                game.hold(self._primal, self._dual, game.ahead)
        self._saved = 0 if checkpoint is None else checkpoint.k

    def _used_after(self, k: int) -> set[int]:
        """The rounds that plans of rounds after k rest on."""
        with runfile.sentences(self._file):
            found = self._connection.execute("SELECT DISTINCT based_on FROM rounds WHERE k > ?", (k,)).fetchall()
        return {int(j) for (j,) in found}

    def _rounds(self, first: int, last: int = 2**62) -> Iterator[RecordedRound]:
        """Committed rounds, one by one."""
        with runfile.sentences(self._file):
            for played in runfile.read_played(self._connection, self._file, first, last):
                self._advance()
                yield played

    def _fresh(self) -> DelayedGame:
        episodes, seed = self._spec["episodes"], self._spec["seed"]
        primal, dual = (one.init(self._problem, episodes, seed) for one in (self._primal, self._dual))
        primal = taught(self._primal, primal, self._problem, self._given)
        return DelayedGame(0, None, primal, dual, reset_chance(seed, 1), seed=seed)


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
