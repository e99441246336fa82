"""The pass of Algorithm 1 on counts, with the intervals of `theory.proved_widths` in place of beta times a width.

Legend: as there; t a next state, `dead` the states whose entering is known to be a reset, W the room of a row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts
from resetfree.problems.finite.backward import Bools, Floats, Ints
from resetfree.theory.proved_widths import IntervalWidth, kl_lower, kl_upper, noise_radius, radius

UNDERFLOW = -745.0  # exp of less is zero


@jit
def descending(
    successor: NDArray[np.int32],  # [W] of a cell
    seen: Ints,  # [W] how often; 0 marks a free place
    dead: Bools,  # [S]
    v: Floats,  # [S]
    at_reset: float,  # the value of a reset
    values: Floats,  # [W] out
    times: Floats,  # [W] out
) -> int:
    """The values of what was seen, from the largest to the smallest, and how often; returns their number."""
    n = 0
    for j in range(len(seen)):
        if seen[j] == 0:
            break
        t = successor[j]
        value = at_reset if dead[t] else v[t]
        i = n
        while i > 0 and values[i - 1] < value:
            values[i], times[i] = values[i - 1], times[i - 1]
            i -= 1
        values[i], times[i] = value, float(seen[j])
        n += 1
    return n


@jit
def largest_mean(values: Floats, times: Floats, n: int, total: float, x: float, highest: float) -> float:
    """The integral of the largest P(V > t); highest: of all values, whether seen or not."""
    mean, above, cum = 0.0, max(highest, values[0]), 0.0
    for j in range(n):
        if above > values[j]:
            mean += (above - values[j]) * kl_upper(cum / total, x)
        above = values[j]
        cum += times[j]
    return float(mean + above)


@jit
def smallest_mean(values: Floats, times: Floats, n: int, total: float, x: float, lowest: float) -> float:
    """The integral of the smallest P(V > t); lowest: of all values, whether seen or not."""
    mean, cum = 0.0, 0.0
    for j in range(n):
        cum += times[j]
        below = values[j + 1] if j + 1 < n else min(lowest, values[j])
        if values[j] > below:
            mean += (values[j] - below) * kl_lower(min(cum / total, 1.0), x)
    return float(mean + min(lowest, values[n - 1]))


@jit
def interval_plan(
    c: Counts,
    n_transitions: int,
    width: IntervalWidth,
    alpha: float,
    lam: float,
    caps: Floats,  # [H] the largest Q_r of each step
    allowed: Bools,  # [1 or H, S, A] the actions among which the softmax chooses, or [0, 0, 0] for all of them
    policy: Floats,  # [H, S, A] out
    q_r: Floats,  # [H, S, A] out
    q_c: Floats,  # [H, S, A] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """Q_r and Q_c from intervals of all sets of next states, softmax of alpha (Q_r - lam Q_c), values under it.

    An action that moves nothing (the last one of a literal episode) cannot be reset, and is allowed in any case; so are
    all actions of a state that has no allowed one.
    """
    horizon, n_states, n_actions = policy.shape
    values, times = np.empty(c.seen.shape[3]), np.empty(c.seen.shape[3])
    v_r[:] = 0.0
    v_c[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        highest, lowest = 0.0, 1.0
        for t in range(n_states):
            if not dead[t]:
                highest, lowest = max(highest, v_r[t]), min(lowest, v_c[t])
        for s in range(n_states):
            for a in range(n_actions):
                tried, moved = c.tried[layer, s, a], c.moved[layer, s, a]
                pay, cost = 1.0, 0.0
                if tried > 0:
                    pay = c.earned[layer, s, a] / tried
                    if width.noise > 0.0:
                        pay = min(pay + noise_radius(width, tried), 1.0)
                if h < n_transitions and moved == 0:
                    pay += highest
                    cost = lowest
                elif h < n_transitions:
                    row, seen, x = c.successor[layer, s, a], c.seen[layer, s, a], radius(width, moved)
                    n = descending(row, seen, dead, v_r, 0.0, values, times)
                    pay += largest_mean(values, times, n, float(moved), x, highest)
                    n = descending(row, seen, dead, v_c, 1.0, values, times)
                    cost = smallest_mean(values, times, n, float(moved), x, lowest)
                q_r[h, s, a] = max(min(pay, caps[h]), 0.0)
                q_c[h, s, a] = max(min(cost, 1.0), 0.0)
        may = min(h, len(allowed) - 1) if h < n_transitions else -1
        for s in range(n_states):
            best, total, some = -np.inf, 0.0, False
            if may >= 0:
                for a in range(n_actions):
                    some = some or allowed[may, s, a]
            for a in range(n_actions):
                if not some or allowed[may, s, a]:
                    best = max(best, q_r[h, s, a] - lam * q_c[h, s, a])
            for a in range(n_actions):
                exponent = alpha * (q_r[h, s, a] - lam * q_c[h, s, a] - best)  # <= 0: never overflows
                policy[h, s, a] = 1.0
                if some and not allowed[may, s, a]:
                    policy[h, s, a] = 0.0
                elif exponent < 0.0:
                    policy[h, s, a] = np.exp(exponent) if exponent > UNDERFLOW else 0.0
                total += policy[h, s, a]
            v_r[s], v_c[s] = 0.0, 0.0
            for a in range(n_actions):
                policy[h, s, a] /= total
                v_r[s] += policy[h, s, a] * q_r[h, s, a]
                v_c[s] += policy[h, s, a] * q_c[h, s, a]
