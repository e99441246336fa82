"""Counts of a large finite problem as part of a player's state: they grow with what was seen, not with the problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.kernels.seen import EDGES, ROWS, STATES, Numbers, Seen, note
from resetfree.problem import Episode, Problem
from resetfree.transitions import Bools, Floats

ROOM = 1024  # entries of each array to begin with
SMALL = 10_000_000  # bytes up to which a player keeps the data of all pairs, and its passes go over all states


@dataclass
class SeenCounts:
    """The arrays of `kernels.seen.Seen`, whose first axis grows where it is full."""

    number: Numbers
    state: Numbers
    known: Bools
    known_last: Bools
    row: Numbers
    tried: NDArray[np.int64]
    earned: Floats
    moved: NDArray[np.int64]
    begin: NDArray[np.int64]
    room: Numbers
    used: Numbers
    successor: Numbers
    times: NDArray[np.int64]
    news: Numbers
    size: NDArray[np.int64]
    version: int  # episodes learned: a plan that was made at another one can no longer be extended
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @classmethod
    def nothing(cls, problem: Problem, pooled: bool) -> SeenCounts:
        """No state was seen yet."""
        assert problem.n_states is not None
        pairs = (ROOM, problem.n_actions)
        return cls(
            np.full(problem.n_states, -1, dtype=np.int32), np.zeros(ROOM, dtype=np.int32),
            np.zeros(ROOM, dtype=np.bool_), np.zeros(ROOM, dtype=np.bool_),
            np.full((ROOM, 1 if pooled else problem.horizon), -1, dtype=np.int32),
            np.zeros(pairs, dtype=np.int64), np.zeros(pairs), np.zeros(pairs, dtype=np.int64),
            np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int32), np.zeros(pairs, dtype=np.int32),
            np.zeros(ROOM, dtype=np.int32), np.zeros(ROOM, dtype=np.int64),
            np.zeros((problem.horizon, 2), dtype=np.int32), np.zeros(4, dtype=np.int64), 0,
            problem.n_transitions, problem.end_resets,
        )  # fmt: skip

    @property
    def counts(self) -> Seen:
        """As one record, for the kernels."""
        return Seen(*(getattr(self, name) for name in Seen._fields))

    def learn(self, episode: Episode) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state."""
        steps = len(episode.actions)
        self._room_for(STATES, steps + 1, ("state", "known", "known_last", "row"))
        self._room_for(ROWS, steps, ("tried", "earned", "moved", "begin", "room", "used"))
        h = note(self.counts, 0, episode.states, episode.actions, episode.rewards)
        while h < steps:
            self._room_for(EDGES, len(self.successor), ("successor", "times"))
            h = note(self.counts, h, episode.states, episode.actions, episode.rewards)
        if episode.reset:
            where = self.number[episode.states[-1]]
            self.known_last[where] = True
            if not self.end_resets or steps < self.n_transitions:
                self.known[where] = True
        self.version += 1

    def _room_for(self, what: int, more: int, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(self, name, longer(getattr(self, name), int(self.size[what]) + more, -1 if name == "row" else 0))


def longer(array: NDArray[Any], least: int, fill: int | None = None) -> NDArray[Any]:
    """The array with at least so many entries, and twice its own where it must grow: growing costs O(1) per entry.

    fill: what the new entries hold (default: anything).
    """
    if least <= len(array):
        return array
    grown = np.empty((max(least, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    if fill is not None:
        grown[len(array) :] = fill
    return grown
