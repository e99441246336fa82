"""A player's state as named arrays and back, for checkpoints, and named arrays as bytes. Nothing is pickled.

A state is any tree of dataclasses, named tuples, tuples, lists and dictionaries with text as keys, whose leaves are
NumPy or JAX arrays, numbers, Booleans, text or None. Its structure is the one that `init` made: the same fields, keys
and lengths; an array may change its shape, and None may become a leaf. A field with metadata {"saved": False} is a
constant that `init` makes again. One with {"saved_as": "rows"} is saved under that name: it was renamed, and files of
an earlier version stay readable. One with {"replayed": True} is computed from the recorded episodes: it is not saved,
and its part of the state has a method `replay(self, episode)`, called with one after the other (see `replay`).

Compiled code does not check a state, and a file may be forged. So what is loaded into a state of resetfree's own
players must have the type and shape that `init` made, finite numbers, and integers from 0. Metadata allows more:
{"grows": (0,)} the axes whose length may differ, {"least": -1} the least integer (None: any). {"fixed": True} allows
only the value that `init` made, and {"later": True} that a file of an earlier version lacks it. Further conditions,
such as ranges of indices, are checked by a method `check_loaded(self)` of the state, which raises InvalidInput. A
user's own state may change type and shape.

The bytes (`pack`, `unpack`) are uncompressed .npz, and safe if they are not trusted: sizes are checked first.
"""

import copy
import io
import math
import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect

MOST_AXES = 16
DTYPE = re.compile(r"[<|]([biuf][1248]|c8|c16|[US]\d{1,9})")
HEADER = re.compile(
    r"\{'descr': '([^']{1,12})', 'fortran_order': (True|False), 'shape': \((\d{0,18}(?:, ?\d{1,18})*,?)\), \} *\n"
)


def pack(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Named arrays as uncompressed .npz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(packed: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that `pack` packed; raises ValueError for anything else, and unpickles nothing.

    Sizes are compared with the number of bytes before memory is allocated, and headers are read by a pattern.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            items = archive.infolist()
            if any(item.compress_type != zipfile.ZIP_STORED for item in items):
                raise ValueError("its arrays are compressed, and must not be")  # a small file could fill memory
            if sum(item.file_size for item in items) > len(packed):
                raise ValueError("its arrays are larger than itself")  # several that share their bytes
            return {item.filename.removesuffix(".npy"): _npy_array(archive.read(item)) for item in items}
    except (zipfile.BadZipFile, EOFError, KeyError, OSError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(f"its arrays cannot be read ({error})") from error


def same_bits(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    """Whether two sets of arrays have the same names, types, shapes and bits."""
    return one.keys() == other.keys() and all(
        a.dtype == other[name].dtype and a.shape == other[name].shape and a.tobytes() == other[name].tobytes()
        for name, a in one.items()
    )


def _npy_array(data: bytes) -> NDArray[Any]:
    """One .npy file; raises ValueError."""
    if data[:6] != b"\x93NUMPY" or data[6:7] not in (b"\x01", b"\x02"):
        raise ValueError("an array in it is not in NumPy's format")
    prefix = 2 if data[6] == 1 else 4
    begin = 8 + prefix + int.from_bytes(data[8 : 8 + prefix], "little")
    found = HEADER.fullmatch(data[8 + prefix : begin].decode("latin-1"))
    if found is None:
        raise ValueError("an array in it has an unexpected header")
    dtype, shape = plain_dtype(found[1], len(data)), tuple(int(n) for n in found[3].split(",") if n.strip())
    n = math.prod(shape)
    if len(shape) > MOST_AXES or n * dtype.itemsize != len(data) - begin:
        raise ValueError(f"an array in it has {len(data) - begin} bytes for shape {shape}")
    flat = np.frombuffer(memoryview(data)[begin:], dtype=dtype, count=n) if n else np.empty(0, dtype=dtype)
    if dtype.kind == "b" and n and flat.view(np.uint8).max() > 1:
        raise ValueError("an array in it has Booleans other than 0 and 1")
    return flat.reshape(shape, order="F" if found[2] == "True" else "C").copy()


def plain_dtype(text: Any, most: int) -> np.dtype[Any]:
    """A type of numbers or text by NumPy's short name, of at most `most` bytes; raises ValueError."""
    if not isinstance(text, str) or DTYPE.fullmatch(text) is None:
        raise ValueError(f"an array in it has the type {str(text)[:20]!r}, which is not allowed")
    if text[1] in "US" and int(text[2:]) * (4 if text[1] == "U" else 1) > most:
        raise ValueError("an array in it has text that is longer than itself")
    try:
        return np.dtype(text)
    except TypeError as error:
        raise ValueError(f"an array in it has the type {text!r}, which does not exist") from error


OWN = f"{__name__.partition('.')[0]}."
NOTHING = np.empty(0, dtype="S1")  # None among the saved arrays
END = "\x1a"  # appended to a text that is empty or ends with NUL, which NumPy would drop
Saved = Mapping[str, np.ndarray[Any, Any]]


def saved_name(field: Field[Any]) -> str:
    """The name of a dataclass's field among the saved arrays."""
    return str(field.metadata.get("saved_as", field.name))


def _children(state: Any) -> list[tuple[str, Any, Mapping[str, Any]]] | None:
    """Names, values and metadata of the parts of a state; None for a leaf."""
    if is_dataclass(state) and not isinstance(state, type):
        kept = (f for f in fields(state) if f.metadata.get("saved", True) and not f.metadata.get("replayed"))
        return [(saved_name(f), getattr(state, f.name), f.metadata) for f in kept]
    if isinstance(state, tuple | list):
        names = getattr(state, "_fields", None) or map(str, range(len(state)))
        return [(name, value, {}) for name, value in zip(names, state, strict=True)]
    if isinstance(state, dict):
        return [(name, value, {}) for name, value in state.items()]
    return None


def dump(state: Any, prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Every saved leaf as an array, nested ones with dotted names.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class S:
    ...     theta: np.ndarray
    ...     k: int = 0
    >>> dump(S(np.array([1.5, 2.5]), 3))
    {'theta': array([1.5, 2.5]), 'k': array(3)}
    >>> dump({"layers": [np.zeros(2), None], "scale": (0.5,)}, "primal.")
    {'primal.layers.0': array([0., 0.]), 'primal.layers.1': array([], dtype='|S1'), 'primal.scale.0': array(0.5)}
    """
    result: dict[str, np.ndarray[Any, Any]] = {}
    for name, leaf in _leaves(state, prefix):
        if name in result:
            raise InvalidInput(f"The names in a player's state must differ. Got '{name}' twice.")
        result[name] = _array(leaf, name)
    return result


def _leaves(state: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    children = _children(state)
    if children is None:
        yield prefix.removesuffix(".") or "state", state
        return
    for name, value, _ in children:
        if not isinstance(name, str):
            raise InvalidInput(f"A player's state must have text as keys. Got {name!r} in '{prefix}' instead.")
        yield from _leaves(value, f"{prefix}{name}.")


def _array(leaf: Any, name: str) -> np.ndarray[Any, Any]:
    """One leaf as an array that a file can hold."""
    if leaf is None:
        return NOTHING
    if isinstance(leaf, str):
        return np.asarray(leaf if leaf and leaf[-1] not in ("\0", END) else leaf + END)
    if not (isinstance(leaf, np.ndarray | np.generic | bool | int | float | complex) or _is_jax(leaf)):
        raise InvalidInput(f"A player's state must hold arrays and numbers. Got {type(leaf).__name__} in '{name}'.")
    try:
        array = np.asarray(leaf)
    except TypeError as error:  # JAX arrays without plain numbers, such as typed random keys
        raise InvalidInput(
            f"A player's state must hold plain numbers. Got {leaf.dtype} in '{name}' instead."
        ) from error
    if array.dtype.isbuiltin == 2:  # a type of another package, such as bfloat16
        array = array.view(f"<u{array.dtype.itemsize}")
    return array if array.dtype.hasobject else array.astype(array.dtype.newbyteorder("<"), copy=False)


def check_arrays(saved: Saved) -> None:
    """Raise InvalidInput for arrays that a file cannot hold: objects, and types that differ between machines."""
    for name, array in saved.items():
        if DTYPE.fullmatch(array.dtype.str) is None:
            raise InvalidInput(
                f"A checkpoint must hold arrays of numbers or text. Got {array.dtype} in '{name}' instead."
            )


def check_structure(saved: Saved, first: Iterable[str], k: int) -> None:
    """Refuse the state of round k if its names are not those it began with: no fresh state could take it back."""
    if changed := saved.keys() ^ set(first):
        raise InvalidInput(
            f"The state of a player must keep its structure. Got '{min(changed)}' in round {k} or at the start only: "
            "keep the same fields, keys and lengths, and let arrays grow instead."
        )


def _is_jax(leaf: Any) -> bool:
    """Whether this is an array of JAX; false unless JAX has been imported."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(leaf, jax.Array)


def load(state: Any, saved: Saved, prefix: str = "") -> Any:
    """A player's fresh state with the result of `dump` put back, bit for bit; raises InvalidInput as described above.

    Dataclasses and arrays are filled in place; what is immutable (tuples, numbers) is replaced.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class S:
    ...     theta: np.ndarray
    >>> load(S(np.zeros(2)), {"theta": np.array(["a", "b"])})
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The checkpoint's 'theta' must be float64. Got <U1 instead.
    """
    return _load(state, saved, prefix, {}, False)


def _load(state: Any, saved: Saved, prefix: str, about: Mapping[str, Any], own: bool) -> Any:
    """`about`: metadata of the field that holds it; `own`: whether it belongs to a player of resetfree."""
    children = _children(state)
    if children is None:
        key = prefix.removesuffix(".") or "state"
        if key not in saved and about.get("later"):
            return state
        if key not in saved:
            raise InvalidInput(f"The checkpoint has no '{key}': it belongs to another player or version.")
        return _restored(key, state, saved[key], about, own)
    named = is_dataclass(state) or hasattr(state, "_fields")
    own = type(state).__module__.startswith(OWN) if named else own
    loaded = {
        name: _load(value, saved, f"{prefix}{name}.", known if is_dataclass(state) else about, own)
        for name, value, known in children
    }
    made = _with_children(state, loaded)
    if hasattr(made, "check_loaded"):
        made.check_loaded()
    return made


def _with_children(state: Any, loaded: dict[str, Any]) -> Any:
    """A tree with other children: the same object if it is mutable."""
    if isinstance(state, tuple):
        make = getattr(type(state), "_make", type(state))
        return make(loaded.values())
    if isinstance(state, list):
        state[:] = loaded.values()
    elif isinstance(state, dict):
        state.update(loaded)
    else:
        if type(state).__dataclass_params__.frozen:
            state = copy.copy(state)
        for field in fields(state):
            if (name := saved_name(field)) in loaded:
                object.__setattr__(state, field.name, loaded[name])
    return state


def _restored(key: str, fresh: Any, saved: np.ndarray[Any, Any], about: Mapping[str, Any], own: bool) -> Any:
    """One leaf, of the type that `init` made; a user's own state may have changed it."""
    nothing = saved.dtype == NOTHING.dtype and saved.shape == (0,) and getattr(fresh, "dtype", None) != saved.dtype
    if fresh is None or (nothing and not own):
        expect(nothing or not own, f"checkpoint's '{key}'", "be nothing", got=str(saved.dtype))
        return None if nothing else _leaf_of_none(saved)
    if not isinstance(fresh, bool | int | float | complex | str):
        like = np.asarray(fresh)
        if like.dtype.isbuiltin == 2 and saved.dtype == np.dtype(f"<u{like.dtype.itemsize}"):
            saved = saved.view(like.dtype)
    _check(key, fresh, saved, about, own)
    if isinstance(fresh, str):
        return type(fresh)(str(saved[()]).removesuffix(END))
    if isinstance(fresh, bool | int | float | complex):
        return type(fresh)(saved[()])
    if isinstance(fresh, np.generic):
        return fresh.dtype.type(saved[()])
    if not isinstance(fresh, np.ndarray):
        made = sys.modules["jax"].device_put(saved, fresh.sharding)
        if made.dtype != saved.dtype:
            raise InvalidInput(f"The checkpoint's '{key}' is {saved.dtype}, which JAX has not enabled here.")
        return made
    if fresh.shape == saved.shape and fresh.dtype.newbyteorder("<") == saved.dtype and fresh.flags.writeable:
        fresh[...] = saved
        return fresh
    return np.ascontiguousarray(saved, dtype=fresh.dtype if own else None).reshape(saved.shape)


def _leaf_of_none(saved: np.ndarray[Any, Any]) -> Any:
    """A leaf where `init` made None: a plain number or text if it can have been one."""
    if saved.ndim == 0 and saved.dtype.kind == "U":
        return str(saved[()]).removesuffix(END)
    return saved.item() if saved.ndim == 0 and saved.dtype.str in ("|b1", "<i8", "<f8", "<c16") else saved


def _check(key: str, fresh: Any, saved: np.ndarray[Any, Any], about: Mapping[str, Any], own: bool) -> None:
    """Compare one array or number with what `init` made; `own`: whether it belongs to a player of resetfree."""
    like = np.asarray(fresh)
    kinds = "fi" if isinstance(fresh, float) else "iu" if type(fresh) is int else like.dtype.kind
    what = f"checkpoint's '{key}'"
    typed = saved.dtype.kind in kinds and not (own and like.ndim and saved.dtype != like.dtype)
    expect(typed, what, f"be {like.dtype}", got=str(saved.dtype))
    expect(saved.ndim == like.ndim or (like.ndim and not own), what, f"have {like.ndim} axes", saved.ndim)
    if not own:
        return
    grows = about.get("grows", ())
    fits = all(a == b for i, (a, b) in enumerate(zip(like.shape, saved.shape, strict=True)) if i not in grows)
    expect(fits, what, f"have shape {like.shape}", saved.shape)
    if about.get("fixed"):
        expect(np.array_equal(saved, like), what, "be what its player makes it", got="something else")
    elif saved.dtype.kind == "f":
        expect(np.isfinite(saved).all(), what, "hold finite numbers", got="others")
    least = about.get("least", 0)
    if saved.dtype.kind == "i" and saved.size and least is not None:
        expect(saved.min() >= least, what, f"hold numbers from {least}", got=str(saved.min()))


def is_replayed(state: Any) -> bool:
    """Whether a part of the state is computed from the recorded episodes."""
    return next(_replayed(state), None) is not None


def replay(state: Any, episodes: Iterable[Any]) -> None:
    """Replay the episodes that a player has seen on its fresh state; call it before `load`."""
    parts = list(_replayed(state))
    if parts:
        for episode in episodes:
            for part in parts:
                part.replay(episode)


def _replayed(state: Any) -> Iterator[Any]:
    if is_dataclass(state) and any(f.metadata.get("replayed") for f in fields(state)):
        yield state
    for _, value, _ in _children(state) or ():
        yield from _replayed(value)


def require(good: Any, what: str) -> None:
    """Raise InvalidInput in `check_loaded` unless `good`."""
    if not good:
        raise InvalidInput(f"The checkpoint's {what}.")


def within(array: np.ndarray[Any, Any], low: int, high: int) -> bool:
    """Whether all entries lie in low .. high - 1."""
    return not array.size or bool(array.min() >= low and array.max() < high)
