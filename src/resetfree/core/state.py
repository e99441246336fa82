"""A player's state as named arrays and back: what checkpoints hold. Nothing is pickled.

A state is a dataclass whose fields are NumPy arrays, numbers, Booleans, text, or again dataclasses or named tuples of
those. A field with metadata {"saved": False} is a constant that `init` makes anew.

Compiled code trusts what a state holds, and a file may come from anybody. So what is loaded into a state of resetfree's
own must look like what `init` made: type and shape the same, numbers finite, whole numbers from 0. Metadata says where
it may be otherwise: {"grows": (0,)} the axes whose length may differ, {"least": -1} the least whole number (None: any),
{"fixed": True} nothing but the value that `init` makes. What else must hold, as ranges of indices, a method
`check_loaded(self)` of the state says with InvalidInput. A user's own state may be anything of the same kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from resetfree.core.errors import InvalidInput

OWN = f"{__name__.partition('.')[0]}."


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
    """Put what `dump` gave back into a fresh state of the same player, bit for bit; checked, see above.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class S:
    ...     theta: np.ndarray
    >>> load(S(np.zeros(2)), {"theta": np.array(["a", "b"])})
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The checkpoint's 'theta' must be float64. Got <U1 instead.
    """
    about = {f.name: f.metadata for f in fields(state)} if is_dataclass(state) else {}
    for name, value in _items(state):
        key = prefix + name
        if is_dataclass(value) or hasattr(value, "_fields"):
            load(value, saved, f"{key}.")
            continue
        if key not in saved:
            raise InvalidInput(f"The checkpoint has no '{key}': it belongs to another player or version.")
        _check(key, value, saved[key], about.get(name, {}), type(state).__module__.startswith(OWN))
        if isinstance(value, np.ndarray) and value.shape == saved[key].shape:
            value[...] = saved[key]
        elif isinstance(value, np.ndarray):
            setattr(state, name, np.ascontiguousarray(saved[key], dtype=value.dtype))
        elif isinstance(value, bool | int | float | str):
            setattr(state, name, type(value)(saved[key][()]))
    if hasattr(state, "check_loaded"):
        state.check_loaded()


def _check(key: str, fresh: Any, saved: np.ndarray[Any, Any], about: Mapping[str, Any], own: bool) -> None:
    """One array or number against what `init` made; `own`: of resetfree's own players."""
    like = np.asarray(fresh)
    kinds = "fi" if isinstance(fresh, float) else like.dtype.kind
    if saved.dtype.kind not in kinds or (own and like.ndim and saved.dtype != like.dtype):
        raise InvalidInput(f"The checkpoint's '{key}' must be {like.dtype}. Got {saved.dtype} instead.")
    if saved.ndim != like.ndim:
        raise InvalidInput(f"The checkpoint's '{key}' must have {like.ndim} axes. Got {saved.ndim} instead.")
    if not own:
        return
    grows = about.get("grows", ())
    if any(a != b for i, (a, b) in enumerate(zip(like.shape, saved.shape, strict=True)) if i not in grows):
        raise InvalidInput(f"The checkpoint's '{key}' must have shape {like.shape}. Got {saved.shape} instead.")
    if about.get("fixed") and not np.array_equal(saved, like):
        raise InvalidInput(f"The checkpoint's '{key}' must be what its player makes it. Got something else instead.")
    least = about.get("least", 0)
    if saved.dtype.kind == "f" and not about.get("fixed") and not np.isfinite(saved).all():
        raise InvalidInput(f"The checkpoint's '{key}' must hold finite numbers. Got others instead.")
    if saved.dtype.kind == "i" and saved.size and least is not None and saved.min() < least:
        raise InvalidInput(f"The checkpoint's '{key}' must hold numbers from {least}. Got {saved.min()} instead.")


def require(good: Any, what: str) -> None:
    """Refuse, in `check_loaded`, what compiled code must not see."""
    if not good:
        raise InvalidInput(f"The checkpoint's {what}.")


def within(array: np.ndarray[Any, Any], low: int, high: int) -> bool:
    """Whether all entries lie in low .. high - 1."""
    return not array.size or bool(array.min() >= low and array.max() < high)
