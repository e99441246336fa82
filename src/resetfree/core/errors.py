"""Every exception of ours: one sentence that says what was expected and what came."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ResetFreeError(Exception):
    """The root: catch this to catch everything that resetfree raises on purpose."""

    def __str__(self) -> str:
        """One line, whatever was quoted in it."""
        return " ".join(super().__str__().split())


class InvalidInput(ResetFreeError, ValueError):
    """An argument is not what the sentence says it must be."""


class UnknownName(ResetFreeError, LookupError):
    """A name that is not registered; near names are suggested.

    >>> str(UnknownName("problem", "grid-v1", ["grid-v0", "pits-v0"]))
    "There is no problem 'grid-v1'. Did you mean 'grid-v0'?"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        near = get_close_matches(name[:100], known, n=1)  # the time it takes grows with the length
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known) or 'none'}."
        super().__init__(f"There is no {kind} '{name}'. {hint}")


class AssumptionViolated(ResetFreeError):
    """A broken assumption of the paper, with the state that breaks it."""

    def __init__(self, sentence: str, *, assumption: str, witness: object) -> None:
        super().__init__(sentence)
        self.assumption = assumption
        self.witness = witness


class NotCertifiable(ResetFreeError):
    """The claim needs something (an oracle, a finite problem, a feature map) that is not there."""


class EnvironmentFailed(ResetFreeError):
    """The environment raised, or observed what cannot be, in the middle of an episode; the rounds before are whole."""


class OperatorTimeout(ResetFreeError):
    """Nobody performed a reset in time; what was played before is saved and can be resumed."""


class RunError(ResetFreeError):
    """A run file cannot be written, read or continued; the sentence says why, and what was in it stays in it."""
