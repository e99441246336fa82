"""What the process that learns is given: the players, what they may know of the problem, and where its boards are.

It is plain data (`core.plain_tree`), sent through the pipe that the process was started with, and so are the messages
that follow. Classes are named by module:qualname, as this process imported them.

Legend: a message is its kind (one byte), the length of its bytes (four), and its bytes.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO

from resetfree.core import InvalidInput
from resetfree.core.plain_tree import by_name, decode, encode
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.problems import PROBLEMS, Problem, State, find_world
from resetfree.problems.blueprint import Blueprint
from resetfree.problems.features import Features
from resetfree.problems.features.scaling import Scaling
from resetfree.runs.live.learner_location import LearnerLocation, RayLearner, is_lowest
from resetfree.runs.setup import Setup

FIRST, PLAYERS = b"f", b"p"  # kinds of messages: the first two;
START, LOOK, END = b"s", b"l", b"e"  # where round 1 starts, that there are new rounds, that the run ends
HEAD = 5
LIMITS = ("every", "max_staleness", "lowest", "ray", "patience")
MOST = 2**30  # bytes of a message


@dataclass(frozen=True)
class Assignment:
    """What a learner works on."""

    file: Path  # of the run, which it follows
    boards: Path  # the folder of its boards
    every: float  # seconds between two checkpoints, at least
    max_staleness: int  # rounds by which a plan may be older than the newest round
    lowest: bool  # whether it takes the lowest scheduling class
    ray: dict[str, Any] | None  # the fields of a `RayLearner`, None if it learns in a process of this machine
    primal: PrimalPlayer[Any]
    dual: DualPlayer[Any]
    known: dict[str, Any] | None  # features of the problem, of one that is not made again by its name
    patience: float = 120.0  # seconds, of `Deadlines`

    @classmethod
    def of(
        cls,
        setup: Setup,
        file: Path,
        boards: Path,
        *,
        every: float,
        max_staleness: int,
        learner: LearnerLocation,
        patience: float,
    ) -> Assignment:
        """The assignment of a run; raises InvalidInput if another process cannot make its players or its features."""
        problem, known = setup.world.problem, None
        if not is_made_again(setup.spec):
            known = {"phi": problem.phi, "xi": problem.xi, "room": int(problem.room)}
        ray = {**asdict(learner), "address": learner.cluster} if isinstance(learner, RayLearner) else None
        made = cls(
            file=file.absolute(),
            boards=boards,
            every=every,
            max_staleness=max_staleness,
            lowest=is_lowest(learner),
            ray=ray,
            primal=setup.primal,
            dual=setup.dual,
            known=known,
            patience=patience,
        )
        for player in (setup.primal, setup.dual):
            check_importable(type(player))
        for part, what in ((made._players(), "settings of its players"), (known, "features of the problem")):
            try:
                encode(part)
            except InvalidInput as error:
                raise InvalidInput(f"At a rate, the {what} must be arrays, numbers and text: {error}") from error
        return made

    @property
    def messages(self) -> bytes:
        """The first two messages."""
        names = [_name(type(player)) for player in (self.primal, self.dual)]
        first = {**{name: getattr(self, name) for name in LIMITS}, "path": sys.path, "classes": names}
        where = {"file": str(self.file), "boards": str(self.boards)}
        return message(FIRST, {**where, **first}) + message(PLAYERS, self._players())

    def _players(self) -> dict[str, Any]:
        return {"primal": self.primal, "dual": self.dual, "known": self.known}

    @classmethod
    def receive(cls, stream: BinaryIO) -> Assignment:
        """The assignment from the pipe; raises InvalidInput or EOFError."""
        _, data = receive(stream)
        first = decode(data, {})
        sys.path += [entry for entry in first["path"] if entry not in sys.path]
        classes = [_imported(name) for name in first["classes"]]
        _, data = receive(stream)
        players = decode(data, by_name(*classes, Features, Scaling))
        limits = {name: first[name] for name in LIMITS}
        return cls(Path(first["file"]), Path(first["boards"]), **limits, **players)

    def problem(self, spec: dict[str, Any]) -> Problem:
        """The problem as a learner sees it: made again by its name, or from what the run file says of it."""
        if self.known is None:
            return find_world(spec["problem"], spec["problem_options"]).problem
        return Described(spec["problem"], spec["blueprint"], self.known)


class Described(Blueprint):
    """A problem from the description in a run file, with the features that a file cannot hold."""

    phi: Any = None

    def __init__(self, name: str, plain: Any, known: dict[str, Any]) -> None:
        super().__init__(name, plain)
        self.phi, self.xi, self.room = known["phi"], known["xi"], known["room"]


def is_made_again(spec: dict[str, Any]) -> bool:
    """Whether another process makes the problem of a run by its name: if it is registered, and keeps no state."""
    return not spec["persistent"] and spec["problem"] in PROBLEMS


def check_importable(cls: type) -> None:
    """Raise InvalidInput for a class that another process cannot import."""
    try:
        found = None if cls.__module__ == "__main__" else _imported(_name(cls))
    except (ImportError, AttributeError):
        found = None
    if found is not cls:
        raise InvalidInput(
            f"At a rate, a player learns in another process, which must be able to import its class. Got "
            f"'{cls.__qualname__}' of '{cls.__module__}' instead: put it into a module of its own."
        )


def message(kind: bytes, value: Any = None) -> bytes:
    """A message; without a value it has no bytes."""
    return raw_message(kind, b"" if value is None else encode(value))


def raw_message(kind: bytes, data: bytes) -> bytes:
    """A message of these bytes."""
    return kind + len(data).to_bytes(HEAD - 1, "little") + data


def start_message(start: State) -> bytes:
    """The message that says where the first round starts."""
    return message(START, {"start": start})


def receive(stream: BinaryIO) -> tuple[bytes, bytes]:
    """The next message, kind and bytes; raises EOFError when the other end is closed."""
    head = _exactly(stream, HEAD)
    length = int.from_bytes(head[1:], "little")
    if length > MOST:
        raise InvalidInput(f"A message must have at most {MOST} bytes. Got {length} instead.")
    return head[:1], _exactly(stream, length)


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) < n:
        raise EOFError
    return data


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _imported(name: str) -> Any:
    module, _, rest = name.partition(":")
    return attrgetter(rest)(importlib.import_module(module))
