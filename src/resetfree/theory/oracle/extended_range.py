"""Backward passes whose numbers have no smallest size: for risks and gains whose product underflows in floats.

Legend: an extended number is a pair (m, k) for m 2^(-256 k), with 2^-256 <= |m| < 1 times a few or m = 0; h, V_r, V_c,
w, gain and the model as in `planning`. Scaling by powers of two is exact, so where nothing underflows every number is
the one that `backward.best_lagrangian` has, bit for bit; it is used only where something might, since it takes longer.
"""

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, jit
from resetfree.problems.finite.backward import EPS, Model

STEP = 2.0**-256
BACK = 2.0**256


@jit
def extended(x: float) -> tuple[float, int]:
    """A float as an extended number."""
    k = 0
    if x == 0.0:
        return 0.0, 0
    while abs(x) < STEP:
        x *= BACK
        k += 1
    while abs(x) >= BACK:
        x *= STEP
        k -= 1
    return x, k


@jit
def rounded(m: float, k: int) -> float:
    """An extended number as a float, which may be 0 or infinite."""
    while k > 0 and m != 0.0:
        m *= STEP
        k -= 1
    while k < 0 and m != 0.0 and abs(m) != np.inf:
        m *= BACK
        k += 1
    return m


@jit
def times(a: float, i: int, b: float, j: int) -> tuple[float, int]:
    """Product of two extended numbers."""
    m, k = extended(a * b)
    return m, k + i + j


@jit
def plus(a: float, i: int, b: float, j: int) -> tuple[float, int]:
    """Sum of two extended numbers: the smaller is scaled to the larger's k, which loses less than its rounding."""
    if a == 0.0:
        return b, j
    if b == 0.0:
        return a, i
    if i < j:
        b, j = rounded(b, min(j - i, 8)), i
    elif j < i:
        a, i = rounded(a, min(i - j, 8)), j
    m, k = extended(a + b)
    return m, k + i


@jit
def at_most(a: float, i: int, b: float, j: int) -> bool:
    """Whether a <= b."""
    return plus(a, i, -b, j)[0] <= 0.0


@jit
def best_restricted(
    m: Model,
    allowed: Bools,  # [n_layers, S, A] zero-cost actions
    layer_of_step: Ints,  # [H]
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """`backward.best_restricted`, in extended numbers."""
    horizon, n_states = policy.shape
    n_actions = allowed.shape[2]
    now, after = np.zeros((2, n_states)), np.zeros((2, n_states))  # V_r and V_c
    now_k, after_k = np.zeros((2, n_states), dtype=np.int64), np.zeros((2, n_states), dtype=np.int64)
    for h in range(horizon - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            if is_reset[s]:
                after[0, s], after[1, s], after_k[0, s], after_k[1, s] = 0.0, 1.0, 0, 0
        mask = allowed[layer_of_step[h]]
        for s in range(n_states):
            policy[h, s], now[0, s], now[1, s], now_k[0, s], now_k[1, s] = 0, 0.0, 0.0, 0, 0
            if m.reset[s]:
                continue
            feasible, first = mask[s].any(), True
            for a in range(n_actions):
                if feasible and not mask[s, a]:
                    continue
                q, q_k, c, c_k = 0.0, 0, 0.0, 0
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        t = m.indices[j]
                        p, p_k = extended(m.prob[j])
                        x, x_k = times(p, p_k, after[0, t], after_k[0, t])
                        q, q_k = plus(q, q_k, x, x_k)
                        x, x_k = times(p, p_k, after[1, t], after_k[1, t])
                        c, c_k = plus(c, c_k, x, x_k)
                x, x_k = extended(m.reward[m.reward_of_step[h], s, a])
                q, q_k = plus(q, q_k, x, x_k)
                if feasible:
                    c, c_k = 0.0, 0
                dearer = plus(c, c_k, -now[1, s], now_k[1, s])[0]
                if first or dearer < 0.0 or (dearer == 0.0 and not at_most(q, q_k, now[0, s], now_k[0, s])):
                    policy[h, s], first = a, False
                    now[0, s], now_k[0, s], now[1, s], now_k[1, s] = q, q_k, c, c_k
        after[:], after_k[:] = now, now_k
    for s in range(n_states):
        v_r[s], v_c[s] = rounded(now[0, s], now_k[0, s]), rounded(now[1, s], now_k[1, s])


@jit
def best_lagrangian(
    m: Model,
    y: float,
    y_k: int,  # the multiplier, as an extended number
    baseline: NDArray[np.int16],  # [H, S]
    gain: Floats,  # [S] out: V_r of the maximiser less that of the baseline, as extended numbers
    gain_k: Ints,  # [S] out
    v_c: Floats,  # [S] out: V_c of the maximiser, as extended numbers
    v_c_k: Ints,  # [S] out
) -> None:
    """`backward.best_lagrangian`, in extended numbers."""
    n_states, n_actions = m.reward.shape[1:]
    rounding = 8.0 * EPS * len(m.row_of_step)
    w, next_w, next_gain, next_c = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    w_k, next_w_k = np.zeros(n_states, dtype=np.int64), np.zeros(n_states, dtype=np.int64)
    next_gain_k, next_c_k = np.zeros(n_states, dtype=np.int64), np.zeros(n_states, dtype=np.int64)
    earned, gained, cost = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    scales = np.empty((3, n_actions), dtype=np.int64)
    for h in range(len(m.row_of_step) - 1, -1, -1):
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            w[s], gain[s], v_c[s] = 0.0, 0.0, 0.0
            w_k[s], gain_k[s], v_c_k[s] = 0, 0, 0
            if m.reset[s]:
                continue
            for a in range(n_actions):
                e, e_k, g, g_k, c, c_k = 0.0, 0, 0.0, 0, 0.0, 0
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        t = m.indices[j]
                        p, p_k = extended(m.prob[j])
                        if is_reset[t]:
                            c, c_k = plus(c, c_k, p, p_k)
                        else:
                            x, x_k = times(p, p_k, next_w[t], next_w_k[t])
                            e, e_k = plus(e, e_k, x, x_k)
                            x, x_k = times(p, p_k, next_gain[t], next_gain_k[t])
                            g, g_k = plus(g, g_k, x, x_k)
                            x, x_k = times(p, p_k, next_c[t], next_c_k[t])
                            c, c_k = plus(c, c_k, x, x_k)
                x, x_k = extended(m.reward[m.reward_of_step[h], s, a])
                e, e_k = plus(e, e_k, x, x_k)
                earned[a], gained[a], cost[a] = e, g, c
                scales[0, a], scales[1, a], scales[2, a] = e_k, g_k, c_k
            b = baseline[h, s]
            w[s], w_k[s] = earned[b], scales[0, b]
            best, best_k = 0.0, 0
            for a in range(n_actions):
                x, x_k = plus(earned[a], scales[0, a], -w[s], w_k[s])
                larger, larger_k = earned[a], scales[0, a]
                if at_most(larger, larger_k, w[s], w_k[s]):
                    larger, larger_k = w[s], w_k[s]
                if at_most(abs(x), x_k, rounding * larger, larger_k):
                    x, x_k = 0.0, 0
                total, total_k = plus(gained[a], scales[1, a], x, x_k)
                x, x_k = times(y, y_k, cost[a], scales[2, a])
                x, x_k = plus(total, total_k, -x, x_k)
                ahead = plus(x, x_k, -best, best_k)[0]
                less = plus(cost[a], scales[2, a], -v_c[s], v_c_k[s])[0] < 0.0
                if a == 0 or ahead > 0.0 or (ahead == 0.0 and less):
                    best, best_k = x, x_k
                    gain[s], gain_k[s], v_c[s], v_c_k[s] = total, total_k, cost[a], scales[2, a]
        next_w[:], next_gain[:], next_c[:] = w, gain, v_c
        next_w_k[:], next_gain_k[:], next_c_k[:] = w_k, gain_k, v_c_k


@jit
def newton_multipliers(
    m: Model,
    best: NDArray[np.int16],  # [H, S] pi*
    starts: Ints,  # [n] feasible states
) -> Floats:
    """`backward.newton_multipliers`, in extended numbers; infinite where the multiplier itself exceeds every float."""
    n_states = m.reward.shape[1]
    gain, v_c = np.empty(n_states), np.empty(n_states)
    gain_k, v_c_k = np.empty(n_states, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    best_lagrangian(m, 0.0, 0, best, gain, gain_k, v_c, v_c_k)
    first_g, first_g_k, first_c, first_c_k = gain.copy(), gain_k.copy(), v_c.copy(), v_c_k.copy()
    result = np.empty(len(starts))
    for i in range(len(starts)):
        s = starts[i]
        y, y_k = 0.0, 0
        g, g_k, c, c_k = first_g[s], first_g_k[s], first_c[s], first_c_k[s]
        while True:
            x, x_k = times(y, y_k, c, c_k)
            if at_most(g, g_k, x, x_k):
                break
            if c == 0.0:  # a risk whose own probability underflowed to 0.0 before anything was multiplied
                y, y_k = np.inf, 0
                break
            last_c, last_c_k = c, c_k
            y, y_k = extended(g / c)
            y_k += g_k - c_k
            best_lagrangian(m, y, y_k, best, gain, gain_k, v_c, v_c_k)
            g, g_k, c, c_k = gain[s], gain_k[s], v_c[s], v_c_k[s]
            if at_most(last_c, last_c_k, c, c_k):  # slopes decrease strictly, but for rounding
                break
        result[i] = rounded(y, y_k)
    return result


@jit
def excess_and_need(
    m: Model,
    y: float,
    baseline: NDArray[np.int16],  # [H, S]
    excess: Floats,  # [S] out: gain - y V_c of the maximiser of V_r - y V_c
    need: Floats,  # [S] out: gain / V_c, the multiplier that it needs; 0 where it gains nothing
) -> None:
    """What is left of a multiplication and a division of extended numbers, as floats."""
    n_states = m.reward.shape[1]
    v_c = np.empty(n_states)
    gain_k, v_c_k = np.empty(n_states, dtype=np.int64), np.empty(n_states, dtype=np.int64)
    y, y_k = extended(y)
    best_lagrangian(m, y, y_k, baseline, excess, gain_k, v_c, v_c_k)
    for s in range(n_states):
        g, g_k, c, c_k = excess[s], gain_k[s], v_c[s], v_c_k[s]
        need[s] = 0.0
        if g > 0.0:
            need[s] = np.inf if c == 0.0 else rounded(g / c, g_k - c_k)
        x, x_k = times(y, y_k, c, c_k)
        g, g_k = plus(g, g_k, -x, x_k)
        excess[s] = rounded(g, g_k)
