"""Crafted arrays: .npz files whose arrays have the wrong kind, size or values, or lie about any of these."""

import io
import json
import random
import sqlite3
import struct
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.cells import dump, edit_json

EXTREMES: tuple[Any, ...] = (
    0, 1, -1, 2, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**53, 2**62, 2**63 - 1, -(2**63), 0.5, 1e-300, 1e300,
    float("nan"), float("inf"), -float("inf"),
)  # fmt: skip
DTYPES = (
    "?",
    "i1",
    "u1",
    "i2",
    "i4",
    ">i4",
    "i8",
    "u8",
    ">f8",
    "f2",
    "f4",
    "f8",
    "c16",
    "U3",
    "S5",
    "M8[s]",
    "V8",
    "g",
)
HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (400000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000000), }",
    "{'descr': '<f8', 'fortran_order': 7, 'shape': (2.5,), }",
    "{'descr': '|S2000000000', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<U500000000', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|V2147483647', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': [('a', '<f8', (1000000, 1000000))], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}",
    "{'descr': '<f8'", "(((((((((((", "{'shape': (1,)}", "\x00\x00\x00", "[" * 3000, "1" * 9000, "",
    "__import__('evil_code')", "{'descr': '<f8', 'fortran_order': False, 'shape': (1L,), }",
    "'''", "{'descr': '<f8', 'fortran_order': False, 'shape': (\n", "{'descr': \"<f8\n",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1," * 65 + "), }",
)  # fmt: skip
Members = list[tuple[str, bytes]]


def craft(packed: bytes, rng: random.Random, marker: Path) -> tuple[bytes, list[str]]:
    """An .npz with one to three of its members spoilt, and words for it; `marker` is what a pickle in it would make."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        members = [(item.filename, archive.read(item)) for item in archive.infolist()]
    at = rng.sample(range(len(members)), min(len(members), rng.choice((1, 1, 1, 2, 3))))
    words = [_member(members, one, rng, marker) for one in at]
    compression = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else zipfile.ZIP_STORED
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", compression) as archive:
        warnings.simplefilter("ignore")  # a name may stand there twice
        for name, data in members:
            if name:
                archive.writestr(name, data)
    packed = buffer.getvalue()
    if rng.random() < 0.08:  # the sizes that the archive itself tells, in its directory
        directory = packed.rfind(b"PK\x01\x02")
        field = directory + rng.choice((20, 24, 28, 42))
        packed = packed[:field] + struct.pack("<I", rng.choice((0, 2**31 - 1, 2**32 - 1))) + packed[field + 4 :]
        words.append(f"a field of the archive's directory at {field - directory}")
    return packed, words


def extremes(files: Sequence[Path]) -> Iterator[tuple[int, str, Any]]:
    """For each file, every array of numbers in its checkpoint with every value that should alarm whoever reads it."""
    for i, file in enumerate(files):
        with np.load(io.BytesIO(read_checkpoint(file)), allow_pickle=False) as arrays:
            for name in arrays.files:
                kind = arrays[name].dtype.kind
                values = (-1, 2**31 - 1, 2**63 - 1) if kind in "iu" else (float("nan"), float("inf"), 1e308)
                yield from ((i, name, value) for value in values if kind in "iuf")


def fill(packed: bytes, name: str, value: Any) -> tuple[bytes, list[str]]:
    """An .npz with one value everywhere in one of its arrays."""
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        held = {key: arrays[key] for key in arrays.files}
    if held[name].dtype.kind in "iu":
        info = np.iinfo(held[name].dtype)
        value = max(min(value, info.max), info.min)
    held[name] = np.full_like(held[name], value)
    buffer = io.BytesIO()
    np.savez(buffer, **held)
    return buffer.getvalue(), [f"'{name}' all entries = {value}"]


def read_checkpoint(file: Path) -> bytes:
    """The arrays in a run file's checkpoint, packed as they are."""
    connection = sqlite3.connect(file)
    try:
        return b"".join(row[0] for row in connection.execute("SELECT arrays FROM checkpoints ORDER BY part"))
    finally:
        connection.close()


def write_checkpoint(file: Path, packed: bytes) -> None:
    """Put others in their place."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    try:
        connection.execute("UPDATE checkpoints SET arrays = ? WHERE part = 0", (packed,))
        connection.execute("DELETE FROM checkpoints WHERE part > 0")
    finally:
        connection.close()


def _member(members: Members, at: int, rng: random.Random, marker: Path) -> str:
    name, data = members[at]
    way = rng.random()
    if way < 0.04:
        members[at] = ("", data)
        return f"'{name}' removed"
    if way < 0.08:
        other = rng.choice(("more.npy", "../../precious.txt", "/tmp/x", name, name.removesuffix(".npy"), "é.npy"))
        members.append((other, data))
        return f"'{name}' again as '{other}'"
    if way < 0.12:
        source, held = rng.choice(members)
        members[at] = (name, held)
        return f"'{source}' in the place of '{name}'"
    if way < 0.3:
        header = rng.choice(HEADERS)
        members[at] = (name, _npy(header, rng))
        return f"'{name}' with the header {header[:80]!r}"
    if way < 0.34:
        members[at] = (name, rng.choice((b"", b"\x93NUMPY", data[:-1], data[: len(data) // 2], data + b"more")))
        return f"'{name}' with {len(members[at][1])} bytes in place of {len(data)}"
    if way < 0.37:
        members[at] = (name, _pickle(marker))
        return f"'{name}' as a pickle"
    array = np.load(io.BytesIO(data), allow_pickle=False)
    made, words = spoil(array, rng)
    buffer = io.BytesIO()
    np.save(buffer, made, allow_pickle=False)
    members[at] = (name, buffer.getvalue())
    return f"'{name}' {words}"


def spoil(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    """An array like another but for one thing."""
    with np.errstate(all="ignore"):
        if array.dtype.kind in "US" and array.ndim == 0 and str(array)[:1] == "{":
            data, words = edit_json(json.loads(str(array)), rng)
            return np.array(dump(data)), f"text {words}"
        way = rng.choice((_extreme, _extreme, _extreme, _kind, _size, _size, _shape, _order))
        return way(np.array(array), rng)


def _extreme(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    """One entry, or all, as large or as strange as their kind allows."""
    value = rng.choice(EXTREMES)
    if array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        value = int(min(max(value if value == value else 0, info.min), info.max))
    elif array.dtype.kind not in "fcb":
        return np.zeros(array.shape), "of zeros"
    if array.size and array.ndim and rng.random() < 0.6:
        place = rng.randrange(array.size)
        array.reshape(-1)[place] = value
        return array, f"entry {place} = {value!r}"
    array[...] = value
    return array, f"all entries = {value!r}"


def _kind(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    dtype = rng.choice(DTYPES)
    try:
        made = array.astype(dtype)
    except (TypeError, ValueError):
        made = np.zeros(array.shape, dtype=dtype)
    return made, f"as {dtype}"


def _size(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    """Longer, shorter or empty along an axis."""
    if not array.ndim:
        made = np.repeat(array[None], rng.choice((0, 1, 2, 1000)), axis=0)
        return made, f"of shape {made.shape}"
    axis = rng.randrange(array.ndim)
    n = rng.choice((0, 1, array.shape[axis] - 1, array.shape[axis] + 1, 2 * array.shape[axis], 1000))
    made = np.take(array, np.arange(max(n, 0)) % max(array.shape[axis], 1), axis=axis) if array.size else array[None]
    return (made, f"of shape {made.shape}") if made.nbytes < 2**26 else (array[None], "with an axis more")


def _shape(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    made = rng.choice((array.reshape(-1), array[None], array[..., None], array.T, array.reshape(-1)[:0]))
    return np.ascontiguousarray(made) if made.ndim else made, f"of shape {made.shape}"


def _order(array: np.ndarray[Any, Any], rng: random.Random) -> tuple[np.ndarray[Any, Any], str]:
    if array.ndim > 1 and rng.random() < 0.5:
        return np.asfortranarray(array), "in Fortran's order"
    made = array.reshape(-1)[::-1].reshape(array.shape)
    return np.ascontiguousarray(made) if made.ndim else made, "backwards"


def _npy(header: str, rng: random.Random) -> bytes:
    text = header.encode("latin1") + b"\n"
    version = rng.choice((1, 1, 1, 2, 3, 9))
    length = struct.pack("<H" if version == 1 else "<I", rng.choice((len(text), len(text), len(text), 0, 60_000)))
    return b"\x93NUMPY" + bytes((version, 0)) + length + text + bytes(64)


class _Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def _pickle(marker: Path) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([_Touch(marker)], dtype=object), allow_pickle=True)
    return buffer.getvalue()
