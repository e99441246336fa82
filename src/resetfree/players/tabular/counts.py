"""Counts of a finite problem as (part of) a player's state: how they begin, how they grow, what is too large."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, InvalidInput, jit, require, within
from resetfree.players import sizes
from resetfree.problems import Episode, Problem
from resetfree.problems.finite.backward import Model, backup

ALL: Bools = np.empty((0, 0, 0), dtype=np.bool_)  # no action is forbidden

# Action values of a played policy, on the true model or on counts, and the exponential weights made of their sums.
#
# Legend: h from 0; Q_r[h, s, a] expected reward from step h on after action a, Q_c[h, s, a] probability of a reset,
# both
# under the policy afterwards; n how often a pair was tried; W successors for which a row of counts has room.


class Counts(NamedTuple):
    """What was seen of a finite problem; one layer if data are pooled over the steps, else one per step."""

    tried: Ints  # [L, S, A]
    earned: Floats  # [L, S, A] sum of rewards
    moved: Ints  # [L, S, A] transitions seen (fewer than `tried` where the last action only earns)
    successor: NDArray[np.int32]  # [L, S, A, W]
    seen: Ints  # [L, S, A, W] how often; 0 marks a free place
    known: Bools  # [S] states whose entering was a reset
    known_last: Bools  # [S] likewise at the end of an episode


@jit
def true_values(
    m: Model,
    policy: Floats,  # [H, S, A]
    q_r: Floats,  # [H, S, A] out, zero in reset states
    q_c: Floats,  # [H, S, A] out
) -> None:
    """Q_r and Q_c of a Markov policy at every step."""
    horizon, n_states, n_actions = policy.shape
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            for a in range(n_actions):
                q_r[h, s, a], q_c[h, s, a] = 0.0, 0.0
                if m.reset[s]:
                    continue
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    q_r[h, s, a], q_c[h, s, a] = backup(m, row, is_reset, next_r, next_c)
                q_r[h, s, a] += m.reward[m.reward_of_step[h], s, a]
        _average(policy[h], q_r[h], q_c[h], next_r, next_c)


@jit
def counted_values(
    c: Counts,
    n_transitions: int,
    scale: float,  # of the bonus: H scale / sqrt(n) on rewards, scale / sqrt(n) off costs
    policy: Floats,  # [H, S, A]
    q_r: Floats,  # [H, S, A] out, in [0, H - h]
    q_c: Floats,  # [H, S, A] out, in [0, 1]
) -> None:
    """Q_r and Q_c on the empirical model; what was never tried has the largest value if there is a bonus, else 0."""
    horizon, n_states, n_actions = policy.shape
    hope = 1.0 if scale > 0.0 else 0.0
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        left = float(horizon - h)
        for s in range(n_states):
            for a in range(n_actions):
                n = c.tried[layer, s, a]
                if n == 0:
                    q_r[h, s, a], q_c[h, s, a] = hope * left, 0.0
                    continue
                pay, cost = 0.0, 0.0
                moves = c.moved[layer, s, a]
                if h < n_transitions and moves == 0:
                    pay = hope * (left - 1.0)
                elif h < n_transitions:
                    for j in range(c.seen.shape[3]):
                        times = c.seen[layer, s, a, j]
                        if times == 0:
                            break
                        t = c.successor[layer, s, a, j]
                        if is_reset[t]:
                            cost += times
                        else:
                            pay += times * next_r[t]
                            cost += times * next_c[t]
                    pay, cost = pay / moves, cost / moves
                bonus = scale / sqrt(n)
                pay += c.earned[layer, s, a] / n + horizon * bonus
                q_r[h, s, a], q_c[h, s, a] = min(max(pay, 0.0), left), min(max(cost - bonus, 0.0), 1.0)
        _average(policy[h], q_r[h], q_c[h], next_r, next_c)


@jit
def _average(policy: Floats, q_r: Floats, q_c: Floats, v_r: Floats, v_c: Floats) -> None:
    """V = <pi, Q> in every state; [S, A] to [S]."""
    n_states, n_actions = policy.shape
    for s in range(n_states):
        v_r[s], v_c[s] = 0.0, 0.0
        for a in range(n_actions):
            v_r[s] += policy[s, a] * q_r[s, a]
            v_c[s] += policy[s, a] * q_c[s, a]


@jit
def count(
    c: Counts,
    first: int,
    states: Ints,  # [n or n + 1]
    actions: Ints,  # [n]
    rewards: Floats,  # [n]
) -> int:
    """Count steps `first` .. of an episode; returns n, or the step for whose successor there is no room yet."""
    width = c.seen.shape[3]
    for h in range(first, len(actions)):
        layer = h if len(c.tried) > 1 else 0
        s, a = states[h], actions[h]
        if h + 1 < len(states):
            t = states[h + 1]
            j = 0
            while j < width and c.seen[layer, s, a, j] > 0 and c.successor[layer, s, a, j] != t:
                j += 1
            if j == width:
                return h
            c.successor[layer, s, a, j] = t
            c.seen[layer, s, a, j] += 1
            c.moved[layer, s, a] += 1
        c.tried[layer, s, a] += 1
        c.earned[layer, s, a] += rewards[h]
    return len(actions)


# --------------------------------------------------------------------------------------------------------------------

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
        return Counts._make(getattr(self, name) for name in Counts._fields)

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


def union_bound(problem: Problem, episodes: int, pooled: bool, m: int, p: float) -> float:
    """L = log(m S A H K / p) of the union bound over cells (h, s, a), sample sizes and m inequalities.

    Pooled data have H K samples per pair, so K becomes H K.
    """
    samples = episodes * (problem.horizon if pooled else 1)
    return log(m * (problem.n_states or 1) * problem.n_actions * problem.horizon * samples / p)
