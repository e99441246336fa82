"""Requests for resets, the ways to reach an operator, and the messages between a run and its operator.

Channels are found in this folder and by entry points. Messages are sentences for people and JSON for programs.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from resetfree.core import InvalidInput, OperatorTimeout
from resetfree.core.discovery import Registry, checked_class, classes_in


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one reset."""

    problem: str  # its name
    why: str  # "start", "reset", "resume" or "stuck": see `Intervention.why`
    detail: str  # the cause in words
    # A picture of the system as PNG, made when it is called (None: there is none).
    picture: Callable[[], bytes | None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """An operator's answer when the reset is performed."""

    who: str
    note: str = ""


class Operator(Protocol):
    """Performs resets."""

    def perform(self, request: Request) -> Answer:
        """Return when the reset is performed; raises `OperatorTimeout` after a deadline."""


@dataclass(frozen=True, slots=True)
class Automatic:
    """The environment resets itself: simulators."""

    def perform(self, request: Request) -> Answer:
        """Answer at once."""
        return Answer("environment")


LONGEST = {"who": 200, "note": 4000, "detail": 4000}  # characters
REASONS = {
    "start": "the run is about to begin",
    "reset": "a reset state was entered",
    "resume": "the run was interrupted, and the state of the system is unknown",
    "stuck": "the run is stuck and earns nothing",
}


def clean(text: str, longest: int = LONGEST["note"]) -> str:
    r"""Text on one line, without control characters and lone surrogates: safe to print and to store.

    >>> clean("pole\x1b[2J fell\n\tover ")
    'pole[2J fell over'
    """
    plain = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return " ".join(plain.split())[:longest].strip()


def sentence(request: Request) -> str:
    """The request in words.

    >>> sentence(Request("cart", "reset", "the pole fell"))
    "'cart' needs a reset: a reset state was entered (the pole fell)."
    """
    why = REASONS.get(request.why, clean(request.why))
    detail = clean(request.detail, LONGEST["detail"])
    return f"'{clean(request.problem)}' needs a reset: {why}{f' ({detail})' if detail else ''}."


def as_json(request: Request, name: str, deadline: float | None) -> dict[str, Any]:
    """The request for programs: `id` identifies it, `seconds` is its deadline."""
    return {
        "id": name,
        "problem": clean(request.problem),
        "why": clean(request.why),
        "detail": clean(request.detail, LONGEST["detail"]),
        "asked": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": deadline,
    }


def check_reply(reply: Any, name: str, *, must_name: bool) -> dict[str, Any]:
    """A program's reply to this request; raises ValueError for a bad one, LookupError for another request's.

    reply: {"id": ..., "who": ..., "note": ..., "stop": true or false}, all but `id` optional.
    """
    if not isinstance(reply, dict):
        raise ValueError("The answer must be a JSON object.")
    unknown = sorted(map(clean, set(reply) - {"id", "who", "note", "stop"}))
    if unknown:
        raise ValueError(f"An answer has 'id', 'who', 'note' and 'stop'. Got '{unknown[0]}' instead.")
    if ("id" in reply or must_name) and reply.get("id") != name:
        raise LookupError("The answer is for another request: its 'id' is not that of the open request.")
    for key, kind in (("who", str), ("note", str), ("stop", bool)):
        if key in reply and not isinstance(reply[key], kind):
            raise ValueError(f"The '{key}' of an answer must be {'text' if kind is str else 'true or false'}.")
    return reply


def accept(reply: dict[str, Any], who: str) -> Answer:
    """A checked reply as an answer; one with `stop` ends the run as Ctrl-C does."""
    if reply.get("stop", False):
        raise KeyboardInterrupt
    return Answer(clean(reply.get("who", ""), LONGEST["who"]) or who, clean(reply.get("note", "")))


def too_late(request: Request, deadline: float) -> OperatorTimeout:
    """The exception for a deadline that has passed."""
    return OperatorTimeout(
        f"No operator performed the reset of '{clean(request.problem)}' within {deadline:g} seconds."
    )


def announce(text: str) -> None:
    """Write to standard error, with a bell if it is a terminal."""
    if sys.stderr is not None and not sys.stderr.closed:
        bell = "\a" if sys.stderr.isatty() else ""
        print(f"{bell}{text}", file=sys.stderr, flush=True)


class Channel(ABC):
    """One way to request resets: `--operator NAME` and `OperatorReset(by="NAME")` open it, NAME:TEXT with the text."""

    name: ClassVar[str] = ""  # "" if it is only for Python
    takes_address: ClassVar[bool] = False  # whether it writes its address to a file

    @classmethod
    def opened(cls, text: str, who: str, address: Path | None) -> Self:
        """The channel for NAME or NAME:TEXT; who: the operator's name for answers without one."""
        try:
            return cls(text) if text else cls()  # type: ignore[call-arg]
        except TypeError as error:
            given = f"'{cls.name}:{text}'" if text else f"'{cls.name}' alone"
            raise InvalidInput(f"The operator '{cls.name}' cannot be reached by {given}: {error}.") from error

    @abstractmethod
    def ask(self, request: Request, deadline: float | None) -> Answer | str | None:
        """Send the request, and return when the reset is performed: an answer, a note, or None.

        Raises OperatorTimeout after the deadline, KeyboardInterrupt if the person stops the run.
        """

    def close(self) -> None:  # noqa: B027 (optional)
        """Release resources."""


CHANNELS: Registry[type[Channel]] = Registry(
    "operator",
    group="resetfree.operators",
    accept=lambda name, found: checked_class(name, found, Channel, settings=False),
    folders=("resetfree.problems.operators", "resetfree.problems.remote"),
    look=lambda module: {cls.name: cls for cls in classes_in(module, Channel) if cls.name},
)
