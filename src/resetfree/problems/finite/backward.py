"""Backward passes over compressed rows: O(H nnz) time each, O(S) memory besides the result.

Legend: h from 0; V_r expected reward until a reset or the end; V_c probability of a reset; a reset state has V_r = 0
and, on arrival, V_c = 1. `n_transitions` is H (physical boundary) or H - 1 (literal: the last action only earns).
"""

from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, jit

EPS = float(np.finfo(np.float64).eps)


class Model(NamedTuple):
    """The arrays of a finite problem, for compiled code."""

    indptr: Ints  # [L*S*A + 1]
    indices: NDArray[np.int32]  # [nnz]
    prob: Floats  # [nnz]
    row_of_step: Ints  # [H] first row of the layer that step h uses
    reward: Floats  # [1 or H, S, A]
    reward_of_step: Ints  # [H]
    reset: Bools  # [S]
    last_reset: Bools  # [S] the reset set on arrival in the last state of an episode
    n_transitions: int


@jit
def safe_actions(
    indptr: Ints,
    indices: NDArray[np.int32],
    first_row: int,
    reset: Bools,
    safe_next: Bools,
    allowed: Bools,  # [S, A] out: all successors lie in safe_next
    safe: Bools,  # [S] out: not a reset state and some action is allowed
) -> None:
    """One step of the zero-cost sets: from Z_{h+1} to Z_h and its actions, on the support alone."""
    n_states, n_actions = allowed.shape
    for s in range(n_states):
        safe[s] = False
        for a in range(n_actions):
            good = not reset[s]
            if good:
                i = first_row + s * n_actions + a
                for j in range(indptr[i], indptr[i + 1]):
                    if not safe_next[indices[j]]:
                        good = False
                        break
            allowed[s, a] = good
            if good:
                safe[s] = True


@jit
def backup(m: Model, row: int, is_reset: Bools, v_r: Floats, v_c: Floats) -> tuple[float, float]:
    """Expected V_r and V_c after one transition; arriving in a reset state has value 0 and cost 1."""
    q_r = 0.0
    q_c = 0.0
    for j in range(m.indptr[row], m.indptr[row + 1]):
        s = m.indices[j]
        if is_reset[s]:
            q_c += m.prob[j]
        else:
            q_r += m.prob[j] * v_r[s]
            q_c += m.prob[j] * v_c[s]
    return q_r, q_c


@jit
def best_restricted(
    m: Model,
    allowed: Bools,  # [n_layers, S, A] zero-cost actions
    layer_of_step: Ints,  # [H]
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """Best policy over the restricted actions: those of zero cost if there are any, else those of least cost.

    On feasible states the cost is exactly zero by the support; elsewhere ties in cost go to the larger reward.
    """
    horizon, n_states = policy.shape
    n_actions = allowed.shape[2]
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):  # the values of reset states, set once instead of tested per successor
            if is_reset[s]:
                next_r[s], next_c[s] = 0.0, 1.0
        mask = allowed[layer_of_step[h]]
        for s in range(n_states):
            if m.reset[s]:
                policy[h, s], v_r[s], v_c[s] = 0, 0.0, 0.0
                continue
            feasible = mask[s].any()
            best_a, best_r, best_c = 0, -np.inf, np.inf
            for a in range(n_actions):
                q_r, q_c = 0.0, 0.0
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        q_r += m.prob[j] * next_r[m.indices[j]]
                        q_c += m.prob[j] * next_c[m.indices[j]]
                q_r += m.reward[m.reward_of_step[h], s, a]
                if feasible:
                    q_c = 0.0 if mask[s, a] else 2.0
                if q_c < best_c or (q_c == best_c and q_r > best_r):
                    best_a, best_r, best_c = a, q_r, q_c
            policy[h, s] = best_a
            v_r[s], v_c[s] = best_r, best_c
        next_r[:], next_c[:] = v_r, v_c


@jit
def best_lagrangian(
    m: Model,
    y: float,
    baseline: NDArray[np.int16],  # [H, S] any policy; pi* makes the gains exact where they matter
    policy: NDArray[np.int16],  # [H, S] out: the maximiser; empty if only its values are needed
    w: Floats,  # [S] out: V_r of the baseline, at step 1
    gain: Floats,  # [S] out: V_r of the maximiser, less w
    v_c: Floats,  # [S] out: V_c of the maximiser
) -> None:
    """The policy that maximises V_r - y V_c from every state, by its gain over a baseline; ties go to smaller V_c.

    gain_h(s) = adv_h(s,a) + sum P gain_{h+1}, adv_h(s,a) = r + sum P w_{h+1} - w_h(s). Against pi*, safe actions have
    adv <= 0 in floats too (the maximum was taken over the same numbers), and an advantage within rounding error
    is set to zero: otherwise it would be divided by a V_c that may be as small as 1e-300.
    """
    n_states, n_actions = m.reward.shape[1:]
    rounding = 8.0 * EPS * len(m.row_of_step)
    next_w, next_gain, next_c = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    earned, gained, cost = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    for h in range(len(m.row_of_step) - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            w[s], gain[s], v_c[s] = 0.0, 0.0, 0.0
            if policy.size > 0:
                policy[h, s] = 0
            if m.reset[s]:
                continue
            for a in range(n_actions):
                earned[a], gained[a], cost[a] = 0.0, 0.0, 0.0
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        t = m.indices[j]
                        if is_reset[t]:
                            cost[a] += m.prob[j]
                        else:
                            earned[a] += m.prob[j] * next_w[t]
                            gained[a] += m.prob[j] * next_gain[t]
                            cost[a] += m.prob[j] * next_c[t]
                earned[a] += m.reward[m.reward_of_step[h], s, a]
            w[s] = earned[baseline[h, s]]
            best = -np.inf
            for a in range(n_actions):
                advantage = earned[a] - w[s]
                if abs(advantage) <= rounding * max(earned[a], w[s]):
                    advantage = 0.0
                total = gained[a] + advantage
                composite = total - y * cost[a]
                if composite > best or (composite == best and cost[a] < v_c[s]):
                    best, gain[s], v_c[s] = composite, total, cost[a]
                    if policy.size > 0:
                        policy[h, s] = a
        next_w[:], next_gain[:], next_c[:] = w, gain, v_c


@jit
def newton_multipliers(
    m: Model,
    best: NDArray[np.int16],  # [H, S] pi*
    starts: Ints,  # [n] feasible states
) -> Floats:
    """Smallest optimal multiplier of each start, by Newton's iteration on y -> max_pi V_r - y V_c - V*.

    The function is convex and piecewise linear. At y the maximiser has slope -V_c, and the next y is where its line
    meets zero: gain / V_c. Slopes strictly decrease, so "no smaller slope" is a stopping rule that survives rounding.
    """
    n_states = m.reward.shape[1]
    w, gain, v_c = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    no_policy = np.empty((0, 0), dtype=np.int16)
    best_lagrangian(m, 0.0, best, no_policy, w, gain, v_c)
    first_gain, first_c = gain.copy(), v_c.copy()  # y = 0 is the first iterate of every start
    result = np.empty(len(starts))
    for i in range(len(starts)):
        s = starts[i]
        y, g, c, last_c = 0.0, first_gain[s], first_c[s], np.inf
        while c < last_c and g > y * c:
            if c == 0.0:  # a gain at a risk that underflows: the multiplier overflows
                y = np.inf
                break
            y, last_c = g / c, c
            best_lagrangian(m, y, best, no_policy, w, gain, v_c)
            g, c = gain[s], v_c[s]
        result[i] = y
    return result


@jit
def evaluate(
    m: Model,
    policy: Floats,  # [H, S, A]
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """V_r and V_c of a Markov policy from every state."""
    horizon, n_states, n_actions = policy.shape
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            v_r[s] = 0.0
            v_c[s] = 0.0
            if m.reset[s]:
                continue
            for a in range(n_actions):
                weight = policy[h, s, a]
                if weight == 0.0:
                    continue
                q_r, q_c = 0.0, 0.0
                if h < m.n_transitions:
                    q_r, q_c = backup(m, m.row_of_step[h] + s * n_actions + a, is_reset, next_r, next_c)
                v_r[s] += weight * (q_r + m.reward[m.reward_of_step[h], s, a])
                v_c[s] += weight * q_c
        next_r[:], next_c[:] = v_r, v_c


@jit
def may_happen(
    m: Model,
    policy: Floats,  # [H, S, A]
    event: Bools,  # [n_layers, S, A] actions that count
    layer_of_step: Ints,  # [H]
    arrival: bool,  # whether arriving in a reset state counts too
) -> Bools:
    """[S] whether, from each start, the policy can (on the support) take a counted action or be reset."""
    horizon, n_states, n_actions = policy.shape
    now, after = np.zeros(n_states, dtype=np.bool_), np.zeros(n_states, dtype=np.bool_)
    for h in range(horizon - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            now[s] = False
            if m.reset[s]:
                continue
            for a in range(n_actions):
                if policy[h, s, a] == 0.0:
                    continue
                hit = event[layer_of_step[h], s, a]
                if h < m.n_transitions:
                    i = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[i], m.indptr[i + 1]):
                        t = m.indices[j]
                        hit = hit or (arrival if is_reset[t] else after[t])
                now[s] = now[s] or hit
        after[:] = now
    return after


@jit
def exponential_weights(total: Floats, eta: float, policy: Floats) -> None:
    """Fill `policy` with the softmax of eta total over the last axis of [H, S, A], stable against overflow."""
    horizon, n_states, n_actions = total.shape
    for h in range(horizon):
        for s in range(n_states):
            row = total[h, s]
            top = row[0]
            for a in range(1, n_actions):
                top = max(top, row[a])
            norm = 0.0
            for a in range(n_actions):
                policy[h, s, a] = exp(eta * (row[a] - top))
                norm += policy[h, s, a]
            for a in range(n_actions):
                policy[h, s, a] /= norm
