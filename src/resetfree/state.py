"""A player's state as named arrays and back: what checkpoints hold. Nothing is pickled.

A state is a dataclass whose fields are NumPy arrays, numbers, Booleans, text, or again dataclasses or named tuples of
those. A field with metadata {"saved": False} is a constant that `init` makes anew.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from resetfree.errors import InvalidInput


def _items(state: Any) -> list[tuple[str, Any]]:
    if is_dataclass(state):
        return [(f.name, getattr(state, f.name)) for f in fields(state) if f.metadata.get("saved", True)]
    return list(zip(state._fields, state, strict=True))


def dump(state: Any, prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Every saved field as an array, nested ones with dotted names.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class S:
    ...     theta: np.ndarray
    ...     k: int = 0
    >>> dump(S(np.array([1.5, 2.5]), 3))
    {'theta': array([1.5, 2.5]), 'k': array(3)}
    """
    result: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in _items(state):
        if is_dataclass(value) or hasattr(value, "_fields"):
            result |= dump(value, f"{prefix}{name}.")
        elif isinstance(value, np.ndarray | int | float | bool | str):
            result[prefix + name] = np.asarray(value)
        else:
            raise InvalidInput(
                f"A player's state must hold arrays and numbers. Got {type(value).__name__} in '{prefix}{name}'."
            )
    return result


def load(state: Any, saved: dict[str, np.ndarray[Any, Any]], prefix: str = "") -> None:
    """Put what `dump` gave back into a fresh state of the same player, bit for bit."""
    for name, value in _items(state):
        key = prefix + name
        if is_dataclass(value) or hasattr(value, "_fields"):
            load(value, saved, f"{key}.")
            continue
        if key not in saved:
            raise InvalidInput(f"The checkpoint has no '{key}': it belongs to another player or version.")
        if isinstance(value, np.ndarray) and value.shape == saved[key].shape:
            value[...] = saved[key]
        elif isinstance(value, np.ndarray):
            setattr(state, name, saved[key].astype(value.dtype))
        elif isinstance(value, bool | int | float | str):
            setattr(state, name, type(value)(saved[key][()]))
