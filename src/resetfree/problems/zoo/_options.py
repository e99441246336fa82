"""Limits of registered problems, and checks of options that must fit each other."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range
from resetfree.problems.finite.checks import LONGEST

LARGEST = 30_000_000  # numbers in the arrays of a registered problem: a field of a million cells has 12 million
LAYERS = 10_000  # steps of a problem with a table for each

Horizon: TypeAlias = Annotated[int, Range(1, LONGEST)]
HorizonOrNone: TypeAlias = Annotated[int, Range(0, LONGEST)]  # 0 for the default

STEP, LAYER = 400, 8000  # cost of a step in `ProblemSpec.entries` besides its states; with its own layer


def require(fine: bool, problem: str, option: str, must: str, got: object) -> None:
    """Raise InvalidInput unless an option's value is fine.

    >>> require(False, "pits-v0", "n", "be an integer of at least 2", 1)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The option 'n' of problem 'pits-v0' must be an integer of at least 2. Got 1
    instead.
    """
    if not fine:
        raise InvalidInput(f"The option '{option}' of problem '{problem}' must {must}. Got {got!r} instead.")


def require_size(problem: str, numbers: int) -> None:
    """Raise InvalidInput for options that need too much memory, before it is allocated.

    >>> require_size("pits-v0", 10**18)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The problem 'pits-v0' must have at most 30000000 numbers.
    Got 1000000000000000000 instead: lower its options.
    """
    if numbers > LARGEST:
        raise InvalidInput(
            f"The problem '{problem}' must have at most {LARGEST} numbers. Got {numbers} instead: lower its options."
        )
