"""What a policy computes, as a formula of array operations: C and ONNX are written from it.

Legend: n numbers in, m out; S states, L layers (1, or one per step).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats

Operation: TypeAlias = Literal["observation", "affine", "scale", "tanh", "relu", "clip", "add", "argmax", "lookup"]


@dataclass(frozen=True, eq=False)
class Formula:
    """A vector of `size` numbers: an operation on those of other formulas, with arrays of its own."""

    operation: Operation
    size: int
    of: tuple[Formula, ...] = ()
    arrays: tuple[NDArray[Any], ...] = field(default=(), repr=False)

    def affine(self, weight: Floats, bias: Floats) -> Formula:
        """X W + b, with W [n, m] and b [m]."""
        return Formula("affine", len(bias), (self,), (weight, bias))

    def scale(self, factor: Floats, shift: Floats) -> Formula:
        """Factor x + shift, entry by entry."""
        return Formula("scale", self.size, (self,), (factor, shift))

    def tanh(self) -> Formula:
        """The hyperbolic tangent of each entry."""
        return Formula("tanh", self.size, (self,))

    def relu(self) -> Formula:
        """Max(x, 0) of each entry."""
        return Formula("relu", self.size, (self,))

    def clip(self, low: Floats | float, high: Floats | float) -> Formula:
        """The nearest vector between two."""
        ends = (np.array(np.broadcast_to(end, self.size), dtype=np.float64) for end in (low, high))
        return Formula("clip", self.size, (self,), tuple(ends))

    def add(self, other: Formula) -> Formula:
        """The sum of two vectors."""
        return Formula("add", self.size, (self, other))

    def argmax(self) -> Formula:
        """The place of the largest entry, the first one among ties."""
        return Formula("argmax", 1, (self,))

    def lookup(self, table: NDArray[np.int64]) -> Formula:
        """The entry of table [L, S] for a state that is a number, at the step of the episode."""
        return Formula("lookup", 1, (self,), (table,))

    def layers(self, layers: Sequence[tuple[Floats, Floats]], smooth: bool) -> Formula:
        """A network: affine layers, with tanh or rectified units between them."""
        found = self
        for i, (weight, bias) in enumerate(layers):
            if i:
                found = found.tanh() if smooth else found.relu()
            found = found.affine(weight, bias)
        return found

    def in_box(self, low: Floats, high: Floats) -> Formula:
        """The actions between `low` and `high` of numbers in [-1, 1]: `action_spaces.from_unit`."""
        return self.scale((high - low) / 2, (low + high) / 2).clip(low, high)

    def in_order(self) -> list[Formula]:
        """It and all that it is made of, each after what it needs.

        >>> x = Formula("observation", 2)
        >>> [one.operation for one in x.tanh().add(x).in_order()]
        ['observation', 'tanh', 'add']
        """
        found: list[Formula] = []
        for one in self.of:
            found += [part for part in one.in_order() if part not in found]
        return [*found, self]


@runtime_checkable
class HasFormula(Protocol):
    """A policy whose mode is a formula of the state: an action [A] of a box, or the number [1] of a choice."""

    def formula(self, state: Formula) -> Formula:
        """The mode in a state: the numbers of an observation, or the number of a counted one."""
