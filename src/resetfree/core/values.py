"""Kinds of values, and how a message quotes them."""

from __future__ import annotations

from typing import Any

import numpy as np

SHOWN = 80  # characters of a value in a message


def shown(value: Any) -> str:
    """Any value as a message quotes it: short and on one line.

    >>> shown("x" * 300)[-9:], shown([1, 2])
    ('xxxxxx...', '[1, 2]')
    """
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # of a foreign class, or an integer of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def is_whole(value: Any) -> bool:
    """Whether it is an integer of Python or NumPy; True and False are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_float(value: Any) -> bool:
    """Whether it is an integer or float of Python or NumPy that a float can hold, infinite or not."""
    try:
        return (is_whole(value) or isinstance(value, float | np.floating)) and float(value) is not None
    except OverflowError:
        return False
