"""One episode of a tabular policy, from pre-drawn uniforms, by inverse cumulative probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.kernels.jit import jit


@jit
def pick(weights: NDArray[np.float64], u: float) -> int:
    """Index i with cumulative weight just above u; rounding at the end falls on the last positive weight."""
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
def roll(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    prob: NDArray[np.float64],
    row_of_step: NDArray[np.int64],  # [H] first row of the layer that step h uses
    n_actions: int,
    n_transitions: int,  # H (physical boundary) or H - 1 (literal)
    reset: NDArray[np.bool_],
    last_reset: NDArray[np.bool_],  # reset set on arrival in the last state of an episode
    policy: NDArray[np.float64],  # [H, S, A]
    start: int,
    u: NDArray[np.float64],  # [>= 2H] H for actions, then H for transitions
    states: NDArray[np.int64],  # [H + 1] out
    actions: NDArray[np.int64],  # [H] out
) -> tuple[int, bool]:
    """Fill states and actions; return how many actions were taken and whether a reset state was entered."""
    horizon = policy.shape[0]
    s = start
    states[0] = s
    for h in range(horizon):
        a = pick(policy[h, s], u[h])
        actions[h] = a
        if h == n_transitions:
            return h + 1, False
        i = row_of_step[h] + s * n_actions + a
        begin = indptr[i]
        s = indices[begin + pick(prob[begin : indptr[i + 1]], u[horizon + h])]
        states[h + 1] = s
        if reset[s] or (h == n_transitions - 1 and last_reset[s]):
            return h + 1, True
    return horizon, False
