"""Planning over all models that the counts allow, under a reset budget of zero.

Legend: h from 0; n how often a pair was seen to move, p the frequencies of its successors; a model is allowed if
|P(t|s,a) - p(t)| <= b(t) = 2 sqrt(p(t) (1 - p(t)) L / n) + 14 L / (3 n) for every t; free means: costs nothing.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.action_values import Counts
from resetfree.problems.finite.backward import Floats, Ints

ROUNDING = 1e-12


@jit
def limits(c: Counts, layer: int, s: int, a: int, log_term: float, low: Floats, high: Floats) -> None:
    """[S] the least and the largest probability that an allowed model gives to each successor of a pair."""
    n = c.moved[layer, s, a]
    low[:] = 0.0
    if n == 0:
        high[:] = 1.0
        return
    rest = 14.0 * log_term / (3.0 * n)
    high[:] = min(rest, 1.0)
    for j in range(c.seen.shape[3]):
        times = c.seen[layer, s, a, j]
        if times == 0:
            break
        t, p = c.successor[layer, s, a, j], times / n
        b = 2.0 * sqrt(p * (1.0 - p) * log_term / n) + rest
        low[t], high[t] = max(p - b, 0.0), min(p + b, 1.0)


@jit
def fill_up(order: Ints, low: Floats, high: Floats, value: Floats, other: Floats) -> tuple[float, float]:
    """Expected `value` and `other` under the allowed probabilities that put all they can on the first of `order`."""
    left = 1.0
    for t in range(len(low)):
        left -= low[t]
    total, second = 0.0, 0.0
    for t in order:
        p = low[t] + min(high[t] - low[t], max(left, 0.0))
        left -= high[t] - low[t]
        total += p * value[t]
        second += p * other[t]
    return total, second


@jit
def zero_budget_plan(
    c: Counts,
    n_transitions: int,
    log_term: float,  # L
    policy: NDArray[np.int16],  # [H, S] out
    v_r: Floats,  # [S] out, at step 1: the best over models and policies that are free
    v_c: Floats,  # [S] out: 0 where a safe policy exists, else the least reset probability over models and policies
) -> None:
    """The best pair of an allowed model and a policy that never resets in it, from every state at once.

    A pair is free at step h if an allowed model puts all its mass on successors that are neither reset states nor
    states from which nothing is free. Among the free pairs the value is r + max_P P V, with the bonus sqrt(L / n) on
    the mean reward. Where nothing is free, the pair with the least reset probability is played.
    """
    horizon, n_states = policy.shape
    n_actions = c.tried.shape[2]
    low, high = np.empty(n_states), np.empty(n_states)
    next_r, next_c = np.zeros(n_states), np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        for t in range(n_states):
            if dead[t]:
                next_r[t], next_c[t] = 0.0, 1.0
        best_first = np.argsort(-next_r, kind="mergesort")
        free_first = best_first[next_c[best_first] == 0.0]
        safe_first = np.argsort(next_c, kind="mergesort")
        for s in range(n_states):
            v_r[s], v_c[s] = -1.0, 2.0
            for a in range(n_actions):
                pay, cost = 0.0, 0.0
                if h < n_transitions:
                    limits(c, layer, s, a, log_term, low, high)
                    pay, cost = _best_successors(free_first, safe_first, low, high, next_r, next_c)
                n = c.tried[layer, s, a]
                mean = 1.0 if n == 0 else c.earned[layer, s, a] / n + sqrt(log_term / n)
                pay += min(max(mean, 0.0), 1.0)
                if cost < v_c[s] or (cost == v_c[s] and pay > v_r[s]):
                    v_r[s], v_c[s] = pay, cost
                    policy[h, s] = a
        next_r[:], next_c[:] = v_r, v_c


@jit
def _best_successors(
    free_first: Ints, safe_first: Ints, low: Floats, high: Floats, next_r: Floats, next_c: Floats
) -> tuple[float, float]:
    """Expected reward and cost after a pair: the best without cost if that is allowed, else the least cost."""
    room, must = 0.0, 0.0
    for t in free_first:
        room += high[t]
    for t in range(len(low)):
        if next_c[t] > 0.0:
            must += low[t]
    if must > 0.0 or room < 1.0 - ROUNDING:
        cost, pay = fill_up(safe_first, low, high, next_c, next_r)
        return pay, max(cost, ROUNDING)
    pay, _ = fill_up(free_first, low, high, next_r, next_r)
    return pay, 0.0
