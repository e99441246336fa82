"""The replay buffer: every transition of a run, for players that use all of them again.

Legend: row j is a state in the order of visit; its action leads to row j + 1. The last row of an episode has no action.
"""

from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, InvalidInput, longer
from resetfree.problems import Choices, Episode, Problem

NO_ACTION = -1
LEAST_ROOM = 256
REPLAYED = {"replayed": True}


@dataclass
class ReplayBuffer:
    """Arrays with room to spare; the first `n` rows count. A checkpoint stores how many, the run file the rest."""

    n: int = field(metadata={"fixed": True})
    state: Floats = field(metadata=REPLAYED)  # [room, D]
    action: NDArray[Any] = field(metadata=REPLAYED)  # [room] int, or [room, A] float; none where an episode ends
    reward: Floats = field(metadata=REPLAYED)  # [room] for the action of this row
    terminated: Bools = field(metadata=REPLAYED)  # [room] whether the row is a reset state

    def add(self, episode: Episode) -> None:
        """Append an episode, its last state included."""
        states = vectors(episode.states)
        m, length = len(episode.actions), len(states)
        for name in ("state", "action", "reward", "terminated"):
            setattr(self, name, longer(getattr(self, name), self.n + length, 0))
        new = slice(self.n, self.n + length)
        self.state[new] = states
        self.action[new], self.reward[new], self.terminated[new] = self._none, 0.0, False
        self.action[self.n : self.n + m] = episode.actions
        self.reward[self.n : self.n + m] = episode.rewards
        if episode.reset:
            self.terminated[self.n + length - 1] = True
        elif length == m:  # the last action earned without moving the agent: no transition is known for it
            self.action[self.n + length - 1] = self._none
        self.n += length

    def replay(self, episode: Episode) -> None:
        """Append an episode that was played before."""
        self.add(episode)

    def ends_at(self, n: int) -> bool:
        """Whether an episode ends with the first n rows."""
        return n == 0 or (n <= self.n and not self.taken(n)[n - 1])

    def taken(self, n: int, first: int = 0) -> Bools:
        """[n - first] whether an action was taken, whose result is the next row, from row `first` on."""
        action = self.action[first:n]
        return np.asarray(action != NO_ACTION if action.ndim == 1 else ~np.isnan(action).any(axis=1))

    def before_last(self, count: int) -> int:
        """The rows without those of the last `count` episodes."""
        ends = np.flatnonzero(~self.taken(self.n) | self.terminated[: self.n])
        return int(ends[len(ends) - count - 1]) + 1 if count < len(ends) else 0

    def mean_reward(self, first: int) -> float:
        """Of the steps from a row on; 0 if there are none."""
        earned = self.reward[first : self.n][self.taken(self.n, first)]
        return float(earned.mean()) if len(earned) else 0.0

    @property
    def _none(self) -> float:
        return NO_ACTION if self.action.ndim == 1 else nan


def empty_buffer(problem: Problem) -> ReplayBuffer:
    """A buffer without transitions."""
    size, room = 1 if problem.low is None else len(problem.low), LEAST_ROOM
    box = problem.actions
    actions = np.zeros(room, dtype=np.int64) if isinstance(box, Choices) else np.zeros((room, box.size))
    terminated = np.zeros(room, dtype=np.bool_)
    return ReplayBuffer(0, np.zeros((room, size)), actions, np.zeros(room), terminated)


def vectors(states: NDArray[np.generic]) -> Floats:
    """[n, D] states as vectors: numbers become vectors of one entry."""
    array = np.asarray(states, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def check_pooling(problem: Problem, name: str) -> None:
    """Stored transitions are pooled over the steps of an episode."""
    if not problem.stationary:
        raise InvalidInput(f"The player '{name}' pools its data over steps. Got dynamics that change with the step.")
