"""A person performs the reset: the run pauses, sends a request, and waits for the answer.

At the terminal; by a function of the user; or through a folder, for shell scripts and other programs: `request.json`
exists while a request is open. It is answered by an `answer.json` beside it, or by removing it.
"""

import json
import os
import secrets
import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from filelock import lock_descriptor

from resetfree.core import InvalidInput, OperatorTimeout, Range, Rule, check, expect
from resetfree.core.interrupts import wait
from resetfree.core.system import Closes
from resetfree.problems.operators.channel import (
    CHANNELS,
    LONGEST,
    Answer,
    Channel,
    Request,
    accept,
    announce,
    as_json,
    check_reply,
    clean,
    sentence,
    too_late,
)


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
            expect(known or ":" in by, "'by' of OperatorReset", f"be {WAYS}", got=f"{by!r}")
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


POLL = 0.1  # seconds
LARGEST = 65_536  # bytes of an answer


class FolderChannel(Channel):
    """Requests through one folder, locked from the first request on: two runs would take each other's answers."""

    name = ""  # only for Python

    def __init__(self, folder: Path, who: str) -> None:
        expect(not folder.exists() or folder.is_dir(), "operator's folder", "be a folder", got=f"the file '{folder}'")
        self._folder, self._who = folder.absolute(), who
        self._request, self._answer = self._folder / "request.json", self._folder / "answer.json"
        self._lock = -1

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Write the request, and poll for the answer."""
        name = secrets.token_hex(8)
        try:
            self._hold()
            self._answer.unlink(missing_ok=True)  # it was not for this request
            self._publish(as_json(request, name, deadline))
            try:
                announce(f"{sentence(request)} Waiting for '{self._answer}', or for '{self._request}' to be removed.")
                return self._wait(request, name, deadline)
            finally:
                if self._is_there():
                    self._request.unlink(missing_ok=True)
                    self._answer.unlink(missing_ok=True)
        except OSError as error:
            raise InvalidInput(f"The operator's folder '{self._folder}' cannot be used: {error.strerror}.") from error

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _wait(self, request: Request, name: str, deadline: float | None) -> Answer:
        end = None if deadline is None else time.monotonic() + deadline
        seen, announced = "", ""  # what is wrong with the present answer, and what was announced of it
        while True:
            removed = not self._request.exists()  # before the answer is read: it may come just before the removal
            try:
                reply = self._read()
                if reply is not None:
                    return accept(check_reply(reply, name, must_name=False), self._who)
                wrong = ""
            except (ValueError, LookupError) as error:
                wrong = clean(str(error.args[0]))
            if removed and not self._is_there():  # the whole folder was removed
                raise OperatorTimeout(
                    f"No operator performed the reset of '{clean(request.problem)}': the operator's folder "
                    f"'{self._folder}' is gone."
                )
            if removed and not self._answer.exists():
                return Answer(self._who)
            if wrong and wrong == seen != announced:  # twice the same: it was not just being written
                announce(f"The answer in '{self._answer}' is not taken: {wrong}")
                announced = wrong
            seen = wrong
            if end is not None and time.monotonic() >= end:
                assert deadline is not None
                raise too_late(request, deadline)
            time.sleep(POLL)

    def _read(self) -> Any:
        """The answer, None if there is none yet; raises ValueError for one that is wrong or not complete."""
        try:
            with self._answer.open("rb") as file:
                text = file.read(LARGEST + 1)
        except (FileNotFoundError, IsADirectoryError):
            return None
        if not text.strip():
            return None
        if len(text) > LARGEST:
            raise ValueError(f"An answer has at most {LARGEST} bytes.")
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("It is not JSON (yet).") from error

    def _publish(self, data: dict[str, Any]) -> None:
        """Write the request atomically."""
        draft = self._folder / "request.json.new"
        draft.write_text(json.dumps(data, allow_nan=False) + "\n")
        draft.replace(self._request)

    def _hold(self) -> None:
        if self._lock >= 0:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            free = lock_descriptor(handle, blocking=False)
        except OSError:
            os.close(handle)
            raise
        if not free:
            os.close(handle)
            raise InvalidInput(f"The operator's folder '{self._folder}' is used by another run. Name another one.")
        self._lock = handle

    def _is_there(self) -> bool:
        """Whether the folder is still the one that was locked."""
        try:
            return os.path.samestat(os.fstat(self._lock), os.stat(self._folder / "lock"))
        except OSError:
            return False


RING_AGAIN = 60.0  # seconds between two bells
LONGEST_LINE = 65_536  # bytes
QUIT = ("q", "quit")


class Terminal(Channel):
    """Requests for resets at the terminal: a bell, a sentence, and Enter when it is done.

    Standard input must be a terminal: a pipe is not typed by a person. The prompt goes to the same terminal, wherever
    standard output and standard error go.
    """

    name = "terminal"

    def ask(self, request: Request, deadline: float | None) -> str:
        """Print the request, and return the note that was typed before Enter."""
        try:
            import termios
        except ImportError as error:
            raise InvalidInput("The operator 'terminal' needs POSIX. Use the operator 'http' or a folder.") from error
        source = _terminal()
        if source is None:
            raise OperatorTimeout(
                f"The reset of '{clean(request.problem)}' must be confirmed at a terminal. Got another standard input: "
                "use the operator 'http' or a folder."
            )
        limit = "" if deadline is None else f" You have {deadline:g} seconds."
        try:
            screen = os.open(os.ttyname(source), os.O_WRONLY | os.O_NOCTTY)
            try:
                termios.tcflush(source, termios.TCIFLUSH)  # drop what was typed before
                _write(
                    screen,
                    f"\a\n{sentence(request)}{limit}\n"
                    "Put it where it may start, then press Enter. A note may come first; q stops the run.\n> ",
                )
                line = _line(source, screen, deadline)
            finally:
                os.close(screen)
        except (OSError, termios.error) as error:  # the window was closed
            raise _gone(request) from error
        if line is None:
            assert deadline is not None
            raise too_late(request, deadline)
        if b"\n" not in line:
            raise _gone(request)
        note = clean(line.partition(b"\n")[0].decode(errors="replace"))
        if note.lower() in QUIT:
            raise KeyboardInterrupt
        return note


def _terminal() -> int | None:
    try:
        source = sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # none, closed, or not a file
        return None
    return source if os.isatty(source) else None


def _line(source: int, screen: int, deadline: float | None) -> bytes | None:
    """The bytes typed up to Enter or to the end of input; None after the deadline. Ctrl-C interrupts it."""
    typed = b""
    now = time.monotonic()
    end, ring = None if deadline is None else now + deadline, now + RING_AGAIN
    while b"\n" not in typed:
        now = time.monotonic()
        if end is not None and now >= end:
            _write(screen, "\n")
            return None
        if now >= ring:
            _write(screen, "\a")
            ring = now + RING_AGAIN
        if wait(lambda left: select.select([source], [], [], left)[0], min(ring, ring if end is None else end) - now):
            more = os.read(source, 4096)
            if not more:
                break
            typed = (typed + more)[-LONGEST_LINE:]
    return typed


def _write(screen: int, text: str) -> None:
    left = text.encode(errors="replace")
    while left:
        left = left[os.write(screen, left) :]


def _gone(request: Request) -> OperatorTimeout:
    return OperatorTimeout(
        f"No operator performed the reset of '{clean(request.problem)}': the input from the terminal ended."
    )
