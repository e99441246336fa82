"""Policies and plans as bytes and back, for another process: nothing is pickled, and bytes are not trusted.

A tree is made of dataclasses and named tuples (by module:qualname), tuples, lists and dictionaries with text as keys;
its leaves are arrays, numbers, Booleans, text or None. Anything else that NumPy takes as an array (an array of JAX, a
policy that is computed on request) becomes that array. Equal trees give equal bytes.

Layout: MAGIC, the length of the head, the head (JSON: the tree, with the type and shape of every array), the bytes of
all arrays in the order of the head. Legend of the head: a plain value is itself; a list begins with its kind:
  ["array", type, order, n, m, ...], ["number", type] (of NumPy), ["list", ...], ["tuple", ...], ["dict", {...}],
  ["class", "module:qualname", {field: ...}]
"""

import dataclasses
import hashlib
import inspect
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.state import DTYPE, MOST_AXES, plain_dtype, saved_name

MAGIC = b"rfp1"
HEAD = len(MAGIC) + 4
MOST_HEAD = 2**22  # bytes of a head, which takes some fifty times as much memory when it is read
DEEPEST = 32  # of trees in trees
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError)


def encode(value: Any) -> bytes:
    """The bytes of a tree; raises InvalidInput for what no other process can be given, such as a function.

    >>> decode(encode({"lam": 0.5, "rows": np.eye(2)}), {})
    {'lam': 0.5, 'rows': array([[1., 0.],
           [0., 1.]])}
    """
    parts: list[bytes] = []
    head = json.dumps(_head(value, parts, "plan", 0), separators=(",", ":")).encode("ascii")
    if len(head) > MOST_HEAD:
        raise InvalidInput(f"A plan must be arrays, not {len(head)} bytes of single numbers: keep them in arrays.")
    return b"".join((MAGIC, len(head).to_bytes(4, "little"), head, *parts))


def decode(data: bytes | memoryview, classes: Mapping[str, type]) -> Any:
    """The tree of `encode`, its arrays as copies; raises InvalidInput for any other bytes.

    classes: the dataclasses and named tuples that may be made, by module:qualname; see `by_name`.
    """
    data = memoryview(data)
    try:
        if len(data) < HEAD or data[: len(MAGIC)] != MAGIC:
            _refuse("it does not begin like one")
        length = int.from_bytes(data[len(MAGIC) : HEAD], "little")
        if length > min(MOST_HEAD, len(data) - HEAD):
            _refuse("its head is longer than itself")
        reader = _Reader(data, HEAD + length, classes)
        tree = reader.value(json.loads(bytes(data[HEAD : HEAD + length])), 0)
        if reader.at != len(data):
            _refuse(f"{len(data) - reader.at} bytes are left over")
        return tree
    except BROKEN as error:
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInput(f"The bytes of a plan must be those that another process encoded: {why}.") from error


def plan_digest(data: bytes | memoryview) -> int:
    """The first 48 bits of SHA-256.

    >>> hex(plan_digest(b""))
    '0xe3b0c44298fc'
    """
    return int.from_bytes(hashlib.sha256(data).digest()[:6], "big")


def by_name(*roots: type) -> dict[str, type]:
    """Every dataclass and named tuple among some classes and their subclasses, by module:qualname, for `decode`."""
    return {_name(cls): cls for root in roots for cls in _with_subclasses(root) if _is_record(cls)}


def _with_subclasses(cls: type) -> Iterator[type]:
    yield cls
    below: list[type] = cls.__subclasses__()
    for one in below:
        yield from _with_subclasses(one)


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_record(cls: type) -> bool:
    """Whether a class is a dataclass or a named tuple that can be made."""
    named = issubclass(cls, tuple) and hasattr(cls, "_fields")
    return (named or dataclasses.is_dataclass(cls)) and not inspect.isabstract(cls)


def _fields(cls: Any) -> dict[str, str]:
    """Stored name and name of each field."""
    if dataclasses.is_dataclass(cls):
        return {saved_name(field): field.name for field in dataclasses.fields(cls)}
    return {name: name for name in cls._fields}


def _head(value: Any, parts: list[bytes], where: str, deep: int) -> Any:
    """The head of a tree; the bytes of its arrays are appended to `parts`."""
    if deep > DEEPEST:
        raise InvalidInput(f"A plan must not be nested deeper than {DEEPEST}. Got more in '{where}' instead.")
    if isinstance(value, np.ndarray | np.generic):
        return _array_head(np.asarray(value), parts, where, single=isinstance(value, np.generic))
    if value is None or isinstance(value, bool | int | float | str):
        if type(value) not in (type(None), bool, int, float, str):
            raise InvalidInput(f"A plan must hold plain numbers and text. Got {type(value).__name__} in '{where}'.")
        return value
    if _is_record(type(value)):
        names = _fields(type(value)).items()
        head = {stored: _head(getattr(value, name), parts, f"{where}.{name}", deep + 1) for stored, name in names}
        return ["class", _name(type(value)), head]
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_head(one, parts, f"{where}.{i}", deep + 1) for i, one in enumerate(value))]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return ["dict", {key: _head(one, parts, f"{where}.{key}", deep + 1) for key, one in value.items()}]
    if hasattr(value, "__array__") and not isinstance(value, type):
        return _array_head(np.asarray(value), parts, where, single=False)
    what = "a function" if inspect.isroutine(value) else type(value).__name__
    raise InvalidInput(
        f"A plan for another process must hold arrays, numbers and text. Got {what} in '{where}' instead: let "
        "the player give a Policy that is a dataclass of arrays, or an array of probabilities."
    )


def _array_head(array: np.ndarray[Any, Any], parts: list[bytes], where: str, *, single: bool) -> list[Any]:
    plain = array if array.dtype.hasobject else array.astype(array.dtype.newbyteorder("<"), copy=False)
    if DTYPE.fullmatch(plain.dtype.str) is None or not plain.dtype.itemsize or plain.ndim > MOST_AXES:
        raise InvalidInput(f"A plan must hold arrays of numbers or text. Got {array.dtype} in '{where}' instead.")
    # Kept, since products of matrices in another order differ in the last bits.
    order = "F" if plain.flags.f_contiguous and not plain.flags.c_contiguous else "C"
    parts.append(plain.tobytes(order=order))  # type: ignore[arg-type]
    return ["number", plain.dtype.str] if single else ["array", plain.dtype.str, order, *plain.shape]


class _Reader:
    """Makes a tree from its head; `at` is where the bytes of the next array begin."""

    def __init__(self, data: memoryview, at: int, classes: Mapping[str, type]) -> None:
        self.data, self.at, self.classes = data, at, classes

    def value(self, head: Any, deep: int) -> Any:
        if deep > DEEPEST:
            _refuse(f"it is nested deeper than {DEEPEST}")
        if not isinstance(head, list | dict):
            return head
        kind, *rest = head if isinstance(head, list) and head else [None]
        if kind == "array":
            return self.array(*rest)
        if kind == "number":
            return self.array(*rest, "C")[()]
        if kind in ("list", "tuple"):
            made = [self.value(one, deep + 1) for one in rest]
            return made if kind == "list" else tuple(made)
        parts = rest[-1] if rest else None
        if kind not in ("dict", "class") or not isinstance(parts, dict) or len(rest) != (1 if kind == "dict" else 2):
            _refuse("a part of it is of no known kind")
        made_parts = {key: self.value(one, deep + 1) for key, one in parts.items()}
        return made_parts if kind == "dict" else self.made(rest[0], made_parts)

    def _known(self, name: str) -> type | None:
        """The class of that name; one of ours may have lain in another module when the bytes were written."""
        if name in self.classes or not name.startswith("resetfree."):
            return self.classes.get(name)
        within = name.partition(":")[2]
        ours = (cls for known, cls in self.classes.items() if known.startswith("resetfree."))
        return next((cls for cls in ours if cls.__qualname__ == within), None)

    def made(self, name: Any, parts: dict[str, Any]) -> Any:
        """The dataclass or named tuple of that name; its own checks are made."""
        cls: Any = self._known(name) if isinstance(name, str) else None
        if cls is None or not _is_record(cls):
            _refuse(f"it names the class {str(name)[:80]!r}, which is not known here")
        names = _fields(cls)
        if set(parts) != set(names):
            _refuse(f"it has other fields than {cls.__qualname__}")
        parts = {names[stored]: part for stored, part in parts.items()}
        later: dict[str, Any] = {}
        if dataclasses.is_dataclass(cls):
            later = {field.name: parts.pop(field.name) for field in dataclasses.fields(cls) if not field.init}
        found = cls(**parts)
        for field_name, value in later.items():
            object.__setattr__(found, field_name, value)
        if hasattr(found, "check_loaded"):
            found.check_loaded()
        return found

    def array(self, kind: Any, order: Any, *shape: Any) -> np.ndarray[Any, Any]:
        """A copy of the next array; its size is compared with the number of bytes before memory is allocated."""
        dtype, left = plain_dtype(kind, len(self.data)), len(self.data) - self.at
        if order not in ("C", "F") or len(shape) > MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
            _refuse("an array in it has no shape")
        n = math.prod(shape)
        if not dtype.itemsize or n * dtype.itemsize > left:
            _refuse(f"an array in it has only {left} bytes")
        flat = np.frombuffer(memoryview(self.data)[self.at :], dtype=dtype, count=n) if n else np.empty(0, dtype=dtype)
        if dtype.kind == "b" and n and flat.view(np.uint8).max() > 1:
            _refuse("an array in it has Booleans other than 0 and 1")
        self.at += n * dtype.itemsize
        return np.array(flat.reshape(shape, order=order), order="K")


def _refuse(why: str) -> NoReturn:
    raise ValueError(why)
