"""One sentence for every refused option."""

from __future__ import annotations

from resetfree.core.errors import InvalidInput
from resetfree.problems.finite.checks import LONGEST

LARGEST = 30_000_000  # numbers that a registered problem is made of: a field of a million cells has 12 million
LAYERS = 10_000  # steps of a problem that keeps a table for each

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


def require_horizon(problem: str, horizon: int, least: int = 1, most: int = LONGEST, zero: str = "") -> None:
    """Refuse an episode that is too short or too long; `zero` says what 0 stands for where it may be given."""
    must = f"lie in {least}..{most}" + (f", or be 0 for {zero}" if zero else "")
    require(least <= horizon <= most or (horizon == 0 and bool(zero)), problem, "horizon", must, horizon)


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
