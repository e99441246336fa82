"""The request to an operator, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


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
