"""Planning beyond the episode: what an episode that ends in a state leaves for all that follow.

Legend: W(s) the optimistic value of what follows an episode that ends in s, T the plan of one episode on the counts
(`count_players.composite_plan`) with W behind it, gamma = 1 - 1 / EPISODES the discount between two episodes.

W decides which of the allowed actions is taken, and no more: the sets follow from edges and reset states that were
seen, so each reset still removes an unsafe pair, and the bound on resets is untouched (the package has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.game.contract import Round
from resetfree.players.tabular.count_players import Ahead, Bonus, CountState
from resetfree.problems.contract import Problem

Objective: TypeAlias = Literal["episode", "long-run"]
EPISODES = 100.0  # how many are looked ahead, on average
GAMMA = 1.0 - 1.0 / EPISODES
QUIET = 64  # episodes without news after which what was tried once is tried again
CONTENT = 0.1  # share of the most that can be earned that no unknown place is sought for
SPAN = 1e-6  # of what changed, per step: then W differs from the fixed point by a constant


@dataclass
class LongRun:
    """W, which follows the fixed point W = gamma T(W), one pass for each episode as long as it moves."""

    after: Floats  # [S] W
    counted: NDArray[np.int64]  # [L, S, A] how often pairs were tried when W was last due
    n_allowed: int  # how many actions were allowed then
    moving: bool
    quiet: int  # episodes in a row that tried no pair for the first time, and were not reset
    links: NDArray[np.int64]  # [m, m] how often a context followed another
    most: float = field(metadata={"saved": False})

    @classmethod
    def nothing(cls, problem: Problem, data: CountState) -> LongRun:
        """No data yet: what an unknown place promises may follow everywhere."""
        most, m = GAMMA * problem.horizon / (1.0 - GAMMA), problem.n_contexts
        return cls(
            after=np.full(data.tried.shape[1], (1.0 - CONTENT) * most),
            counted=np.zeros_like(data.tried),
            n_allowed=0,
            moving=False,
            quiet=0,
            links=np.zeros((m, m), dtype=np.int64),
            most=most,
        )

    def learn(self, data: CountState, allowed: Bools, bonus: Bonus, ahead: Ahead, round: Round) -> None:
        """After the counts have learned the round and the sets have followed: one pass, if there is news.

        There is when a pair was tried twice as often as before, or the allowed actions are others.
        """
        episode = round.episode
        n = len(episode.actions)
        self._link(round)
        layer = np.arange(n) if len(data.tried) > 1 else np.zeros(n, dtype=np.int64)
        pairs = (layer, episode.states[:n], episode.actions)
        again = self.again
        self.quiet = 0 if episode.reset or (self.counted[pairs] == 0).any() else self.quiet + 1
        n_allowed = int(np.count_nonzero(allowed))
        if n_allowed != self.n_allowed or again != self.again or (data.tried[pairs] >= 2 * self.counted[pairs]).any():
            self.n_allowed, self.moving = n_allowed, True
            self.counted[:] = data.tried
        if not self.moving:
            return
        _, v, _, _ = data.values(bonus, allowed, ahead=ahead)
        now = GAMMA * self._following(v)
        here = data.tried.any(axis=(0, 2)) & ~(data.known | data.known_last)
        change = now[here] - self.after[here]
        self.moving = bool(len(change)) and float(np.ptp(change)) > SPAN * data.horizon
        self.after = now

    @property
    def again(self) -> int:
        """How many tries say nothing yet: more after each time that was four times as quiet as the one before."""
        return int(np.log2(self.quiet / QUIET) / 2.0) + 1 if self.quiet >= QUIET else 0

    def _link(self, round: Round) -> None:
        """Count which context followed."""
        if len(self.links) > 1 and not round.episode.reset and round.episode.next_start is not None:
            n = len(self.after) // len(self.links)
            self.links[int(round.episode.states[-1]) // n, int(round.episode.next_start) // n] += 1

    def _following(self, v: Floats) -> Floats:
        """[S] the value of the next episode after one that ends in each state: contexts follow as often as they did."""
        m = len(self.links)
        if m == 1:
            return v
        times = self.links.sum(axis=1, keepdims=True)
        by_context = v.reshape(m, -1)
        mean = self.links @ by_context / np.maximum(times, 1)
        return np.asarray(np.where(times > 0, mean, by_context.max(axis=0))).ravel()
