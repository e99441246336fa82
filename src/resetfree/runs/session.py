"""A run while it is played: what callbacks are called with after every round, and what their answer means."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput, Notice
from resetfree.core.settings import expect
from resetfree.game.contract import Round
from resetfree.game.fleet import Fleet
from resetfree.game.loop import Game
from resetfree.players import Role
from resetfree.problems.contract import Problem
from resetfree.problems.operators import Automatic, Operator
from resetfree.problems.registry import World
from resetfree.runs.data.dataset import GivenData
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.newfile import LONGEST, Contents, Ending
from resetfree.runs.file.recorded import COLUMNS, GOALS, RecordedRound, columns_of
from resetfree.runs.recall import TrainedPlayer, recall
from resetfree.runs.setup import Setup
from resetfree.runs.stuck import Watch
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
