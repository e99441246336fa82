"""Sentences that primal players share about the problems that suit them, for `auto`."""

from __future__ import annotations

from resetfree.problems.contract import Problem

AHEAD = 200  # steps that are planned ahead where states are vectors: danger may come slowly


def steps_ahead(problem: Problem) -> int:
    """How far to plan where states are vectors; a reset is charged the same, the most that that many steps can earn."""
    return max(AHEAD, problem.horizon)


def vectors_words(size: int, ahead: int) -> str:
    """Why players for vectors of `size` numbers are chosen."""
    return f"states are vectors of {size}, and a reset is charged {ahead}, the most that {ahead} steps can earn"


def features_words(dimension: int, pooled: bool) -> str:
    """Why players for features of pairs are chosen."""
    data = "pooled over the steps, as the dynamics are stationary" if pooled else "one regression per step"
    return f"features of dimension {dimension} are given, so one pair informs about others; {data}"
