"""One decorator for every kernel: compiled once, cached on disk, exact floating-point order kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

P = ParamSpec("P")
T = TypeVar("T")


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Numba's `njit` that keeps the function's type; no fast-math, so that comparisons are exact."""
    compiled: Callable[P, T] = numba.njit(cache=True, nogil=True)(function)
    return compiled
