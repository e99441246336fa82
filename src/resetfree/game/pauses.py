"""How long the players make an episode wait. Measured and shown, never recorded: the same run may take another time."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

NOTABLE = 0.1  # seconds: a shorter wait is no pause


@dataclass(slots=True)
class Pauses:
    """A context manager around what the players compute: plans, multipliers, updates. All in seconds.

    >>> pauses = Pauses()
    >>> with pauses:
    ...     pauses.since is None
    False
    >>> pauses.since, pauses.longest
    (None, 0.0)
    """

    since: float | None = None  # when the players began to compute, on the monotonic clock; None while they do not
    last: float = 0.0  # the newest pause
    longest: float = 0.0
    total: float = 0.0

    def __enter__(self) -> None:
        self.since = monotonic()

    def __exit__(self, *_: Any) -> None:
        seconds, self.since = monotonic() - (self.since or 0.0), None
        if seconds >= NOTABLE:
            self.last, self.longest, self.total = seconds, max(seconds, self.longest), self.total + seconds

    def now(self) -> float | None:
        """How long the players have computed by now; None if it is no pause yet."""
        since = self.since  # another thread may end it
        seconds = 0.0 if since is None else monotonic() - since
        return seconds if seconds >= NOTABLE else None
