"""The moments of a run that a film shows: its first rollout, resets, and its last rollout.

Legend: a rollout begins with a reset (or with the run) and ends at the next (or with the run); titles call it a life. A
moment (k, h) is the state after h actions of episode k. Since an episode begins where the one before ended, h = 0 only
begins rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.runs.result import Run

MOST_FRAMES = 600  # of a film
MOST_RESETS = 10  # that are shown; of more, they are spread over the run
LONGEST_ROLLOUT = 200_000  # steps: the end of a longer rollout would take too long to play again
BEFORE_A_RESET = 40  # frames that lead to a reset, at most
AT_AN_END = 120  # frames of the first and of the last rollout, at most

Moment = tuple[int, int]


class FilmedRollout(NamedTuple):
    """Episodes from one reset to the next."""

    first: int  # its first episode, from 1
    last: int
    reset: bool  # whether it ended with a reset
    steps: int


class FilmScene(NamedTuple):
    """A part of a film."""

    title: str
    moments: tuple[Moment, ...]
    reset: bool  # whether its last moment is a reset


def rollouts_of(run: Run) -> list[FilmedRollout]:
    """The rollouts of a run, in order.

    >>> import resetfree as rf
    >>> [rollout[:3] for rollout in rollouts_of(rf.learn("grid-v0", episodes=6))]
    [(1, 1, True), (2, 4, True), (5, 5, True), (6, 6, False)]
    """
    resets = set((np.flatnonzero(run.columns["reset"]) + 1).tolist())
    requested = [
        one.k for one in run.interventions if 0 < one.k < len(run)
    ]  # also "resume" and "stuck" begin a rollout
    ends = sorted({*resets, *requested, *([len(run)] if len(run) else [])})
    steps = np.concatenate([[0], run.columns["steps"].cumsum()])
    return [
        FilmedRollout(first + 1, last, last in resets, int(steps[last] - steps[first]))
        for first, last in zip([0, *ends], ends, strict=False)
    ]


def scenes_of(run: Run) -> list[FilmScene]:
    """The scenes of a run's film, with at most `MOST_FRAMES` moments; raises InvalidInput for an empty run."""
    rollouts, steps = rollouts_of(run), run.columns["steps"]
    if not rollouts:
        raise InvalidInput("A film needs a run of at least one episode. Got none instead.")
    resets = [i for i, rollout in enumerate(rollouts) if rollout.reset]
    shown = spread(resets, MOST_RESETS)
    each = min(BEFORE_A_RESET, (MOST_FRAMES - 2 * AT_AN_END) // max(len(shown), 1))
    scenes = []
    if 0 not in shown or rollouts[0].steps > each:
        start = _moments(rollouts[0], steps, slice(0, min(AT_AN_END, rollouts[0].steps)))
        scenes.append(FilmScene("the first life", start, False))
    for number, i in enumerate(resets, 1):
        if i in shown:
            title = f"{'the first life, ' if i == 0 else ''}reset {number:,} of {len(resets):,}"
            scenes.append(FilmScene(title, _moments(rollouts[i], steps, slice(-each, None)), True))
    last = rollouts[-1]
    if not last.reset and len(rollouts) > 1:
        whole = last.steps <= LONGEST_ROLLOUT
        part = slice(-AT_AN_END, None) if whole else slice(0, AT_AN_END)
        scenes.append(
            FilmScene("the last life" if whole else "how the last life began", _moments(last, steps, part), False)
        )
    elif not last.reset and last.steps > AT_AN_END and last.steps <= LONGEST_ROLLOUT:
        scenes.append(FilmScene("how it ended", _moments(last, steps, slice(-AT_AN_END, None)), False))
    return scenes


def spread(these: Sequence[int], most: int) -> list[int]:
    """At most so many of them, the first and the last included.

    >>> spread([2, 3, 5, 8, 13], 3), spread([1], 3), spread([], 3)
    ([2, 5, 13], [1], [])
    """
    if len(these) <= most:
        return list(these)
    return [these[i] for i in np.linspace(0, len(these) - 1, most).round().astype(int).tolist()]


def _moments(rollout: FilmedRollout, steps: NDArray[Any], part: slice) -> tuple[Moment, ...]:
    """A part of the moments of a rollout, from 0 to its number of steps, without listing all of them."""
    ends = np.cumsum(steps[rollout.first - 1 : rollout.last])
    return tuple(_located(rollout, ends, range(rollout.steps + 1)[part]))


def _located(rollout: FilmedRollout, ends: NDArray[Any], at: Sequence[int]) -> Iterator[Moment]:
    for t in at:
        i = int(np.searchsorted(ends, t))  # the episode in which step t of the rollout lies
        yield rollout.first + i, t - (int(ends[i - 1]) if i else 0)
