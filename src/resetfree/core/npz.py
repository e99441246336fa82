"""Named arrays as bytes and back, safe for untrusted bytes: uncompressed .npz, sizes checked first, no pickle."""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
            return {item.filename.removesuffix(".npy"): _array(archive.read(item)) for item in items}
    except (zipfile.BadZipFile, EOFError, KeyError, OSError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(f"its arrays cannot be read ({error})") from error


def same_bits(one: dict[str, NDArray[Any]], other: dict[str, NDArray[Any]]) -> bool:
    """Whether two sets of arrays have the same names, types, shapes and bits."""
    return one.keys() == other.keys() and all(
        a.dtype == other[name].dtype and a.shape == other[name].shape and a.tobytes() == other[name].tobytes()
        for name, a in one.items()
    )


def _array(data: bytes) -> NDArray[Any]:
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
