"""What the players on counts share: one interface of counts, and the form of it that keeps all pairs.

`CountState` keeps every pair, and its passes go over all states: fastest where the problem is small.
`large_problems.LargeCounts` keeps what was seen. Both give the same numbers, so players need not distinguish them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import log
from typing import Any, Literal, TypeAlias

import numpy as np

from resetfree.core.settings import Count, check
from resetfree.game.contract import Plan, Round
from resetfree.players.requirements import check_multiplier, check_room, sizes
from resetfree.players.tabular.action_values import Counts
from resetfree.players.tabular.count_planning import Bonus, composite_plan
from resetfree.players.tabular.counts import ROOM, HasCounts, empty_counts
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.finite.transitions import Bools, Floats

ALL: Bools = np.empty((0, 0, 0), dtype=np.bool_)  # no action is forbidden
JITTER = 0.1  # weight of chance beside what was learned about actions
Ties: TypeAlias = Literal["first", "random", "learned"]


@dataclass
class CountData(ABC):
    """What was seen, with the constants of this run; the counts themselves are kept in one of two forms."""

    k: int  # episodes seen
    largest_lam: float  # largest multiplier so far
    opened: Bools  # [S, A] pairs tried at some step
    fatal: Bools  # [S, A] pairs that were reset
    visited: Bools  # [S] states seen
    found: Floats  # [A] states that an action was the first to find
    log_term: float = field(metadata={"saved": False})  # L in the widths
    noise: float = field(metadata={"saved": False})  # sub-Gaussian constant of the rewards in the widths
    jitter: Floats = field(metadata={"saved": False})  # [S, A] chance in breaking ties
    ties: Ties = field(metadata={"saved": False})

    def learn(self, round: Round) -> None:
        """Count the steps that were taken; remember a state that turned out to be a reset state."""
        self.count(round.episode)
        new = self._discover(round.episode) if self.ties == "learned" else None
        if new is not None:
            self.rank(*new)
        self.k += 1
        self.largest_lam = max(self.largest_lam, float(round.lam))

    def _discover(self, episode: Episode) -> tuple[Floats, Floats] | None:
        """How many pairs of each action were tried and were reset for the first time, None if nothing new was seen.

        Preferred are actions that elsewhere found new states and were not reset, per pair tried; chance decides the
        rest.
        """
        states, actions = episode.states, episode.actions
        if not episode.reset and self.opened[states[: len(actions)], actions].all() and self.visited[states].all():
            return None
        opened, fatal = np.zeros_like(self.found), np.zeros_like(self.found)
        self.visited[states[0]] = True
        for h, a in enumerate(actions):
            s = states[h]
            opened[a] += not self.opened[s, a]
            self.opened[s, a] = True
            if h + 1 == len(states):
                break
            if episode.reset and h + 1 == len(actions):
                fatal[a] += not self.fatal[s, a]
                self.fatal[s, a] = True
            elif not self.visited[states[h + 1]]:
                self.visited[states[h + 1]] = True
                self.found[a] += 1.0
        return opened, fatal

    @abstractmethod
    def count(self, episode: Episode) -> None:
        """Count the steps of an episode."""

    @abstractmethod
    def rank(self, opened: Floats, fatal: Floats) -> None:
        """Prefer other actions after these numbers of pairs [A] were tried, and were reset, for the first time."""

    @abstractmethod
    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan; `upper` is V(s1), `v_r` and `v_c` are the policy's values on the counts alone."""


@dataclass
class CountState(HasCounts, CountData):
    """The counts of all pairs."""

    prefer: Floats  # [S, A] which action to take among equally good ones
    horizon: int = field(metadata={"saved": False})
    seed: int = field(metadata={"saved": False})
    nothing: Floats = field(metadata={"saved": False})  # [0, 0, 0]

    def count(self, episode: Episode) -> None:
        """See `CountData`."""
        self.absorb(episode)

    def rank(self, opened: Floats, fatal: Floats) -> None:
        """See `CountData`."""
        score = (self.found - self.fatal.sum(axis=0)) / (1.0 + self.opened.sum(axis=0))
        self.prefer[:] = score + JITTER * self.jitter

    def plan(
        self,
        s1: State,
        bonus: Bonus,
        allowed: Bools = ALL,
        draw: Floats | None = None,
        counts: Counts | None = None,
    ) -> Plan:
        """See `CountData`, inside the actions that are allowed.

        draw: [L, S, A] multiples of the width to add.  counts: what to plan with in place of what was seen.
        """
        n_states, n_actions = self.tried.shape[1:]
        policy, v, v_r, v_c = np.empty((self.horizon, n_states, n_actions)), *np.empty((3, n_states))
        stretch = self.nothing if draw is None else draw
        seen = self.counts if counts is None else counts
        composite_plan(seen, self.n_transitions, *bonus, stretch, self.prefer, allowed, policy, v, v_r, v_c)
        return Plan(policy, float(v_r[s1]), float(v_c[s1]), float(v[s1]))


def fresh(
    problem: Problem, name: str, pooled: bool, ties: Ties, log_term: float, noise: float, seed: int
) -> CountState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    shape = sizes(problem, pooled, name)
    check(seed, Count, f"'seed' of {name}")
    size = whole_size(problem, shape)
    check_room(problem, name, size, "counts and policy", "" if pooled else "pool the steps if the dynamics allow it")
    data = no_data(shape, ties, log_term, noise, seed)
    data |= {"horizon": problem.horizon, "seed": seed, "prefer": data["jitter"].copy(), "nothing": np.zeros((0, 0, 0))}
    return CountState(**empty_counts(problem, shape), **data)


def no_data(shape: tuple[int, int, int], ties: Ties, log_term: float, noise: float, seed: int) -> dict[str, Any]:
    """The fields of `CountData` before the first episode; shape: L, S, A."""
    pairs = shape[1:]
    return {
        "k": 0,
        "largest_lam": 0.0,
        "log_term": log_term,
        "noise": noise,
        "ties": ties,
        "opened": np.zeros(pairs, dtype=np.bool_),
        "fatal": np.zeros(pairs, dtype=np.bool_),
        "visited": np.zeros(shape[1], dtype=np.bool_),
        "found": np.zeros(shape[2]),
        "jitter": np.random.default_rng(seed).random(pairs) if ties != "first" else np.zeros(pairs),
    }


def whole_size(problem: Problem, shape: tuple[int, int, int]) -> int:
    """Bytes of the counts of all [L, S, A] pairs, and of a policy."""
    return shape[0] * shape[1] * shape[2] * (24 + 12 * ROOM) + 8 * problem.horizon * shape[1] * shape[2]


def union_bound(problem: Problem, episodes: int, pooled: bool, m: int, p: float) -> float:
    """L = log(m S A H K / p) of the union bound over cells (h, s, a), sample sizes and m inequalities.

    Pooled data have H K samples per pair, so K becomes H K.
    """
    samples = episodes * (problem.horizon if pooled else 1)
    return log(m * (problem.n_states or 1) * problem.n_actions * problem.horizon * samples / p)


def multiplier(state: CountData, lam: float, monotone: bool) -> float:
    """The multiplier to plan with: as named, or the largest so far (rounding up costs the dual nothing)."""
    named = check_multiplier(lam)
    return max(named, state.largest_lam) if monotone else named


def noise_of(problem: Problem, noise: float, width: str) -> float:
    """The noise in rewards that a width is made for: a proved one covers at least what the problem may have.

    >>> import resetfree as rf
    >>> coins = rf.make("grid-v0").replace(noise="bernoulli").problem()
    >>> noise_of(coins, 0.0, "tuned"), noise_of(coins, 0.0, "theory"), noise_of(coins, 0.8, "theory")
    (0.0, 0.5, 0.8)
    """
    return max(noise, problem.reward_noise) if width == "theory" else noise
