"""Requests for resets at the terminal: a bell, a sentence, and Enter when it is done."""

import os
import select
import sys
import time

from resetfree.core.errors import InvalidInput, OperatorTimeout
from resetfree.core.interrupts import wait
from resetfree.problems.operators.channel import Channel, Request, clean, sentence, too_late

RING_AGAIN = 60.0  # seconds between two bells
LONGEST_LINE = 65_536  # bytes
QUIT = ("q", "quit")


class Terminal(Channel):
    """Requests at standard input, which must be a terminal: a pipe is not typed by a person.

    The prompt goes to the same terminal, wherever standard output and standard error go.
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
