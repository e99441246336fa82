"""A person performs the reset: the run pauses, sends a request, and waits for the answer."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.core.interrupts import wait
from resetfree.core.settings import Range, Rule, check
from resetfree.core.system import Closes
from resetfree.problems.operators.channel import CHANNELS, LONGEST, Answer, Channel, Request, clean, too_late
from resetfree.problems.operators.file import FolderChannel


class Callback(Channel):
    """Calls the function; with a deadline in a thread of its own, which is abandoned after it."""

    def __init__(self, function: Callable[[Request], Any]) -> None:
        self._function = function

    def ask(self, request: Request, deadline: float | None) -> Any:
        """Call the function; returns what it returns, and raises what it raises."""
        if deadline is None:
            return self._function(request)
        returned: list[Any] = []
        raised: list[BaseException] = []
        done = threading.Event()

        def call() -> None:
            try:
                returned.append(self._function(request))
            except BaseException as error:  # raised again by the caller's thread
                raised.append(error)
            finally:
                done.set()

        threading.Thread(target=call, name="resetfree-operator", daemon=True).start()
        if not wait(done.wait, deadline):
            raise too_late(request, deadline)
        if raised:
            raise raised[0]
        return returned[0]


Ask: TypeAlias = Callable[[Request], Answer | str | None]
LONGEST_WAIT = 10**9  # seconds; system clocks overflow at about ten times that
WAYS = "a name of `resetfree list operators`, module:Class, 'http:PORT', a folder (a Path) or a function"
Seconds: TypeAlias = Annotated[float, Range(above=0, most=LONGEST_WAIT)]
Who: TypeAlias = Annotated[str, Rule(lambda text: bool(clean(text, LONGEST["who"])), "text")]


@dataclass
class OperatorReset(Closes):
    """Sends a person a request for each reset, and waits for the answer.

    by: "terminal" (bell and prompt), "http" or "http:PORT" (an endpoint on loopback), the name of an operator of
      another package, or module:Class of one; a `Channel`, such as a `Webhook`; a folder as a Path (files), or your own
      function, which gets the `Request` and returns an `Answer`, a note or None when the reset is performed.
    deadline: seconds to wait, then `OperatorTimeout` is raised and the run is saved; None: no limit.
    who: the recorded name of the operator, if the answer has none.
    address: with "http", the file for its URL and token (default: a new one, named on standard error); only its owner
      can read it.

    >>> operator = OperatorReset(by=lambda request: f"put back after: {request.detail}", who="night shift")
    >>> operator.perform(Request("cart", "reset", "the pole fell"))
    Answer(who='night shift', note='put back after: the pole fell')
    """

    by: str | Path | Ask | Channel = "terminal"
    deadline: Seconds | None = None
    who: Who = "operator"
    address: Path | None = None
    _way: Channel = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check(self.deadline, Seconds | None, "'deadline' of OperatorReset")
        check(self.who, Who, "'who' of OperatorReset")
        self._way = self._channel()

    def perform(self, request: Request) -> Answer:
        """Send the request, and return when the reset is performed."""
        reply: Any = self._way.ask(request, self.deadline)
        if isinstance(reply, Answer):
            return Answer(clean(reply.who, LONGEST["who"]) or self.who, clean(reply.note))
        if reply is None or isinstance(reply, str):
            return Answer(self.who, clean(reply or ""))
        raise InvalidInput(
            f"The function of OperatorReset must return an Answer, text or None. Got {type(reply).__name__} instead."
        )

    def close(self) -> None:
        """Close the endpoint or unlock the folder; also done when the process ends."""
        self._way.close()

    def _channel(self) -> Channel:
        by = self.by
        if isinstance(by, str):
            name, _, text = by.partition(":")
            known = CHANNELS.knows(name)
            if not known and ":" not in by:
                raise InvalidInput(f"The 'by' of OperatorReset must be {WAYS}. Got {by!r} instead.")
            channel = CHANNELS.find(name) if known else CHANNELS.load(by)
            if self.address is None or channel.takes_address:
                return channel.opened(text if known else "", self.who, self.address)
        if isinstance(by, Channel) and self.address is None:
            return by
        if self.address is not None:
            raise InvalidInput(f"The 'address' of OperatorReset is for 'http' only. Got it with {by!r} instead.")
        if isinstance(by, Path):
            return FolderChannel(by, self.who)
        if callable(by):
            return Callback(by)
        raise InvalidInput(f"The 'by' of OperatorReset must be {WAYS}. Got {by!r} instead.")
