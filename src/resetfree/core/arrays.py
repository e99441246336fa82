"""Array types (float64, Booleans, int64, of any shape), arrays that grow, and floats as fractions."""

from fractions import Fraction
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


def simplest_fraction(x: float) -> Fraction:
    """The first convergent of x that rounds to x.

    If x is the float nearest to a/b with b < 2**26, this is a/b: |x - a/b| < 1/(2 b^2), so a/b is a convergent
    (Legendre), and no fraction with a smaller denominator rounds to the same float.

    >>> simplest_fraction(0.1), simplest_fraction(1 / 3), simplest_fraction(0.75)
    (Fraction(1, 10), Fraction(1, 3), Fraction(3, 4))
    """
    exact = rest = Fraction(x)
    p0, q0, p1, q1 = 0, 1, 1, 0
    while True:
        whole = rest.numerator // rest.denominator
        p0, q0, p1, q1 = p1, q1, whole * p1 + p0, whole * q1 + q0
        found = Fraction(p1, q1)
        if found == exact or float(found) == x:
            return found
        rest = 1 / (rest - whole)
