"""Optimistic planning on counts within a given set of actions: what a learner does behind a shield.

Legend: h from 0; n how often a pair was tried; beta the bonus of a pair that was tried once.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts, arrivals
from resetfree.problems.finite.backward import Bools, Floats, Ints, Model


@jit
def optimistic_value(
    c: Counts, layer: int, s: int, a: int, moving: bool, left: float, beta: float, dead: Bools, after: Floats
) -> float:
    """min(left, mean reward + mean value afterwards + beta / sqrt(n)), and `left` for a pair that was never tried."""
    n = c.tried[layer, s, a]
    if n == 0 or (moving and c.moved[layer, s, a] == 0):
        return left
    pay = c.earned[layer, s, a] / n + beta / sqrt(n)
    if moving:
        pay += arrivals(c, layer, s, a, dead, after, after)[0]
    return float(min(max(pay, 0.0), left))


@jit
def shielded_plan(
    c: Counts,
    n_transitions: int,
    beta: float,
    allowed: Bools,  # [n, S, A] what the shield lets through; all actions where it lets nothing through
    layer_of_step: Ints,  # [H] which of them each step uses
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1
) -> None:
    """Value iteration with bonuses (rewards alone) over the allowed actions; ties go to the smaller action."""
    horizon, n_states = policy.shape
    n_actions = allowed.shape[2]
    after = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        mask = allowed[layer_of_step[h]]
        for s in range(n_states):
            free = not mask[s].any()
            v_r[s], policy[h, s] = -1.0, 0
            for a in range(n_actions):
                if free or mask[s, a]:
                    q = optimistic_value(c, layer, s, a, h < n_transitions, horizon - h, beta, dead, after)
                    if q > v_r[s]:
                        v_r[s], policy[h, s] = q, a
        after[:] = v_r


@jit
def one_step_actions(
    m: Model,
    allowed: Bools,  # [H, S, A] out: no successor is a reset state (on arrival at the end, one that calls for a reset)
) -> None:
    """The actions that a shield with one step of lookahead allows, from the support alone."""
    horizon, n_states, n_actions = allowed.shape
    for h in range(horizon):
        dead = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            for a in range(n_actions):
                allowed[h, s, a] = not m.reset[s]
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        if dead[m.indices[j]]:
                            allowed[h, s, a] = False
