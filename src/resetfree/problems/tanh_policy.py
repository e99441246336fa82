"""The policy tanh(weight.s + bias) in a box of actions, and the one that takes every action equally likely."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.state import require
from resetfree.problems.action_spaces import Box, from_unit
from resetfree.problems.contract import Policy, State
from resetfree.problems.formula import Formula


@dataclass
class TanhPolicy(Policy):
    """The action middle + half tanh(weight.s + bias) of a box; without weights, any one in `reach` of the middle."""

    kind = "TanhPolicy"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "bias": "A", "low": "A", "high": "A"}
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]
    reach: float = 1.0  # part of the box

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all(), "policy must have a box of actions")
        require(0.0 <= self.reach <= 1.0, "policy must reach a part of its box")

    def same_as(self, other: TanhPolicy) -> bool:
        """Whether it acts like another one in the same box."""
        return np.array_equal(self.weight, other.weight) and np.array_equal(self.bias, other.bias)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action, the same at every step."""
        if not self.weight.any():
            return from_unit(self.reach * (2.0 * np.asarray(u) - 1.0), self.low, self.high)
        pushed = np.tanh(self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.bias)
        return from_unit(pushed, self.low, self.high)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export; without weights the middle of the box."""
        bias = self.bias if self.weight.any() else np.zeros_like(self.bias)
        return state.affine(self.weight.T, bias).tanh().in_box(self.low, self.high)


def no_policy(box: Box, size: int, reach: float = 1.0) -> TanhPolicy:
    """Every action of the box equally likely, or of the part of it around its middle."""
    return TanhPolicy(np.zeros((box.size, size)), np.zeros(box.size), *box.ends, reach)
