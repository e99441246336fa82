"""Limits of registered problems, and checks of options that must fit each other."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.core.settings import Range
from resetfree.problems.finite.checks import LONGEST

LAYERS = 10_000  # steps of a problem with a table for each

Horizon: TypeAlias = Annotated[int, Range(1, LONGEST)]
HorizonOrNone: TypeAlias = Annotated[int, Range(0, LONGEST)]  # 0 for the default

STEP, LAYER = 400, 8000  # work of a step besides its states; with its own layer


def require(fine: bool, problem: str, option: str, must: str, got: object) -> None:
    """Raise InvalidInput unless an option's value is fine.

    >>> require(False, "pits-v0", "n", "be an integer of at least 2", 1)
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The option 'n' of problem 'pits-v0' must be an integer of at least 2. Got 1
    instead.
    """
    if not fine:
        raise InvalidInput(f"The option '{option}' of problem '{problem}' must {must}. Got {got!r} instead.")
