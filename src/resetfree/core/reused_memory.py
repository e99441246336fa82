"""Memory for arrays that are made again and again: fresh pages of the system cost more than what is written to them.

A `Pool` has a few blocks, whose pages were all touched. What is decoded gets one of them for all its arrays; the block
is used again only when none of these arrays is left, whoever kept one. If no block is free, arrays are made as usual.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

ALIGNED = 64  # bytes: arrays begin at multiples of it
LEAST = 2**16  # bytes of a block
BLOCKS = 3  # one that is in use, one that comes next, and one that is being recorded
Empty: TypeAlias = Callable[[Any, tuple[int, ...], str], NDArray[Any]]  # (dtype, shape, order) -> an array to be filled


def fresh(dtype: Any, shape: tuple[int, ...], order: str) -> NDArray[Any]:
    """An array of its own."""
    return np.empty(shape, dtype=dtype, order=order)  # type: ignore[call-overload, no-any-return]


class _Block:
    """A piece of memory, lent as a whole.

    Arrays keep the array that they are views of, so that the one that was lent lives as long as any of them.
    """

    def __init__(self, size: int) -> None:
        whole = np.zeros(size + ALIGNED, dtype=np.uint8)
        whole[::1024] = 1  # every page is touched
        begin = -whole.ctypes.data % ALIGNED
        self.size = size
        self._memory = whole.data[begin : begin + size]
        self._lent: Callable[[], object] = lambda: None

    @property
    def is_free(self) -> bool:
        """Whether nothing that was made of it is left."""
        return self._lent() is None

    def lend(self) -> NDArray[np.uint8]:
        """All of it; only if it is free."""
        whole = np.frombuffer(self._memory, dtype=np.uint8)
        self._lent = weakref.ref(whole)
        return whole


class Lent:
    """Makes arrays one after the other in a block; what does not fit is made as usual."""

    def __init__(self, block: _Block | None) -> None:
        self._whole = None if block is None else block.lend()
        self._at = 0

    def __call__(self, dtype: Any, shape: tuple[int, ...], order: str) -> NDArray[Any]:
        """An array to be filled."""
        size = math.prod(shape) * dtype.itemsize
        begin = self._at
        if self._whole is None or begin + size > len(self._whole) or not size:
            return fresh(dtype, shape, order)
        self._at = begin + size + -size % ALIGNED
        flat: NDArray[Any] = self._whole[begin : begin + size].view(dtype)
        return flat.reshape(shape, order=order)  # type: ignore[call-overload, no-any-return]


class Pool:
    """Blocks that grow with what is asked for."""

    def __init__(self) -> None:
        self._blocks = [_Block(LEAST) for _ in range(BLOCKS)]

    def lend(self, size: int) -> Lent:
        """A free block with room for that many bytes and what lies between arrays; grows if there is none."""
        free = [i for i, block in enumerate(self._blocks) if block.is_free]
        room = size + size // 4 + LEAST // 2
        for i in free:
            if self._blocks[i].size >= room:
                return Lent(self._blocks[i])
        for i in free:  # all of them at once: the next ones will be as large
            self._blocks[i] = _Block(1 << room.bit_length())
        return Lent(self._blocks[free[0]] if free else None)
