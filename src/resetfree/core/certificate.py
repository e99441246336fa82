"""A claim with both sides computed: what is compared, by how much it holds, and where it is tightest.

Legend: lhs and rhs the two sides, slack = how far the claim is from failing, witness = the start, round or state at
which it is tightest (or fails); status = what supports the claim here:
  proved          a theorem with the constants of this run; a broken learner or record makes it fail;
  checked         no theorem: it is true of every honest record, and a damaged or forged one makes it fail;
  tuned           a choice of constants that no theorem covers, so that it may fail;
  identity        algebra: it holds for every run, and checks the arithmetic of the computation, nothing else;
  stated          [lhs, rhs] holds a quantity that cannot be computed here: a bound to be used, nothing is compared;
  not applicable  the claim says nothing about this run, and why.
A claim is vacuous if it says no more than what is true of every run; a proved one may rest on events that have a small
probability of failing, each of which has a name, since several claims may rest on one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import NonNegative, check, expect, shown

Kind: TypeAlias = Literal["<=", "<", "=="]
Status: TypeAlias = Literal["proved", "checked", "tuned", "identity", "stated", "not applicable"]
COMPARED: tuple[Status, ...] = ("proved", "checked", "tuned", "identity")  # those that hold or fail


@dataclass(frozen=True)
class Certificate:
    """A claim `lhs kind rhs` with both sides computed.

    kind: "<=" and "==" hold up to `tolerance`; "<" must hold by more than `tolerance`, which is then the size of the
    rounding error: a strict claim is never carried by rounding. A side that is not a number makes every claim fail.
    status, why: see the legend; `why` is the sentence behind a status, and "not applicable" needs one.

    >>> c = Certificate("Resets are bounded", lhs=3.0, rhs=5.5, witness="round 7")
    >>> c.holds, c.slack
    (True, 2.5)
    >>> print(c)
    holds: Resets are bounded: 3 <= 5.5 (slack 2.5) [round 7]
    >>> Certificate("two ways agree", 1.0, 1.25, kind="==").holds
    False
    >>> print(Certificate("Resets are bounded", 3.0, 5.5, status="tuned", why="the width is tuned, not proved"))
    holds (tuned): Resets are bounded: 3 <= 5.5 (slack 2.5)
    >>> print(Certificate.not_applicable("Resets are bounded", "needs an oracle"))
    not applicable: Resets are bounded: needs an oracle
    >>> print(Certificate("Resets", 0.0, 5.5, status="stated", why="with probability at least 0.99"))
    stated: Resets: from 0 to 5.5: with probability at least 0.99
    """

    claim: str
    lhs: float
    rhs: float
    tolerance: float = 1e-9
    kind: Kind = "<="
    witness: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    status: Status = "proved"
    why: str = ""

    @classmethod
    def not_applicable(cls, claim: str, why: str) -> Certificate:
        """A certificate without numbers, with the reason why the claim does not apply."""
        return cls(claim, math.nan, math.nan, status="not applicable", why=why)

    def __post_init__(self) -> None:
        check(self.kind, Kind, "'kind' of Certificate")
        check(self.status, Status, "'status' of Certificate")
        expect(self.applies or self.why, "'why' of Certificate", f"say why it is {self.status}", got="nothing")
        for side in ("lhs", "rhs", "tolerance"):  # NumPy scalars and integers become plain floats
            given = getattr(self, side)
            try:
                object.__setattr__(self, side, float(given))
            except (TypeError, ValueError, OverflowError) as error:
                raise InvalidInput(
                    f"The '{side}' of Certificate must be a number. Got {shown(given)} instead."
                ) from error
        check(self.tolerance, NonNegative, "'tolerance' of Certificate")

    @property
    def slack(self) -> float:
        """Right minus left; for an equality -|rhs - lhs|, so that negative always means in the direction of failing."""
        if self.lhs == self.rhs:  # also where both are the same infinity
            return 0.0
        return self.rhs - self.lhs if self.kind != "==" else -abs(self.rhs - self.lhs)

    @property
    def applies(self) -> bool:
        """Whether the claim can hold or fail."""
        return self.status in COMPARED

    @property
    def refuted(self) -> bool:
        """Whether it fails though it must hold: all that is compared must, but for what is tuned."""
        return self.applies and self.status != "tuned" and not self.holds

    @property
    def vacuous(self) -> str:
        """Why the claim says nothing, in words; empty if it says something, or if that is not known (`beside`)."""
        if not self.detail.get("vacuous"):
            return ""
        beyond = "be below" if self.detail.get("trivial_side") == "right" else "exceed"
        return f"vacuous: no run can {beyond} {self.detail['trivial']:.6g}"

    @property
    def holds(self) -> bool:
        """Whether the claim is true of the two numbers, given the tolerance; False where it does not apply."""
        if not self.applies:
            return False
        return self.slack > self.tolerance if self.kind == "<" else self.slack >= -self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not finite becomes None.

        >>> Certificate("bounded", 1.0, float("inf")).to_dict()["rhs"] is None
        True
        >>> Certificate.not_applicable("bounded", "needs an oracle").to_dict()["holds"] is None
        True
        """
        names = ("claim", "lhs", "kind", "rhs", "tolerance", "slack", "holds", "witness", "detail", "status", "why")
        result: dict[str, Any] = plain({name: getattr(self, name) for name in names})
        if self.status == "not applicable":
            return {**result, "lhs": None, "rhs": None, "slack": None, "holds": None}
        return result if self.applies else {**result, "slack": None, "holds": None}

    def __str__(self) -> str:
        if not self.applies:
            interval = f"from {self.lhs:.9g} to {self.rhs:.9g}: " if self.status == "stated" else ""
            return f"{self.status}: {self.claim}: {interval}{self.why}"
        where = "" if self.witness is None else f" [{self.witness}]"
        verdict = ("holds" if self.holds else "FAILS") + (f" ({self.status})" if self.status != "proved" else "")
        return f"{verdict}: {self.claim}: {self.lhs:.9g} {self.kind} {self.rhs:.9g} (slack {self.slack:.3g}){where}"


def beside(
    claim: Certificate, *, most: float | None = None, least: float | None = None, always: bool = True
) -> Certificate:
    """The claim beside what is true of every run, with whether it says more in its detail.

    most: what the left side is at most, whatever happens: vacuous if the right side is no smaller.
    least: what the right side is at least, whatever happens: vacuous if the left side is no larger.
    always: of a claim about each round, whether that is so in all of them; only one is shown.

    >>> beside(Certificate("Resets", 548.0, 14523.0), most=1000.0).vacuous
    'vacuous: no run can exceed 1000'
    >>> beside(Certificate("Resets", 548.0, 900.0), most=1000.0).vacuous
    ''
    >>> beside(Certificate("Regret", -9000.0, 12.0), least=-8000.0).vacuous
    'vacuous: no run can be below -8000'
    """
    side, trivial = ("left", most) if most is not None else ("right", least)
    if trivial is None or claim.status == "not applicable":
        return claim
    nothing = claim.rhs >= trivial if side == "left" else claim.lhs <= trivial
    said: dict[str, Any] = {"trivial": float(trivial), "trivial_side": side}
    said |= {"vacuous": bool(nothing and always and (claim.holds or not claim.applies))}  # what is false says too much
    return replace(claim, detail={**claim.detail, **said})


def resting_on(claim: Certificate, **events: float) -> Certificate:
    """The claim with the events it rests on, by name, and the probability with which each fails at most."""
    likely = {name: p for name, p in events.items() if p > 0}
    if claim.status != "proved" or not likely:
        return claim
    return replace(claim, detail={**claim.detail, "may_fail": likely})


def failure_probability(claims: Iterable[Certificate]) -> float:
    """With which probability at most some claim fails that must hold: the sum over the events that they rest on.

    >>> claim = Certificate("a claim", 0.0, 1.0)
    >>> failure_probability([resting_on(claim, a=0.25), resting_on(claim, a=0.25, b=0.5)])
    0.75
    """
    events: dict[str, float] = {}
    for claim in claims:
        if claim.status == "proved":
            for name, p in claim.detail.get("may_fail", {}).items():
                events[name] = max(p, events.get(name, 0.0))
    return min(1.0, math.fsum(events.values()))


def over_rounds(
    claim: str,
    left: ArrayLike,
    right: ArrayLike,
    tolerance: ArrayLike = 1e-9,
    kind: Kind = "<=",
    *,
    detail: Mapping[str, Any] | None = None,
    status: Status = "proved",
    why: str = "",
) -> Certificate:
    """A claim about sums over the first k rounds: after the first round at which it fails, else after the last.

    left, right, tolerance: [K], or numbers that are the same for every k. Where the tolerance is not finite, so that
    rounding may be of any size, the left side is not a number.

    >>> print(over_rounds("the sum stays below", [1.0, 5.0, 3.0], [2.0, 4.0, 6.0]))
    FAILS: the sum stays below: 5 <= 4 (slack -1) [round 2]
    """
    sides = np.broadcast_arrays(np.asarray(left, dtype=np.float64), right, tolerance)
    lhs, rhs, tol = (np.atleast_1d(side) for side in sides)
    slack = rhs - lhs if kind != "==" else -np.abs(rhs - lhs)
    fails = ~(slack > tol if kind == "<" else slack >= -tol)
    k = int(np.argmax(fails)) if fails.any() else len(lhs) - 1
    tightest = int(np.argmin(slack))
    found = {"rounds": len(lhs), "tightest_round": tightest + 1, "tightest_slack": float(slack[tightest])}
    found |= detail or {}
    where = f"round {k + 1}"
    left_k, tol_k = (lhs[k], tol[k]) if np.isfinite(tol[k]) else (math.nan, 0.0)
    return Certificate(claim, left_k, rhs[k], tol_k, kind, witness=where, detail=found, status=status, why=why)


def in_every_round(
    claim: str,
    left: ArrayLike,
    right: ArrayLike,
    tolerance: float = 1e-9,
    *,
    status: Status = "proved",
    why: str = "",
) -> Certificate:
    """A claim left <= right about each round by itself: at the round at which it is tightest (or fails most).

    >>> print(in_every_round("each stays below", [1.0, 5.0, 3.0], [2.0, 4.0, 6.0]))
    FAILS: each stays below: 5 <= 4 (slack -1) [round 2]
    """
    lhs, rhs = np.broadcast_arrays(np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64))
    slack = np.where(np.isnan(rhs - lhs), -np.inf, rhs - lhs)  # what is not a number fails
    k, n_fails = int(np.argmin(slack)), int((slack < -tolerance).sum())
    found = {"rounds": len(slack), "violations": n_fails, "fraction": n_fails / len(slack)}
    left_k, tol_k = (lhs[k], tolerance) if math.isfinite(tolerance) else (math.nan, 0.0)
    where = f"round {k + 1}"
    return Certificate(claim, left_k, rhs[k], tol_k, witness=where, detail=found, status=status, why=why)


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
