"""Counts of a finite problem as part of a player's state, for the tabular baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from resetfree.errors import InvalidInput, NotCertifiable
from resetfree.kernels.action_values import Counts, count
from resetfree.problem import Episode, Problem
from resetfree.transitions import Bools, Floats

ROOM = 4  # successors per pair to begin with; rows grow as more are seen
LARGEST_TABLE = 50_000_000  # entries that are still sensible (400 MB)


@dataclass
class Table:
    """What was seen, and the constants of the problem that counting needs."""

    tried: NDArray[np.int64]  # [L, S, A]
    earned: Floats  # [L, S, A]
    moved: NDArray[np.int64]  # [L, S, A]
    successor: NDArray[np.int32]  # [L, S, A, W]
    seen: NDArray[np.int64]  # [L, S, A, W]
    known: Bools  # [S] states whose entering was a reset
    known_last: Bools  # [S] likewise at the end of an episode
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @property
    def counts(self) -> Counts:
        """The counts as one record, for the kernels."""
        return Counts(self.tried, self.earned, self.moved, self.successor, self.seen, self.known, self.known_last)

    def learn(self, episode: Episode) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state."""
        h = count(self.counts, 0, episode.states, episode.actions, episode.rewards)
        while h < len(episode.actions):  # a pair has more successors than its row has room for
            self.successor = np.concatenate([self.successor, np.zeros_like(self.successor)], axis=3)
            self.seen = np.concatenate([self.seen, np.zeros_like(self.seen)], axis=3)
            h = count(self.counts, h, episode.states, episode.actions, episode.rewards)
        if episode.reset:
            where = episode.states[-1]
            self.known_last[where] = True
            if not self.end_resets or len(episode.actions) < self.n_transitions:
                self.known[where] = True


def empty_table(problem: Problem, pooled: bool, name: str) -> Table:
    """Nothing seen yet; refuses what the player called `name` cannot count."""
    n_states = finite(problem, name)
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step.")
    shape = (1 if pooled else problem.horizon, n_states, problem.n_actions)
    entries = ROOM * shape[0] * shape[1] * shape[2]
    if entries > LARGEST_TABLE:
        raise InvalidInput(
            f"The counts of {name} must have at most {LARGEST_TABLE:,} entries. Got {entries:,} instead."
        )
    return Table(
        np.zeros(shape, dtype=np.int64), np.zeros(shape), np.zeros(shape, dtype=np.int64),
        np.zeros((*shape, ROOM), dtype=np.int32), np.zeros((*shape, ROOM), dtype=np.int64),
        np.zeros(n_states, dtype=np.bool_), np.zeros(n_states, dtype=np.bool_), problem.n_transitions,
        problem.end_resets,
    )  # fmt: skip


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


def check_multiplier(lam: float) -> None:
    """What a plan may be asked for."""
    if not (lam >= 0 and isfinite(lam)):
        raise InvalidInput(f"A multiplier must be a finite number that is not negative. Got {lam} instead.")
