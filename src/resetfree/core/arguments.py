"""What a user hands us, checked: each check returns the thing in the form that is worked with, or says what is wrong.

`what` is what the argument is called in the sentence: "'seed' of simulate".
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput

MOST_ENTRIES = 100_000_000  # of a sequence that is made into an array
LONGEST_NAME = 200  # bytes of a file's name: systems take 255, and ours grow endings
LONGEST_PATH = 4000  # bytes
LARGEST = 2**62  # of integers in an array
SHOWN = 80  # characters of a value in a sentence


def shown(value: Any) -> str:
    """A value as a sentence quotes it: short, on one line, and whatever it is.

    >>> shown("x" * 300)[-9:], shown([1, 2])
    ('xxxxxx...', '[1, 2]')
    """
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # somebody else's, or an integer of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def is_whole(value: Any) -> bool:
    """Whether it is an integer, Python's or NumPy's; True and False are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether it is a number, Python's or NumPy's; True and False are none."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(value: Any, what: str, least: int, most: int | None = None) -> int:
    """An integer within bounds.

    >>> whole(np.int64(3), "'seed' of simulate", 0)
    3
    >>> whole(1.5, "'seed' of simulate", 0)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'seed' of simulate must be an integer from 0. Got 1.5 instead.
    """
    good = is_whole(value)
    if not good or value < least or (most is not None and value > most):
        upto = f" to {most}" if good and value > least else ""
        raise InvalidInput(f"The {what} must be an integer from {least}{upto}. Got {shown(value)} instead.")
    return int(value)


def real(value: Any, what: str, *, finite: bool = True) -> float:
    """A number that is not negative; infinity only where it means something."""
    try:
        number = float(value) if is_number(value) else math.nan
    except OverflowError:
        number = math.inf
    if not number >= 0 or (finite and number == math.inf):
        kind = "a finite number" if finite else "a number"
        raise InvalidInput(f"The {what} must be {kind} that is not negative. Got {shown(value)} instead.")
    return number


def flag(value: Any, what: str) -> bool:
    """True or False, and nothing that is only like it."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"The {what} must be True or False. Got {shown(value)} instead.")
    return bool(value)


def words(value: Any, what: str) -> str:
    """Text that can be written and printed: bytes that are none (lone surrogates) and zeros are not."""
    good = isinstance(value, str) and "\0" not in value
    try:
        value.encode() if good else None
    except UnicodeEncodeError:
        good = False
    if not good:
        raise InvalidInput(f"The {what} must be text. Got {shown(value)} instead.")
    return str(value)


def is_sequence(value: Any) -> bool:
    """Whether it is a row of things: a list, a tuple, a range, text, an array."""
    return isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)


def array(given: Any, what: str, kind: type = np.float64) -> NDArray[Any]:
    """A new array of numbers; states and other counts (`kind` np.int64) must be whole.

    >>> array([1, 2], "'starts' of solve", np.int64)
    array([1, 2])
    >>> array(["x"], "'starts' of solve", np.int64)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'starts' of solve must be integers. Got ['x'] instead.
    """
    try:
        found = as_array(given, what)
        wrong = found.size > 0 and found.dtype.kind not in "biufO"
        if kind is np.int64 and not wrong:
            cut = found.dtype.kind == "f" and np.any(found != np.rint(found))
            wrong = bool(cut or np.any(np.abs(found) > LARGEST))
        if wrong:
            raise TypeError(found.dtype)
        return np.array(found, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInput):
            raise
        must = "integers" if kind is np.int64 else "numbers"
        raise InvalidInput(f"The {what} must be {must}. Got {shown(given)} instead.") from error


def as_array(given: Any, what: str) -> NDArray[Any]:
    """What NumPy makes of it, unless that is too large or no array."""
    if not isinstance(given, np.ndarray | type) and hasattr(given, "__len__"):
        n = len(given)
        if n > MOST_ENTRIES:
            raise InvalidInput(f"The {what} must have at most {MOST_ENTRIES} entries. Got {n} instead.")
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"The {what} must be an array. Got {shown(given)} instead.") from error
    if found.size > MOST_ENTRIES:
        raise InvalidInput(f"The {what} must have at most {MOST_ENTRIES} entries. Got {found.size} instead.")
    return found


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a device or a socket, which would be waited for, or never end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def path(given: Any, what: str) -> Path:
    """The name of a file that systems can hold, and people can read.

    >>> path("a" * 300, "'path' of learn")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'path' of learn must be made of names of at most 200 bytes.
    Got one of 300 instead.
    """
    if not isinstance(given, str | os.PathLike) or not isinstance(os.fspath(given), str):
        raise InvalidInput(f"The {what} must be the name of a file. Got {shown(given)} instead.")
    result = Path(words(os.fspath(given), what))
    lengths = [len(part.encode()) for part in result.parts]
    if max(lengths, default=0) > LONGEST_NAME or sum(lengths) > LONGEST_PATH:
        raise InvalidInput(
            f"The {what} must be made of names of at most {LONGEST_NAME} bytes. Got one of {max(lengths)} instead."
        )
    return result
