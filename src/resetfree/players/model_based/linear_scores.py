"""The policy that takes the action of largest score: what searches among choices found in earlier versions."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.problems.contract import ChoicePolicy, State
from resetfree.problems.formula import Formula


@dataclass
class LinearScores(ChoicePolicy):
    """The action of largest weight[a].s + bias[a]; without weights, every action is equally likely."""

    kind = "LinearScores"
    axes: ClassVar[dict[str, str]] = {"weight": "AD", "bias": "A"}
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]

    def __call__(self, h: int, s: State) -> Floats:
        """Probabilities [A], the same at every step."""
        if not self.weight.any():
            return np.full(len(self.bias), 1.0 / len(self.bias))
        scores = self.weight @ np.atleast_1d(np.asarray(s, dtype=np.float64)) + self.bias
        row = np.zeros(len(scores))
        row[scores.argmax()] = 1.0
        return row

    def formula(self, state: Formula) -> Formula:
        """The mode, for export; without weights the first action."""
        bias = self.bias if self.weight.any() else np.zeros_like(self.bias)
        return state.affine(self.weight.T, bias).argmax()
