"""What an operator is asked and answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """What an operator is asked."""

    problem: str  # its name
    why: str  # "start", "reset" or "resume": see `Intervention.why`
    detail: str  # what led to it, in words


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operator says when it is done."""

    who: str
    note: str = ""


class Operator(Protocol):
    """Performs resets."""

    def perform(self, request: Request) -> Answer:
        """Return when the reset is performed; raise `OperatorTimeout` where nobody came in time."""


@dataclass(frozen=True, slots=True)
class Automatic:
    """The environment resets itself: simulators."""

    def perform(self, request: Request) -> Answer:
        """At once."""
        return Answer("environment")
