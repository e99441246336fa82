"""What the page sends, checked key by key: each refusal is one sentence that is shown there."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from resetfree.core.errors import InvalidInput


def mapping(value: Any, what: str, keys: Iterable[str]) -> dict[str, Any]:
    """An object with no other keys than these.

    >>> mapping({"a": 1, "x": 2}, "request", ["a"])
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The request must have no other keys than a. Got 'x' instead.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The {what} must be an object. Got {kind(value)} instead.")
    known = list(keys)
    for key in value:
        if key not in known:
            raise InvalidInput(f"The {what} must have no other keys than {', '.join(known)}. Got {key!r:.60} instead.")
    return dict(value)


def whole(value: Any, what: str, least: int, most: int) -> int:
    """A whole number between two bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"The {what} must be a whole number from {least} to {most:,}. Got {shown(value)} instead.")
    return value


def number(value: Any, what: str, least: float, most: float) -> float:
    """A number between two bounds."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not least <= value <= most:
        raise InvalidInput(f"The {what} must be a number from {least:g} to {most:g}. Got {shown(value)} instead.")
    return float(value)


def truth(value: Any, what: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidInput(f"The {what} must be true or false. Got {shown(value)} instead.")
    return value


def text(value: Any, what: str, longest: int = 200) -> str:
    """Text that is not too long."""
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidInput(f"The {what} must be text of at most {longest} characters. Got {shown(value)} instead.")
    return value


def one_of(value: Any, what: str, known: Iterable[str]) -> str:
    """One of some words."""
    words = list(known)
    if value not in words:
        raise InvalidInput(f"The {what} must be one of {', '.join(words)}. Got {shown(value)} instead.")
    return str(value)


def kind(value: Any) -> str:
    """What JSON calls it."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), "a number")


def shown(value: Any) -> str:
    """A value as a sentence may quote it: short, and never a whole document.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    if isinstance(value, dict | list):
        return kind(value)
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of many digits"
    words = repr(value if not isinstance(value, str) or len(value) <= 40 else f"{value[:40]}...")
    return words
