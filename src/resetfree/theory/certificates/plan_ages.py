"""How old the plans of a run were, as it recorded them, and the claims about that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.certificate import Certificate
from resetfree.game.capabilities import PlanAges
from resetfree.theory.certificates.record import Record, count_rounds
from resetfree.theory.delay import before_resets, delays

NOWHERE = -1  # the whole number that stands for an end where a reset must be performed first


def plan_ages(run: Record) -> PlanAges | None:
    """The ages of its plans; None for a run without delay, whose plans are always new.

    Raises InvalidInput for plans that rest on rounds which were not over.
    """
    c = run.columns
    if "based_on" not in c:
        return None
    late, on = delays(c["based_on"]), c["based_on"].astype(np.int64)
    starts = made_for(c["s1"], c["next_start"], c["reset"])
    if starts.dtype == object:
        own = np.array([np.array_equal(starts[j], s) for j, s in zip(on, c["s1"], strict=True)], dtype=np.bool_)
    else:
        own = starts[on] == c["s1"]
    return PlanAges(on, late, starts, own)


def made_for(s1: NDArray[Any], ends: NDArray[Any], reset: NDArray[Any]) -> NDArray[Any]:
    """[K] by j = 0 .. K - 1: the start that the plan of j is made for.

    The first start; then where round j ended, or, where a reset had to be performed first, the start of the newest life
    (of the newest round that began after a reset, or of round 1).

    >>> made_for(np.array([7, 3, 5, 4]), np.array([3, -1, 4, 2]), np.array([False, True, False, False])).tolist()
    [7, 3, 7, 4]
    """
    found, n = s1.copy(), len(s1)
    life = np.maximum.accumulate(np.where(np.append(True, reset[:-1])[:n], np.arange(n), 0))
    if ends.dtype == object:
        nowhere = np.array([end is None for end in ends], dtype=np.bool_)
    else:
        nowhere = ends == NOWHERE if ends.dtype.kind in "iu" else np.isnan(ends)
    found[1:] = np.where(nowhere, s1[life], ends)[:-1]
    return found


def held_actions(run: Record) -> str:
    """Why claims about what policies did say nothing of this run; empty if every action was the plan's.

    Where a deadline is missed the last action is held, or a fallback acts: what happened is not the plan's doing.
    """
    missed = np.flatnonzero(run.columns.get("missed", 0))
    if not len(missed):
        return ""
    return f"deadlines were missed in {len(missed)} rounds (first in round {missed[0] + 1}): not only the plans acted"


def age_claims(run: Record) -> list[Certificate]:
    """That plans rest on the past and on every reset: what a game with delay promises; none for other runs."""
    if "based_on" not in run.columns:
        return []
    on, reset = run.columns["based_on"], run.columns["reset"]
    wrong = (on < np.maximum.accumulate(np.append(0, on))[:-1]) | (on > np.arange(len(on)))
    past = "every plan rests on rounds that were over, and none is older than the one before (rounds in which it is)"
    rests = "after every reset the plan rests on it (rounds in which it does not)"
    return [count_rounds(past, wrong), count_rounds(rests, before_resets(on, reset))]
