"""A person performs the reset: the run pauses, asks, and waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range, Rule, check
from resetfree.problems.operators.callback import Callback
from resetfree.problems.operators.channel import CHANNELS, Channel
from resetfree.problems.operators.file import Folder
from resetfree.problems.operators.messages import LONGEST, clean
from resetfree.problems.operators.request import Answer, Request

Ask: TypeAlias = Callable[[Request], Answer | str | None]
LONGEST_WAIT = 10**9  # seconds; clocks of the system take no more than about ten times that
Seconds: TypeAlias = Annotated[float, Range(above=0, most=LONGEST_WAIT)]
Who: TypeAlias = Annotated[str, Rule(lambda text: bool(clean(text, LONGEST["who"])), "text")]
WAYS = "a name of `resetfree list operators`, module:Class, 'http:PORT', a folder (a Path) or a function"


@dataclass
class OperatorReset:
    """Asks a person for each reset, and waits until it is performed.

    by: "terminal" (bell and prompt), "http" or "http:PORT" (an endpoint on loopback), the name of an operator of
      another package, or module:Class of one; a folder as a Path (files), or a function of yours that gets the
      `Request` and returns an `Answer`, a note or None when the reset is performed.
    deadline: seconds after which nobody is waited for any more (`OperatorTimeout`; the run is saved); None: for ever.
    who: what is recorded as who performed it, where the answer does not say.
    address: with "http", the file that tells where to ask and the token for it (default: a new one, which is named on
      standard error); only its owner can read it.

    >>> operator = OperatorReset(by=lambda request: f"put back after: {request.detail}", who="night shift")
    >>> operator.perform(Request("cart", "reset", "the pole fell"))
    Answer(who='night shift', note='put back after: the pole fell')
    """

    by: str | Path | Ask = "terminal"
    deadline: Seconds | None = None
    who: Who = "operator"
    address: Path | None = None
    _way: Channel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(self.deadline, Seconds | None, "'deadline' of OperatorReset")
        check(self.who, Who, "'who' of OperatorReset")
        self._way = self._reached()

    def perform(self, request: Request) -> Answer:
        """Ask, and return when the reset is performed."""
        said: Any = self._way.ask(request, self.deadline)
        if isinstance(said, Answer):
            return Answer(clean(said.who, LONGEST["who"]) or self.who, clean(said.note))
        if said is None or isinstance(said, str):
            return Answer(self.who, clean(said or ""))
        raise InvalidInput(
            f"The function of OperatorReset must return an Answer, text or None. Got {type(said).__name__} instead."
        )

    def close(self) -> None:
        """Let go of endpoint or folder; done by itself when the process ends."""
        self._way.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reached(self) -> Channel:
        by = self.by
        if isinstance(by, str):
            name, _, text = by.partition(":")
            if not CHANNELS.knows(name) and ":" not in by:
                raise InvalidInput(f"The 'by' of OperatorReset must be {WAYS}. Got {by!r} instead.")
            known = CHANNELS.knows(name)
            channel = CHANNELS.find(name) if known else CHANNELS.load(by)
            if self.address is None or channel.takes_address:
                return channel.opened(text if known else "", self.who, self.address)
        if self.address is not None:
            raise InvalidInput(f"The 'address' of OperatorReset is for 'http' only. Got it with {by!r} instead.")
        if isinstance(by, Path):
            return Folder(by, self.who)
        if callable(by):
            return Callback(by)
        raise InvalidInput(f"The 'by' of OperatorReset must be {WAYS}. Got {by!r} instead.")
