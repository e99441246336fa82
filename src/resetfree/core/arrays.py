"""Array types (float64, Booleans, int64, of any shape), and arrays that grow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


def longer(array: NDArray[Any], least: int, fill: int | None = None) -> NDArray[Any]:
    """The array with at least so many entries, and twice its own where it must grow: growing costs O(1) per entry.

    fill: what the new entries hold (default: anything).
    """
    if least <= len(array):
        return array
    grown = np.empty((max(least, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    if fill is not None:
        grown[len(array) :] = fill
    return grown
