"""A run while it is played, and ready callbacks for `learn(callbacks=[...])`: stop it, evaluate a copy, log.

A callback is a function of the `Session`, called after every round. None or False goes on; True, or a text as the
reason, ends the run: it is saved, says why it ended, and can be resumed. Methods `begin` and `end` are called too.
"""

from __future__ import annotations

import random
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, Notice, UnknownName, check, expect, real, whole, words
from resetfree.game.contract import MOST_EPISODES, Round
from resetfree.game.fleet import Fleet
from resetfree.game.loop import Game
from resetfree.players import Role
from resetfree.problems import Problem, World
from resetfree.problems.operators import Automatic, Operator
from resetfree.runs.data.dataset import GivenData
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.newfile import LONGEST, Contents, Ending
from resetfree.runs.file.recorded import COLUMNS, GOALS, RecordedRound, columns_of
from resetfree.runs.recall import TrainedPlayer, recall
from resetfree.runs.setup import Setup
from resetfree.runs.stuck import Watch
from resetfree.use.evaluating import Evaluation, Starts
from resetfree.use.exporting import DeployedPolicy

IN_CALLBACK = "Raised in the callback"
Callback: TypeAlias = Callable[["Session"], object]


@dataclass(frozen=True)
class OpenRun:
    """A run whose file is open and whose game is where it shall go on: all that playing needs besides the request."""

    setup: Setup
    ledger: Ledger
    before: float  # seconds in earlier sessions
    given: GivenData | None  # what it began with
    watch: Watch  # for standing still, after the rounds so far
    schedule: Fleet | None = None  # of a fleet, with its machines
    # The rounds so far while the state of the problem may still become a history of observations: see `learn`.
    first: list[RecordedRound] | None = None


class Session:
    """A run while it is played. Nothing that is read here, and no evaluation on a copy, changes the run.

    path: its file, if it has one.  resumed: the rounds of earlier sessions.
    """

    def __init__(
        self,
        setup: Setup,
        *,
        path: Path | None,
        save: Callable[[], None],
        contents: Callable[[], Contents],
        operator: Operator | None,
        began: float,
    ) -> None:
        self.path, self.resumed = path, setup.game.k
        self._setup, self._save, self._contents = setup, save, contents
        self._operator, self._began = operator, began
        self._round: Round | None = None

    @property
    def spec(self) -> Mapping[str, Any]:
        """The request of the run, as in its file."""
        return self._setup.spec

    @property
    def world(self) -> World:
        """The problem of the run, and its model if that is known."""
        return self._setup.world

    @property
    def game(self) -> Game:
        """The state of the game after the last round: to be read only."""
        return self._setup.game

    @property
    def k(self) -> int:
        """The number of rounds played."""
        return self._setup.game.k

    @property
    def round(self) -> Round:
        """The last round."""
        if self._round is None:
            raise InvalidInput("A session has no round yet: none was played since it began.")
        return self._round

    @property
    def row(self) -> dict[str, Any]:
        """The last round by the names of docs/columns.md."""
        found = dict(zip(COLUMNS, columns_of(self.round), strict=True))
        return {**found, GOALS: self.round.episode.goals}

    @property
    def seconds(self) -> float:
        """Spent on the run so far, over all sessions."""
        return time.monotonic() - self._began

    def columns(self) -> dict[str, NDArray[Any]]:
        """Every round up to the last checkpoint, as columns; `save` first for those since."""
        return self._contents().columns

    def save(self) -> None:
        """Make a checkpoint now: a crash after it loses nothing before it."""
        self._save()

    @property
    def learned(self) -> TrainedPlayer:
        """The primal player, and its state after the last round: to be read only."""
        return TrainedPlayer(self._setup.primal, self.game.primal)

    @property
    def policy(self) -> DeployedPolicy:
        """The policy learned so far; valid until the next round."""
        so_far: Any = _SoFar(self._setup.spec, self.round, self.world.problem, self.learned)  # what recalling reads
        return recall(so_far)

    def twin(self) -> Problem:
        """A copy of the problem that can be played without touching the run; raises InvalidInput if there is none."""
        problem = self.world.problem
        who = self._operator or getattr(problem, "operator", None)
        if who is not None and not isinstance(who, Automatic):
            raise InvalidInput(
                f"The resets of '{problem.name}' are performed by an operator, so it is not copied: name a simulator "
                "to evaluate on, EvaluateEvery(..., on=...)."
            )
        return problem.twin()


@dataclass(frozen=True, eq=False)
class _SoFar:
    """The record of a run between two rounds, as far as its policy needs it."""

    spec: dict[str, Any]
    last: Round
    problem: Problem
    learned: TrainedPlayer
    path: Path | None = None
    fit: None = None
    players: Mapping[Role, type] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, Any]:
        """The start and the multiplier of the last round."""
        return {"s1": [self.last.s1], "lam": [self.last.lam]}

    def __len__(self) -> int:
        return self.last.k


class Callbacks:
    """The callbacks of a run: called after every round, begun before the first and ended after the last."""

    def __init__(self, callbacks: tuple[Callback, ...], session: Session) -> None:
        self._callbacks, self._session = callbacks, session

    def __call__(self, this: Round) -> Ending | None:
        """Call each with the session; the end of the run if one of them returns true or a text."""
        self._session._round, ended = this, None
        for callback in self._callbacks:
            named = getattr(callback, "__name__", type(callback).__name__)
            try:
                why = _reason(callback(self._session), named)
            except Exception as error:
                error.add_note(f"{IN_CALLBACK} '{named}', after episode {this.k}.")
                raise
            if why is not None and ended is None:
                ended = Ending(this.k, "callback", why)
        return ended

    @contextmanager
    def open(self) -> Iterator[None]:
        """Call their methods `begin` and `end`, if they have such, with the session; each that began ends."""
        begun: list[Any] = []
        try:
            for callback in self._callbacks:
                if hasattr(callback, "begin"):
                    callback.begin(self._session)
                begun.append(callback)
            yield
        finally:
            for callback in reversed(begun):
                if hasattr(callback, "end"):
                    callback.end(self._session)


def _reason(answer: object, named: str) -> str | None:
    """Why a callback ends the run, None if it does not."""
    if answer is None or isinstance(answer, bool | np.bool_):
        return f"the callback '{named}' ended it" if answer else None
    must = "be None or False to go on, True or a reason to end the run"
    expect(isinstance(answer, str) and bool(answer), f"answer of the callback '{named}'", must, answer)
    return " ".join(str(answer).split())[:LONGEST]


@contextmanager
def background() -> Iterator[None]:
    """Play something besides the run: notices are the run's own, and shared random numbers are put back afterwards."""
    shared, other = random.getstate(), np.random.get_state()  # noqa: NPY002 (an environment may draw from it)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        try:
            yield
        finally:
            random.setstate(shared)
            np.random.set_state(other)  # noqa: NPY002


MEASURES = tuple(name for name in (*COLUMNS, GOALS) if name not in ("k", "s1", "next_start"))


class StopWhen:
    """End the run when the mean of a column over the last episodes is good enough.

    column: a name of docs/columns.md: "reward", "original_return" (in the environment's own rewards), "reset", ...
    at_least, at_most: what is good enough; one of them, or both.
    over: the number of latest episodes over which the mean is taken, all of them played since `learn` was called.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=2000, seed=1, callbacks=[StopWhen("reset", at_most=0, over=200)])
    >>> run.ended.why
    'reset is 0 on average over 200 episodes, at most 0 was the aim'
    >>> bool(run.columns["reset"][-200:].any()), len(run) < 2000
    (False, True)
    """

    def __init__(
        self, column: str = "reward", *, at_least: float | None = None, at_most: float | None = None, over: int = 100
    ) -> None:
        if words(column, "'column' of StopWhen") not in MEASURES:
            raise UnknownName("column", column, MEASURES)
        if at_least is None and at_most is None:
            raise InvalidInput("A StopWhen must have an aim. Got none instead: give at_least=... or at_most=...")
        self.column, self.over = column, whole(over, "'over' of StopWhen", 1, MOST_EPISODES)
        self.at_least = None if at_least is None else real(at_least, "'at_least' of StopWhen")
        self.at_most = None if at_most is None else real(at_most, "'at_most' of StopWhen")
        self._last: deque[float] = deque(maxlen=self.over)

    def begin(self, session: Session) -> None:
        """Forget what another run played."""
        self._last.clear()

    def __call__(self, session: Session) -> str | None:
        """The reason to stop, None before that."""
        self._last.append(_value(session, self.column))
        if len(self._last) < self.over:
            return None
        mean = float(np.mean(self._last))
        low = self.at_least is None or mean >= self.at_least
        if not (low and (self.at_most is None or mean <= self.at_most)):
            return None
        aims = [f"at least {self.at_least:g}"] if self.at_least is not None else []
        aims += [f"at most {self.at_most:g}"] if self.at_most is not None else []
        return f"{self.column} is {mean:g} on average over {self.over} episodes, {' and '.join(aims)} was the aim"


class EvaluateEvery:
    """Evaluate the policy learned so far every n episodes, on a copy of the problem: the run does not change by it.

    episodes: of each evaluation, see `DeployedPolicy.evaluate`; its seed is the same each time.
    on: where to evaluate, if not on a copy: a name, an environment, a problem. Needed if an operator performs resets.
    stop_at: end the run when the mean return, in the environment's own rewards, is at least that.

    `results` are the pairs (episode, `Evaluation`) so far, `best` the one with the greatest mean.

    >>> import resetfree as rf
    >>> watch = EvaluateEvery(100, episodes=50)
    >>> run = rf.learn("grid-v0", episodes=300, seed=1, callbacks=[watch])
    >>> [(k, round(found.mean, 2), found.resets) for k, found in watch.results]
    [(100, 0.58, 0), (200, 0.58, 0), (300, 0.58, 0)]
    """

    def __init__(
        self,
        n: int,
        *,
        episodes: int = 20,
        on: Any = None,
        starts: Starts = "fresh",
        seed: int = 0,
        stop_at: float | None = None,
    ) -> None:
        self.n, self.on = whole(n, "'n' of EvaluateEvery", 1), on
        self.stop_at = None if stop_at is None else real(stop_at, "'stop_at' of EvaluateEvery")
        check(starts, Starts, "'starts' of EvaluateEvery")
        self._options: dict[str, Any] = {
            "episodes": whole(episodes, "'episodes' of EvaluateEvery", 1),
            "starts": starts,
            "seed": whole(seed, "'seed' of EvaluateEvery", 0),
        }
        self._twin: Problem | None = None
        self.results: list[tuple[int, Evaluation]] = []

    @property
    def best(self) -> tuple[int, Evaluation]:
        """The evaluation with the greatest mean return, in the environment's own rewards."""
        expect(bool(self.results), "'best' of EvaluateEvery", "be read after an evaluation", got="none so far")
        return max(self.results, key=lambda one: one[1].original_mean)

    def begin(self, session: Session) -> None:
        """Make the copy before the first round, so that a problem without one is refused then."""
        self._twin = session.twin() if self.on is None else None

    def __call__(self, session: Session) -> str | None:
        """Evaluate if it is time; the reason to stop if that is good enough."""
        if session.k % self.n:
            return None
        where = self.on
        if self._twin is not None:
            self._twin.restore(session.world.problem.saved())
            where = self._twin
        with background():
            found = session.policy.evaluate(where, **self._options)
        self.results.append((session.k, found))
        if self.stop_at is None or found.original_mean < self.stop_at:
            return None
        return f"the evaluation earned {found.original_mean:g} per {found.unit}, {self.stop_at:g} was the aim"

    def end(self, session: Session) -> None:
        """Close the copy."""
        if self._twin is not None:
            self._twin.close()


class LogEvery:
    """Say in one line every n episodes how the run goes.

    to: a function of the line: `print`, or the method of a logger, as logging.getLogger("robot").info.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", episodes=100, seed=1, callbacks=[LogEvery(50)])
    episode 50 of 100: 3 resets in the last 50, reward 2.07 per episode
    episode 100 of 100: 0 resets in the last 50, reward 6.84 per episode
    """

    def __init__(self, n: int = 100, to: Callable[[str], object] = print) -> None:
        self.n, self._to = whole(n, "'n' of LogEvery", 1), to
        expect(callable(to), "'to' of LogEvery", "be a function of a text", to)
        self._paid, self._resets, self._rounds = 0.0, 0, 0

    def begin(self, session: Session) -> None:
        """Count from here on."""
        self._paid, self._resets, self._rounds = 0.0, 0, 0

    def __call__(self, session: Session) -> None:
        """Count the round, and write a line if it is time."""
        self._paid += _value(session, "original_return")
        self._resets += session.round.episode.reset
        self._rounds += 1
        if session.k % self.n:
            return
        self._to(
            f"episode {session.k} of {session.spec['episodes']}: {self._resets} resets in the last {self._rounds}, "
            f"reward {self._paid / self._rounds:.2f} per episode"
        )
        self.begin(session)


def _value(session: Session, column: str) -> float:
    """The last round's value."""
    return float(session.row[column])
