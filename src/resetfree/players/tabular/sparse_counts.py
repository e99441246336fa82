"""Counts of a large finite problem as part of a player's state: they grow with what was seen, not with the problem."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.state import require, within
from resetfree.players.tabular.counts import mark_reset
from resetfree.players.tabular.visited import EDGES, ROWS, STATES, Numbers, Seen, note
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.transitions import Bools, Floats

ROOM = 1024  # entries of each array to begin with
GROWING = {"grows": (0,)}
BY_STATE, BY_EDGE = ("state", "known", "known_last", "row"), ("successor", "times")
BY_ROW = ("tried", "earned", "moved", "begin", "room", "used")
SMALL = 10_000_000  # bytes up to which a player keeps the data of all pairs, and its passes go over all states


@dataclass
class SeenCounts:
    """The arrays of `visited.Seen`, whose first axis grows where it is full."""

    number: Numbers = field(metadata={"least": -1})
    state: Numbers = field(metadata=GROWING)
    known: Bools = field(metadata=GROWING)
    known_last: Bools = field(metadata=GROWING)
    row: Numbers = field(metadata={**GROWING, "least": -1})
    tried: NDArray[np.int64] = field(metadata=GROWING)
    earned: Floats = field(metadata=GROWING)
    moved: NDArray[np.int64] = field(metadata=GROWING)
    begin: NDArray[np.int64] = field(metadata=GROWING)
    room: Numbers = field(metadata=GROWING)
    used: Numbers = field(metadata=GROWING)
    successor: Numbers = field(metadata=GROWING)
    times: NDArray[np.int64] = field(metadata=GROWING)
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
            number=np.full(problem.n_states, -1, dtype=np.int32),
            state=np.zeros(ROOM, dtype=np.int32),
            known=np.zeros(ROOM, dtype=np.bool_),
            known_last=np.zeros(ROOM, dtype=np.bool_),
            row=np.full((ROOM, 1 if pooled else problem.horizon), -1, dtype=np.int32),
            tried=np.zeros(pairs, dtype=np.int64),
            earned=np.zeros(pairs),
            moved=np.zeros(pairs, dtype=np.int64),
            begin=np.zeros(pairs, dtype=np.int64),
            room=np.zeros(pairs, dtype=np.int32),
            used=np.zeros(pairs, dtype=np.int32),
            successor=np.zeros(ROOM, dtype=np.int32),
            times=np.zeros(ROOM, dtype=np.int64),
            news=np.zeros((problem.horizon, 2), dtype=np.int32),
            size=np.zeros(4, dtype=np.int64),
            version=0,
            n_transitions=problem.n_transitions,
            end_resets=problem.end_resets,
        )

    @property
    def counts(self) -> Seen:
        """As one record, for the kernels."""
        return Seen(*(getattr(self, name) for name in Seen._fields))

    def learn(self, episode: Episode) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state."""
        steps = len(episode.actions)
        self._room_for(STATES, steps + 1, BY_STATE)
        self._room_for(ROWS, steps, BY_ROW)
        h = note(self.counts, 0, episode.states, episode.actions, episode.rewards)
        while h < steps:
            self._room_for(EDGES, len(self.successor), BY_EDGE)
            h = note(self.counts, h, episode.states, episode.actions, episode.rewards)
        if episode.reset:
            mark_reset(self, episode, self.number[episode.states[-1]])
        self.version += 1

    def check_loaded(self) -> None:
        """Numbers of states, rows and places for edges lie within what there is."""
        for names in (BY_STATE, BY_ROW, BY_EDGE):
            require(
                len({len(getattr(self, name)) for name in names}) == 1, f"{' and '.join(names)} must be of one size"
            )
        n, rows, edges, news = self.size.tolist()
        fits = n <= len(self.state) and rows <= len(self.tried) and edges <= len(self.successor)
        require(fits and news <= len(self.news), "'size' must be within its arrays")
        require(within(self.number, -1, n) and within(self.state[:n], 0, len(self.number)), "states are not numbered")
        require((self.number[self.state[:n]] == np.arange(n)).all(), "states must be numbered one by one")
        require(within(self.row, -1, rows), "rows must be among those there are")
        ends = self.begin + self.room
        require((self.used <= self.room).all() and within(ends, 0, edges + 1), "edges must be among those there are")
        require(within(self.successor[:edges], 0, max(n, 1)), "successors must be numbers of states")
        require(within(self.news[:news], 0, n), "new edges must be between states that were seen")

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
