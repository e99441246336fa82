"""A run says so when its reward does not rise, though nothing need be wrong: it may be as good as it gets.

Looked at after 30 episodes and 3,000 steps, and whenever there are four times as many: the reward is flat if the last
half of all episodes earned no more than the first quarter did, up to one standard error and 5 % of that. What earns
90 % of the largest reward has little to gain, and is never called flat.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from math import ceil, sqrt

import numpy as np

from resetfree.core.readable import number
from resetfree.problems.contract import Note, Problem

EPISODES, STEPS = 30, 3000  # before the first look
LATER = 4  # times as many episodes before the next one
ERRORS, LEAST = 1.0, 0.05  # a rise: standard errors, and of what was earned at first
HIGH = 0.9  # of the largest reward
TRY = (
    "It may be as good as it gets. If not: a reward that tells better from worse in every step (a goal says nothing "
    "before it is reached), its true range (reward_range), a longer horizon, a few episodes of any controller as data "
    "(docs/goals.md)."
)


@dataclass(slots=True)
class FlatReward:
    """Watches the rewards of episodes.

    >>> flat = FlatReward(horizon=100)
    >>> [k for k in range(1, 300) if flat.see(11.0)]
    [30, 120]
    >>> print(flat.sentence)
    The reward has not risen in 120 episodes (12,000 steps): 11 an episode in the first 30, 11 in the last 60.
    """

    horizon: int
    sentence: str = ""  # what was said last
    _rewards: array[float] = field(default_factory=lambda: array("d"))  # 8 bytes an episode
    _due: int = 0

    def __post_init__(self) -> None:
        self._due = max(EPISODES, ceil(STEPS / self.horizon))

    def see(self, reward: float) -> bool:
        """Take in an episode; whether it is time to say that the reward is flat."""
        self._rewards.append(reward)
        n = len(self._rewards)
        if n < self._due:
            return False
        self._due = LATER * n
        first, last = np.array(self._rewards[: n // 4]), np.array(self._rewards[n // 2 :])
        error = sqrt(first.var() / len(first) + last.var() / len(last))
        risen = last.mean() > first.mean() + max(ERRORS * error, LEAST * abs(first.mean()))
        if risen or last.mean() >= HIGH * self.horizon:
            return False
        self.sentence = (
            f"The reward has not risen in {n:,} episodes ({n * self.horizon:,} steps): "
            f"{number(first.mean())} an episode in the first {len(first)}, "
            f"{number(last.mean())} in the last {len(last)}."
        )
        return True


def note_flat(flat: FlatReward, problem: Problem) -> None:
    """Leave the sentence for the run of an environment, with what to try."""
    if problem.persistent:
        problem.noted.append(Note(0, f"{flat.sentence} {TRY}"))
