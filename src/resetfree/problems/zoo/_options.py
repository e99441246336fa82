"""Limits of registered problems, and sentences for options that do not fit each other."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range
from resetfree.problems.finite.checks import LONGEST

LARGEST = 30_000_000  # numbers that a registered problem is made of: a field of a million cells has 12 million
LAYERS = 10_000  # steps of a problem that keeps a table for each

Horizon: TypeAlias = Annotated[int, Range(1, LONGEST)]
HorizonOrNone: TypeAlias = Annotated[int, Range(0, LONGEST)]  # 0 stands for the usual one

STEP, LAYER = 400, 8000  # what a step costs in `ProblemSpec.entries`, however few states there are; with its own layer


def require(fine: bool, problem: str, option: str, must: str, got: object) -> None:
    """Refuse an option's value in one sentence.

    >>> require(False, "pits-v0", "n", "be an integer of at least 2", 1)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The option 'n' of problem 'pits-v0' must be an integer of at least 2. Got 1
    instead.
    """
    if not fine:
        raise InvalidInput(f"The option '{option}' of problem '{problem}' must {must}. Got {got!r} instead.")


def require_size(problem: str, numbers: int) -> None:
    """Refuse options that ask for more than memory sensibly holds, before anything is made of them.

    >>> require_size("pits-v0", 10**18)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The problem 'pits-v0' must be made of at most 30000000 numbers.
    Its options ask for 1000000000000000000 instead: choose smaller ones.
    """
    if numbers > LARGEST:
        raise InvalidInput(
            f"The problem '{problem}' must be made of at most {LARGEST} numbers. "
            f"Its options ask for {numbers} instead: choose smaller ones."
        )
