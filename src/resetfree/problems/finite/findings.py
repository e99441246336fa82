"""Results of checks of assumptions: holds, fails with a witness, or not checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from resetfree.core.certificate import plain


@dataclass(frozen=True)
class Finding:
    """The verdict on one assumption, in one sentence that names its witness."""

    assumption: str  # "feasibility", "linearity" or "dual class"
    holds: bool | None  # None: not checked, or not decided; the sentence says why
    sentence: str
    witness: int | None = None  # the state at which it fails
    detail: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; what is not finite becomes None."""
        names = ("assumption", "holds", "sentence", "witness", "detail")
        result: dict[str, Any] = plain({name: getattr(self, name) for name in names})
        return result

    def __str__(self) -> str:
        verdict = {True: "holds", False: "FAILS", None: "not checked"}[self.holds]
        return f"{self.assumption}: {verdict}. {self.sentence}"


@dataclass(frozen=True)
class AssumptionReport:
    """The findings on all assumptions; true if feasibility holds and no assumption fails."""

    problem: str
    findings: tuple[Finding, ...]

    def __bool__(self) -> bool:
        feasible = any(finding.assumption == "feasibility" and finding.holds for finding in self.findings)
        return feasible and all(finding.holds is not False for finding in self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __getitem__(self, assumption: str) -> Finding:
        """The finding on one assumption, by name."""
        found = {finding.assumption: finding for finding in self.findings}
        return found[assumption]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"problem": self.problem, "holds": bool(self), "findings": [f.to_dict() for f in self.findings]}

    def __str__(self) -> str:
        return "\n".join([f"Assumptions of '{self.problem}'", *(f"  {finding}" for finding in self.findings)])
