"""What the tabular baselines share: counts as a nested state, and the questions that each asks about its settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from resetfree.errors import InvalidInput, NotCertifiable
from resetfree.game import Round
from resetfree.kernels.action_values import Counts, count
from resetfree.problem import Episode, Problem
from resetfree.transitions import Bools, Floats

ROOM = 4  # successors per pair to begin with; rows grow as more are seen
LARGEST = 50_000_000  # entries of counts that are still sensible (400 MB)


@dataclass
class Seen:
    """How often what was seen, pooled over the steps (one layer) or not."""

    tried: NDArray[np.int64]  # [L, S, A]
    earned: Floats  # [L, S, A]
    moved: NDArray[np.int64]  # [L, S, A]
    successor: NDArray[np.int32]  # [L, S, A, W]
    seen: NDArray[np.int64]  # [L, S, A, W]
    known: Bools  # [S] states whose entering was a reset
    known_last: Bools  # [S] likewise at the end of an episode
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @classmethod
    def nothing(cls, problem: Problem, pooled: bool, name: str) -> Seen:
        """No data yet."""
        layers, n, n_actions = sizes(problem, pooled, name)
        rows = (layers, n, n_actions)
        if layers * n * n_actions * ROOM > LARGEST:
            raise InvalidInput(
                f"The counts of {name} must have at most {LARGEST:,} entries. "
                f"Got {layers * n * n_actions * ROOM:,} instead."
            )
        return cls(
            np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows, dtype=np.int64),
            np.zeros((*rows, ROOM), dtype=np.int32), np.zeros((*rows, ROOM), dtype=np.int64),
            np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_), problem.n_transitions, problem.end_resets,
        )  # fmt: skip

    @property
    def counts(self) -> Counts:
        """As one record, for the kernels."""
        return Counts(self.tried, self.earned, self.moved, self.successor, self.seen, self.known, self.known_last)

    def learn(self, round: Round) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state."""
        episode = round.episode
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

    def copy(self) -> Seen:
        """The same counts in arrays of their own."""
        return replace(
            self, tried=self.tried.copy(), earned=self.earned.copy(), moved=self.moved.copy(),
            successor=self.successor.copy(), seen=self.seen.copy(), known=self.known.copy(),
            known_last=self.known_last.copy(),
        )  # fmt: skip


def sizes(problem: Problem, pooled: bool, name: str) -> tuple[int, int, int]:
    """Layers, states and actions of a table; a sentence where there can be none."""
    if problem.n_states is None:
        raise NotCertifiable(f"The player '{name}' needs a finite problem. Got a continuum of states instead.")
    if pooled and not problem.stationary:
        raise InvalidInput(f"The 'pooled' of {name} must be false for dynamics that change with the step.")
    return 1 if pooled else problem.horizon, problem.n_states, problem.n_actions


def successors(episode: Episode) -> NDArray[np.int64]:
    """[m] where the agent stood after each action: after the last one, where the next episode starts."""
    return np.append(episode.states[1 : len(episode.actions)], episode.next_start).astype(np.int64)


def check(name: str, **settings: tuple[float, float, float]) -> None:
    """Each setting as (value, least, largest)."""
    for what, (value, least, largest) in settings.items():
        if not (isfinite(value) and least <= value <= largest):
            raise InvalidInput(
                f"The '{what}' of {name} must be a number from {least:g} to {largest:g}. Got {value} instead."
            )


def multiplier(lam: float) -> float:
    """A multiplier that makes sense, or a sentence."""
    if not (lam >= 0 and isfinite(lam)):
        raise InvalidInput(f"A multiplier must be a finite number that is not negative. Got {lam} instead.")
    return float(lam)


def epsilon_greedy(q: Floats, epsilon: float) -> Floats:
    """Rows over the last axis: uniform with probability epsilon, else uniform over the maximisers."""
    best = q == q.max(axis=-1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=-1, keepdims=True) + epsilon / q.shape[-1])
