"""Extended value iteration over a finite horizon: the best policy in the best model within the confidence set.

Legend: h from 0; n how often a pair was tried; d_p the radius of the L1 ball around its empirical transitions, d_r that
of the interval around its mean reward, both sqrt(factor / n).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts
from resetfree.problems.finite.backward import Floats, Ints


@jit
def best_in_ball(row: Floats, radius: float, value: Floats, order: Ints) -> float:
    """Largest p.value over distributions p with |p - row|_1 <= radius; `order` sorts `value` upwards; `row` is changed.

    Half of the radius is put on the best state and taken off the worst ones: linear in S.
    """
    best = order[-1]
    moved = min(1.0 - row[best], radius / 2.0)
    row[best] += moved
    for j in order[:-1]:
        if moved <= 0.0:
            break
        taken = min(row[j], moved)
        row[j] -= taken
        moved -= taken
    total = 0.0
    for s in range(len(row)):
        total += row[s] * value[s]
    return total


@jit
def extended_plan(
    c: Counts,
    n_transitions: int,
    factor_p: float,
    factor_r: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out, at step 1: an upper bound on max V_r - lam V_c where the confidence set holds the truth
) -> None:
    """Backward induction on r - lam c; a pair that was never tried pays 1 and leads to the best state."""
    horizon, n_states = policy.shape
    n_actions = c.tried.shape[2]
    after, row = np.zeros(n_states), np.empty(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        for s in range(n_states):
            if h < n_transitions and dead[s]:
                after[s] = -lam
        order = np.argsort(after)
        for s in range(n_states):
            v[s], policy[h, s] = -np.inf, 0
            for a in range(n_actions):
                n = c.tried[layer, s, a]
                q = 1.0 if n == 0 else min(c.earned[layer, s, a] / n + sqrt(factor_r / n), 1.0)
                moves = c.moved[layer, s, a]
                if h < n_transitions and moves == 0:
                    q += after[order[-1]]
                elif h < n_transitions:
                    row[:] = 0.0
                    for j in range(c.seen.shape[3]):
                        if c.seen[layer, s, a, j] == 0:
                            break
                        row[c.successor[layer, s, a, j]] = c.seen[layer, s, a, j] / moves
                    q += best_in_ball(row, sqrt(factor_p / moves), after, order)
                if q > v[s]:
                    v[s], policy[h, s] = q, a
        after[:] = v
