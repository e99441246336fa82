"""A policy as a program for where Python is not: what C and ONNX files are written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.problems.action_spaces import Box
from resetfree.problems.formula import Formula, HasFormula
from resetfree.use.predictor import Predictor
from resetfree.use.sensors import size

OBSERVATION = "observation"


@dataclass(frozen=True, eq=False)
class PortablePolicy:
    """The mode of a policy from the environment's observation to its own action."""

    formula: Formula  # an action of a box, or the number of a choice
    kind: str
    horizon: int
    stationary: bool
    inputs: list[str]  # what the numbers of an observation are called
    first: int | None  # the least observation of those that are counted; None for vectors
    count: int  # how many observations are counted
    actions: NDArray[Any] | None  # [n, ...] the environment's own; None for a box

    @classmethod
    def of(cls, policy: Predictor) -> PortablePolicy:
        """The program of a policy; raises InvalidInput for one that only Python can compute."""
        sensor, rule = policy.sensor, policy.rule
        plain = sensor.to_plain()  # raises if there is a function in between
        if sensor.kind == "numbered" or not isinstance(rule, HasFormula):
            what = "its states are numbered as they appeared" if sensor.kind == "numbered" else f"it is a '{rule.kind}'"
            raise InvalidInput(
                f"Only tables, linear policies and networks are written as C or ONNX, and this policy is none: {what}. "
                "Name the file policy.npz instead, which read_policy reads."
            )
        counted = sensor.kind == "number"
        n = 1 if counted or sensor.kind == "scalar" else size(plain["space"])
        own = None if isinstance(policy.actions, Box) else np.asarray(policy.actions)
        if own is not None and own.dtype.kind not in "biuf":
            raise InvalidInput(
                "The actions of this policy are not numbers of one shape, and C and ONNX take no others."
            )
        if own is not None:
            own = own.astype(np.float64 if own.dtype.kind == "f" else np.int64)
        names = [OBSERVATION] if counted or sensor.kind == "scalar" else _names(plain["space"], "")
        return cls(
            rule.formula(Formula("observation", n)),
            rule.kind,
            policy.horizon,
            policy.stationary,
            names,
            first=sensor.first if counted else None,
            count=sensor.count,
            actions=own,
        )

    @property
    def n_actions(self) -> int:
        """How many numbers an action has."""
        return self.formula.size if self.actions is None else int(np.prod(self.actions.shape[1:]))

    @property
    def whole(self) -> bool:
        """Whether actions are whole numbers."""
        return self.actions is not None and self.actions.dtype.kind == "i"


def _names(space: dict[str, Any], name: str) -> list[str]:
    """What the numbers of an observation are called, in the order in which they are concatenated.

    >>> _names({"names": ["arm", "lamp"], "parts": [{"shape": [2]}, {"shape": []}]}, "")
    ['arm[0]', 'arm[1]', 'lamp']
    """
    if "parts" in space:
        keys = space.get("names", [f"{i}" for i in range(len(space["parts"]))])
        made = [f"{name}.{key}" if name else str(key) for key in keys]
        return [found for key, part in zip(made, space["parts"], strict=True) for found in _names(part, key)]
    n = size(space)
    return [f"{name or OBSERVATION}[{i}]" for i in range(n)] if space["shape"] else [name or OBSERVATION]
