"""Counts of a finite problem as (part of) a player's state: how they begin, how they grow, what is too large."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.core.state import require, within
from resetfree.players.requirements import sizes
from resetfree.players.tabular.action_values import Counts, count
from resetfree.problems.contract import Episode, Problem
from resetfree.problems.finite.transitions import Bools, Floats

ROOM = 4  # successors per pair to begin with; rows grow as more are seen
GROWING = {"grows": (3,)}  # successors per pair
LARGEST = 50_000_000  # entries of counts that are still sensible (400 MB)


@dataclass
class HasCounts:
    """How often each transition was seen, pooled over the steps (one layer) or not: (part of) a state."""

    tried: NDArray[np.int64]  # [L, S, A]
    earned: Floats  # [L, S, A]
    moved: NDArray[np.int64]  # [L, S, A]
    successor: NDArray[np.int32] = field(metadata=GROWING)  # [L, S, A, W]
    seen: NDArray[np.int64] = field(metadata=GROWING)  # [L, S, A, W]
    known: Bools  # [S] states whose entering was a reset
    known_last: Bools  # [S] likewise at the end of an episode
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @property
    def counts(self) -> Counts:
        """The counts as one record, for the kernels."""
        return Counts(self.tried, self.earned, self.moved, self.successor, self.seen, self.known, self.known_last)

    def check_loaded(self) -> None:
        """Check loaded counts: successors are states."""
        require(self.successor.shape == self.seen.shape, "successors and their numbers must have one shape")
        require(within(self.successor, 0, len(self.known)), "successors must be states")

    def absorb(self, episode: Episode) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state.

        Rows grow where a pair has more successors than room.
        """
        h = count(self.counts, 0, episode.states, episode.actions, episode.rewards)
        while h < len(episode.actions):
            self.successor = np.concatenate([self.successor, np.zeros_like(self.successor)], axis=3)
            self.seen = np.concatenate([self.seen, np.zeros_like(self.seen)], axis=3)
            h = count(self.counts, h, episode.states, episode.actions, episode.rewards)
        if episode.reset:
            mark_reset(self, episode, episode.states[-1])


class Counted(HasCounts):
    """A state of counts alone, or that part of one."""

    @classmethod
    def nothing(cls, problem: Problem, pooled: bool, name: str) -> Counted:
        """No data yet; refuses what the player called `name` cannot count."""
        rows = sizes(problem, pooled, name)
        entries = ROOM * rows[0] * rows[1] * rows[2]
        if entries > LARGEST or 24 * entries > problem.room:
            raise InvalidInput(f"The counts of {name} must have at most {LARGEST:,} entries. Got {entries:,} instead.")
        return cls(**empty_counts(problem, rows))

    def copy(self) -> Counted:
        """The same counts in arrays of their own."""
        return replace(self, **{name: array.copy() for name, array in self.counts._asdict().items()})


def empty_counts(problem: Problem, rows: tuple[int, int, int]) -> dict[str, Any]:
    """The fields of `HasCounts` without data, by name; rows: L, S, A."""
    return {
        "tried": np.zeros(rows, dtype=np.int64),
        "earned": np.zeros(rows),
        "moved": np.zeros(rows, dtype=np.int64),
        "successor": np.zeros((*rows, ROOM), dtype=np.int32),
        "seen": np.zeros((*rows, ROOM), dtype=np.int64),
        "known": np.zeros(rows[1], dtype=np.bool_),
        "known_last": np.zeros(rows[1], dtype=np.bool_),
        "n_transitions": problem.n_transitions,
        "end_resets": problem.end_resets,
    }


def mark_reset(state: Any, episode: Episode, where: int) -> None:
    """Remember the last state of an episode that was reset: at the end only, if only the end of one can reset there.

    where: its index in `known`.
    state: anything with the fields `known`, `known_last`, `end_resets` and `n_transitions` of `HasCounts`.
    """
    state.known_last[where] = True
    if not state.end_resets or len(episode.actions) < state.n_transitions:
        state.known[where] = True
