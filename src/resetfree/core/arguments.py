"""Checks of users' arguments: each returns the value in its working type, or raises InvalidInput.

`what` is how the message names the argument: "'seed' of simulate".
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range, check, expect
from resetfree.core.settings import shown as shown  # for messages about arguments

MOST_ENTRIES = 100_000_000  # of a sequence that is made into an array
LONGEST_NAME = 200  # bytes of a file's name: systems allow 255, and endings are appended
LONGEST_PATH = 4000  # bytes
LARGEST = 2**62  # of integers in an array


def whole(value: Any, what: str, least: int, most: int | None = None) -> int:
    """An integer within bounds.

    >>> whole(np.int64(3), "'seed' of simulate", 0)
    3
    >>> whole(1.5, "'seed' of simulate", 0)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'seed' of simulate must be an integer from 0. Got 1.5 instead.
    """
    check(value, Annotated[int, Range(least, most)], what)
    return int(value)


def real(value: Any, what: str, *, finite: bool = True) -> float:
    """A number that is not negative; infinity only if `finite` is False."""
    check(value, Annotated[float, Range(0, None if finite else math.inf)], what)
    return float(value)


def is_function(value: Any) -> bool:
    """Whether it can be called for what it does; calling a class only makes an instance.

    >>> is_function(len), is_function(dict), is_function(5)
    (True, False, False)
    """
    return callable(value) and not isinstance(value, type)


def flag(value: Any, what: str) -> bool:
    """True or False, and nothing else that is truthy."""
    check(value, bool, what)
    return bool(value)


def words(value: Any, what: str) -> str:
    """Text that can be encoded and printed: no lone surrogates and no NUL."""
    good = isinstance(value, str) and "\0" not in value
    try:
        value.encode() if good else None
    except UnicodeEncodeError:
        good = False
    expect(good, what, "be text", value)
    return str(value)


def is_sequence(value: Any) -> bool:
    """Whether it is a sequence: a list, a tuple, a range, text, or an array with axes."""
    return isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim > 0)


def array(given: Any, what: str, kind: type = np.float64) -> NDArray[Any]:
    """A new array of numbers of type `kind`; for np.int64 they must be whole.

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
    """NumPy's array of it; raises InvalidInput if it is too large or not an array."""
    most = f"have at most {MOST_ENTRIES} entries"
    if not isinstance(given, np.ndarray | type) and hasattr(given, "__len__"):
        expect(len(given) <= MOST_ENTRIES, what, most, len(given))
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"The {what} must be an array. Got {shown(given)} instead.") from error
    expect(found.size <= MOST_ENTRIES, what, most, found.size)
    return found


def is_special(path: Path) -> bool:
    """Whether it is a pipe, a device or a socket, where reading may block or never end."""
    return path.exists() and not path.is_file() and not path.is_dir()


def path(given: Any, what: str) -> Path:
    """The name of a file, short enough for every system and printable.

    >>> path("a" * 300, "'path' of learn")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'path' of learn must be made of names of at most 200 bytes.
    Got one of 300 instead.
    """
    name = isinstance(given, str | os.PathLike) and isinstance(os.fspath(given), str)
    expect(name, what, "be the name of a file", given)
    result = Path(words(os.fspath(given), what))
    lengths = [len(part.encode()) for part in result.parts]
    longest = max(lengths, default=0)
    fits = longest <= LONGEST_NAME and sum(lengths) <= LONGEST_PATH
    expect(fits, what, f"be made of names of at most {LONGEST_NAME} bytes", got=f"one of {longest}")
    return result
