"""Optimistic and perturbed backward passes on counts, for one multiplier: what the tabular players plan with.

Legend: h from 0; n how often a pair was tried (or moved), rest = H - h - 1 the reward that can come after this step,
V the composite value V_r - lam V_c (a known reset state has -lam on arrival), L the logarithm in the widths.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from resetfree.kernels.action_values import Counts
from resetfree.kernels.jit import jit
from resetfree.kernels.planning import Bools, Floats

TIE = 1e-9  # composite values closer than this are equal
HOEFFDING, BERNSTEIN, TWO_SIDED = 0, 1, 2


@jit
def composite_plan(
    c: Counts,
    n_transitions: int,
    form: int,  # HOEFFDING, BERNSTEIN (variances of the estimates) or TWO_SIDED (variances between two bounds)
    log_term: float,  # L
    noise: float,  # sub-Gaussian constant of the rewards' noise
    cost_part: float,  # 1 or 0: whether the width covers the cost of the comparator
    lam: float,
    draw: Floats,  # [L, S, A] multiples of the width to add, or [0, 0, 0]: the width itself
    prefer: Floats,  # [S, A] which of equally good and equally often tried actions to take: the largest
    allowed: Bools,  # [1 or H, S, A] actions that may be taken where there are any, or [0, 0, 0]: all
    policy: Floats,  # [H, S, A] out, one action each
    v: Floats,  # [S] out: V at step 1
    v_r: Floats,  # [S] out: V_r of the policy on the counts; what was never tried pays all and costs nothing
    v_c: Floats,  # [S] out
) -> None:
    """Q = min(H - h, rhat + Phat V + b), greedy; ties go to the pair tried more often, then to the preferred one."""
    horizon, n_states, n_actions = policy.shape
    width = c.seen.shape[3]
    perturbed = draw.shape[0] > 0
    next_v, next_r, next_c = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    next_low, low = np.zeros(n_states), np.zeros(n_states)
    q, q_r, q_c = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    policy[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        for t in range(n_states):
            if dead[t]:
                next_v[t], next_r[t], next_c[t], next_low[t] = -lam, 0.0, 1.0, -lam
        cap = float(horizon - h)
        rest = cap - 1.0
        reach = rest + cost_part * lam
        for s in range(n_states):
            if c.known[s]:
                policy[h, s, 0], v[s], v_r[s], v_c[s], low[s] = 1.0, 0.0, 0.0, 0.0, 0.0
                continue
            low[s] = -lam
            for a in range(n_actions):
                n = c.tried[layer, s, a]
                if n == 0:
                    q[a], q_r[a], q_c[a] = cap, cap, 0.0
                    continue
                moves = c.moved[layer, s, a] if h < n_transitions else 0
                mean, mean_r, mean_c, mean_low, bonus = 0.0, 0.0, 0.0, 0.0, 0.0
                if h < n_transitions and moves == 0:
                    mean, mean_r, mean_low = rest, rest, -lam
                elif moves > 0:
                    for j in range(width):
                        times = float(c.seen[layer, s, a, j])
                        if times == 0.0:
                            break
                        t = c.successor[layer, s, a, j]
                        mean += times * next_v[t]
                        mean_r += times * next_r[t]
                        mean_c += times * next_c[t]
                        mean_low += times * next_low[t]
                    inverse = 1.0 / moves
                    mean, mean_r = mean * inverse, mean_r * inverse
                    mean_c, mean_low = mean_c * inverse, mean_low * inverse
                    bonus = reach * sqrt(0.5 * log_term * inverse)
                    if form != HOEFFDING and moves > 1:
                        square, gap = 0.0, 0.0
                        for j in range(width):
                            times = float(c.seen[layer, s, a, j])
                            if times == 0.0:
                                break
                            t = c.successor[layer, s, a, j]
                            if form == BERNSTEIN:
                                square += times * (next_r[t] - mean_r) ** 2
                            else:
                                square += times * (next_v[t] - mean) ** 2
                                gap += times * (next_v[t] - next_low[t]) ** 2
                        root, fast = sqrt(2.0 * log_term * inverse), 7.0 * log_term / (3.0 * (moves - 1.0))
                        if form == BERNSTEIN:
                            sharp = root * sqrt(square * inverse) + rest * fast
                            sharp += cost_part * lam * (root * sqrt(max(mean_c * (1.0 - mean_c), 0.0)) + fast)
                        else:
                            unbiased = 1.0 / (moves - 1.0)
                            sharp = root * (sqrt(square * unbiased) + sqrt(gap * unbiased)) + reach * fast
                        bonus = min(bonus, sharp)
                if noise > 0.0:
                    bonus += noise * sqrt(2.0 * log_term / n)
                if perturbed:
                    bonus *= draw[layer, s, a]
                pay = c.earned[layer, s, a] / n
                q[a] = max(min(pay + mean + bonus, cap), -lam)
                q_r[a], q_c[a] = min(max(pay + mean_r, 0.0), cap), min(mean_c, 1.0)
                low[s] = max(low[s], pay + mean_low - bonus)
            some = False
            if len(allowed) > 0:
                may = allowed[h if len(allowed) > 1 else 0, s]
                for a in range(n_actions):
                    some = some or may[a]
                if some:
                    for a in range(n_actions):
                        if not may[a]:
                            q[a] = -np.inf
            best = 0
            for a in range(1, n_actions):
                if q[a] > q[best]:
                    best = a
            top = q[best]
            for a in range(n_actions):
                if q[a] >= top - TIE:
                    more = c.tried[layer, s, a] - c.tried[layer, s, best]
                    if more > 0 or (more == 0 and prefer[s, a] > prefer[s, best]):
                        best = a
            policy[h, s, best] = 1.0
            v[s], v_r[s], v_c[s] = top, q_r[best], q_c[best]
        next_v[:], next_r[:], next_c[:], next_low[:] = v, v_r, v_c, low
