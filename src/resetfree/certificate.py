"""A claim with both sides computed: what is compared, by how much it holds, and where it is tightest.

Legend: lhs and rhs the two sides, slack = how far the claim is from failing, witness = the start, round or state at
which it is tightest (or fails).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.errors import InvalidInput

Kind: TypeAlias = Literal["<=", "<", "=="]
KINDS: tuple[Kind, ...] = ("<=", "<", "==")


@dataclass(frozen=True)
class Certificate:
    """A claim `lhs kind rhs` with both sides computed.

    kind: "<=" and "==" hold up to `tolerance`; "<" must hold by more than `tolerance`, which is then the size of the
    rounding error: a strict claim is never carried by rounding. A side that is not a number makes every claim fail.

    >>> c = Certificate("Resets are bounded", lhs=3.0, rhs=5.5, witness="round 7")
    >>> c.holds, c.slack
    (True, 2.5)
    >>> print(c)
    holds: Resets are bounded: 3 <= 5.5 (slack 2.5) [round 7]
    >>> Certificate("two ways agree", 1.0, 1.25, kind="==").holds
    False
    """

    claim: str
    lhs: float
    rhs: float
    tolerance: float = 1e-9
    kind: Kind = "<="
    witness: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInput(
                f"The 'kind' of Certificate must be one of {', '.join(KINDS)}. Got {self.kind!r} instead."
            )
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise InvalidInput(
                f"The 'tolerance' of Certificate must be a finite number that is not negative. "
                f"Got {self.tolerance} instead."
            )
        for side in ("lhs", "rhs", "tolerance"):  # NumPy scalars and integers become plain floats
            object.__setattr__(self, side, float(getattr(self, side)))

    @property
    def slack(self) -> float:
        """Right minus left; for an equality -|rhs - lhs|, so that negative always means in the direction of failing."""
        if self.lhs == self.rhs:  # also where both are the same infinity
            return 0.0
        return self.rhs - self.lhs if self.kind != "==" else -abs(self.rhs - self.lhs)

    @property
    def holds(self) -> bool:
        """Whether the claim is true of the two numbers, given the tolerance."""
        return self.slack > self.tolerance if self.kind == "<" else self.slack >= -self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not finite becomes None.

        >>> Certificate("bounded", 1.0, float("inf")).to_dict()["rhs"] is None
        True
        """
        fields = {name: getattr(self, name) for name in ("claim", "lhs", "kind", "rhs", "tolerance", "slack", "holds")}
        result: dict[str, Any] = plain({**fields, "witness": self.witness, "detail": self.detail})
        return result

    def __str__(self) -> str:
        where = "" if self.witness is None else f" [{self.witness}]"
        verdict = "holds" if self.holds else "FAILS"
        return f"{verdict}: {self.claim}: {self.lhs:.9g} {self.kind} {self.rhs:.9g} (slack {self.slack:.3g}){where}"


def plain(value: Any) -> Any:
    """Numbers, arrays, mappings and sequences as data that JSON can hold; what is not finite becomes None.

    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), np.bool_(True))})
    {'a': [1.0, None], '2': [3, True]}
    """
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)
