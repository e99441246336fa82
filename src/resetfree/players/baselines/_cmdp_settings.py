"""Questions that the baselines from the CMDP literature ask about their settings."""

from __future__ import annotations

from math import isfinite

from resetfree.core.errors import InvalidInput, NotCertifiable
from resetfree.problems.contract import Problem


def finite(problem: Problem, name: str) -> int:
    """S, or a sentence that there must be one."""
    if problem.n_states is None:
        raise NotCertifiable(f"The player '{name}' needs a finite problem. Got a continuum of states instead.")
    return problem.n_states


def positive_episodes(episodes: int, name: str) -> int:
    """K, for constants that must know it."""
    if episodes < 1:
        raise InvalidInput(f"The 'episodes' of {name} must be a positive integer. Got {episodes} instead.")
    return episodes


def check_numbers(name: str, **values: float | None) -> None:
    """Settings that must be finite and not negative, where they are given."""
    for what, value in values.items():
        if value is not None and not (isfinite(value) and value >= 0):
            raise InvalidInput(
                f"The '{what}' of {name} must be a finite number that is not negative. Got {value} instead."
            )
