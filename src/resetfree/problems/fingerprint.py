"""The identity of a problem and of a player's settings, as plain data that two processes can compare."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from resetfree.problems.contract import Problem, is_frozen

LISTED = 64  # entries of an array that are written out; larger ones are hashed


def fingerprint(problem: Problem) -> str:
    """SHA-256 of everything that affects episodes or what a learner sees; names of states do not count.

    >>> import resetfree as rf
    >>> ours, same, other = (rf.make("grid-v0", slip=slip).problem() for slip in (0.1, 0.1, 0.2))
    >>> fingerprint(ours) == fingerprint(same), fingerprint(ours) == fingerprint(other)
    (True, False)
    """
    digest = hashlib.sha256()
    parts = problem.description().identity
    for name in sorted(parts):
        _feed(digest, name, parts[name])
    return digest.hexdigest()


def describe(value: Any) -> Any:
    """A setting as data for JSON; equal settings give equal data.

    >>> describe({"a": np.float64(0.5), "b": (1, None), "c": float("inf"), "d": np.arange(2)})
    {'a': 0.5, 'b': [1, None], 'c': 'inf', 'd': [0, 1]}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return describe(value.item())
    if isinstance(value, int | float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, np.ndarray):
        if value.size <= LISTED or value.dtype.hasobject:
            return describe(value.tolist())
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha256": _hash(value)}
    if isinstance(value, Mapping):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: describe(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": type(value).__qualname__, **fields}
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _hash(array: np.ndarray[Any, Any]) -> str:
    digest = hashlib.sha256()
    _feed(digest, "", array)
    return digest.hexdigest()


def _feed(digest: Any, name: str, value: Any) -> None:
    """Hash names, types and shapes with the bytes, so that different problems give different input."""
    if is_frozen(value):
        for field in dataclasses.fields(value):
            _feed(digest, f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        digest.update(f"{name}:{value.dtype.str}{value.shape};".encode())
        digest.update(np.ascontiguousarray(value).data)
    else:
        digest.update(f"{name}:{describe(value)!r};".encode())
