"""One sentence for every refused option."""

from __future__ import annotations

from resetfree.errors import InvalidInput

STEP, LAYER = 400, 8000  # what a step costs in `ProblemSpec.entries`, however few states there are; with its own layer


def require(fine: bool, problem: str, option: str, must: str, got: object) -> None:
    """Refuse an option's value in one sentence.

    >>> require(False, "pits-v0", "n", "be an integer of at least 2", 1)
    Traceback (most recent call last):
    resetfree.errors.InvalidInput: The option 'n' of problem 'pits-v0' must be an integer of at least 2. Got 1 instead.
    """
    if not fine:
        raise InvalidInput(f"The option '{option}' of problem '{problem}' must {must}. Got {got!r} instead.")
