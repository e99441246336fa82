"""What is said between a run and its operator: sentences for people, JSON for programs."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from resetfree.core.errors import OperatorTimeout
from resetfree.problems.operators.request import Answer, Request

LONGEST = {"who": 200, "note": 4000, "detail": 4000}  # characters
REASONS = {
    "start": "the run is about to begin",
    "reset": "a reset state was entered",
    "resume": "the run was interrupted, and nobody knows where the system stands",
}


def clean(text: str, longest: int = LONGEST["note"]) -> str:
    r"""One line that does nothing to a terminal and can be kept: no control characters, no lone surrogates.

    >>> clean("pole\x1b[2J fell\n\tover ")
    'pole[2J fell over'
    """
    plain = "".join(c if c.isprintable() else " " if c.isspace() else "" for c in text)
    return " ".join(plain.split())[:longest].strip()


def sentence(request: Request) -> str:
    """What is asked, in words.

    >>> sentence(Request("cart", "reset", "the pole fell"))
    "'cart' needs a reset: a reset state was entered (the pole fell)."
    """
    why = REASONS.get(request.why, clean(request.why))
    detail = clean(request.detail, LONGEST["detail"])
    return f"'{clean(request.problem)}' needs a reset: {why}{f' ({detail})' if detail else ''}."


def as_json(request: Request, name: str, deadline: float | None) -> dict[str, Any]:
    """What programs are told: `id` tells one request from the others, `seconds` is how long it is waited for."""
    return {
        "id": name, "problem": clean(request.problem), "why": clean(request.why),
        "detail": clean(request.detail, LONGEST["detail"]), "asked": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": deadline,
    }  # fmt: skip


def check_reply(reply: Any, name: str, *, must_name: bool) -> dict[str, Any]:
    """A program's reply if it is one for this request; raises ValueError with what is wrong with it.

    reply: {"id": ..., "who": ..., "note": ..., "stop": true or false}, all but `id` optional.
    """
    if not isinstance(reply, dict):
        raise ValueError("The answer must be a JSON object.")
    unknown = sorted(map(clean, set(reply) - {"id", "who", "note", "stop"}))
    if unknown:
        raise ValueError(f"An answer has 'id', 'who', 'note' and 'stop'. Got '{unknown[0]}' instead.")
    if ("id" in reply or must_name) and reply.get("id") != name:
        raise LookupError("The answer is for another request: its 'id' is not the one that is waited for.")
    for key, kind in (("who", str), ("note", str), ("stop", bool)):
        if key in reply and not isinstance(reply[key], kind):
            raise ValueError(f"The '{key}' of an answer must be {'text' if kind is str else 'true or false'}.")
    return reply


def accept(reply: dict[str, Any], who: str) -> Answer:
    """The answer that a checked reply means; one with `stop` ends the run as Ctrl-C does."""
    if reply.get("stop", False):
        raise KeyboardInterrupt
    return Answer(clean(reply.get("who", ""), LONGEST["who"]) or who, clean(reply.get("note", "")))


def too_late(request: Request, deadline: float) -> OperatorTimeout:
    """Nobody came."""
    return OperatorTimeout(f"Nobody performed the reset of '{clean(request.problem)}' within {deadline:g} seconds.")


def announce(text: str) -> None:
    """Tell whoever looks at standard error, with a bell where that is a terminal."""
    if sys.stderr is not None and not sys.stderr.closed:
        bell = "\a" if sys.stderr.isatty() else ""
        print(f"{bell}{text}", file=sys.stderr, flush=True)
