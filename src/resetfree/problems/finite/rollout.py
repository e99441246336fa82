"""One episode of a tabular policy, from pre-drawn uniforms, by inverse cumulative probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Model


@jit
def pick(weights: NDArray[np.float64], u: float) -> int:
    """The first index whose cumulative weight exceeds u; beyond the rounded total, the last with positive weight."""
    total = 0.0
    last = 0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            total += weights[i]
            last = i
            if u < total:
                return i
    return last


@jit
def move(m: Model, h: int, s: int, a: int, u: float) -> int:
    """The next state after action a in s at step h, drawn by u."""
    i = m.row_of_step[h] + s * m.reward.shape[2] + a
    begin = m.indptr[i]
    return int(m.indices[begin + pick(m.prob[begin : m.indptr[i + 1]], u)])


@jit
def roll(
    m: Model,
    policy: NDArray[np.float64],  # [H, S, A]
    start: int,
    u: NDArray[np.float64],  # [>= 2H] H for actions, then H for transitions
    states: NDArray[np.int64],  # [H + 1] out
    actions: NDArray[np.int64],  # [H] out
    rewards: NDArray[np.float64],  # [H] out, the means
) -> tuple[int, bool]:
    """Fill states, actions and rewards; returns the number of actions and whether a reset state was entered."""
    horizon = policy.shape[0]
    s = start
    states[0] = s
    for h in range(horizon):
        a = pick(policy[h, s], u[h])
        actions[h] = a
        rewards[h] = m.reward[m.reward_of_step[h], s, a]
        if h == m.n_transitions:
            return h + 1, False
        s = move(m, h, s, a, u[horizon + h])
        states[h + 1] = s
        if m.reset[s] or (h == m.n_transitions - 1 and m.last_reset[s]):
            return h + 1, True
    return horizon, False
