"""The pass of Algorithm 1 with one-hot features, on the places of a plan alone.

Legend: as in `visited`; n how often a pair was tried, reg the ridge. With one-hot features Lam is diagonal, so
    Q_r = clip((sum of rewards + sum of V_r(s')) / (reg + n) + beta_r / sqrt(reg + n)),  Q_c likewise with - beta_c.
"""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core.compiled import jit
from resetfree.players.tabular.visited import DEAD, OVER, Numbers, Seen
from resetfree.problems.finite.backward import Floats, Ints

UNDERFLOW = -745.0  # exp of less is zero


class Widths(NamedTuple):
    """The constants of a pass."""

    reg: float
    beta_r: float
    beta_c: float
    alpha: float
    lam: float


@jit
def softmax_step(
    c: Seen,
    n_transitions: int,
    x: Widths,
    caps: Floats,  # [H] the largest Q_r of each step
    place: Numbers,  # [H, M]
    v_r: Floats,  # [N] values at places; those of the next step must be there
    v_c: Floats,  # [N]
    h: int,
    numbers: Numbers,  # [n] states, -1 for one that was never seen
    now_r: Floats,  # [n] out: values under the softmax of alpha (Q_r - lam Q_c)
    now_c: Floats,  # [n] out
    rows: Floats,  # [n, A] out: the softmax, or [0, A] where only values are wanted
) -> None:
    """Q, softmax and V in some states at step h. In states that were never seen all actions are equally good."""
    n_actions = rows.shape[1]
    dead = c.known_last if h == n_transitions - 1 else c.known
    after = place[h + 1] if h + 1 < len(place) else np.zeros(place.shape[1], dtype=np.int32)  # OVER
    layer, cap, keep = h if c.row.shape[1] > 1 else 0, caps[h], len(rows) > 0
    hope = max(min(x.beta_r * sqrt(1.0 / x.reg), cap), 0.0)  # Q_r of what was never tried, which costs nothing
    q_r, q_c, weight = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    for k in range(len(numbers)):
        r = c.row[numbers[k], layer] if numbers[k] >= 0 else -1
        if r < 0:
            now_r[k], now_c[k] = hope, 0.0
            if keep:
                rows[k] = 1.0 / n_actions
            continue
        best = -np.inf
        for a in range(n_actions):
            sum_r, sum_c = c.earned[r, a], 0.0
            begin = c.begin[r, a]
            for j in range(begin, begin + c.used[r, a]):
                t = c.successor[j]
                at = DEAD if dead[t] else after[t]
                sum_r += c.times[j] * v_r[at]
                sum_c += c.times[j] * v_c[at]
            inverse = 1.0 / (x.reg + c.tried[r, a])
            width = sqrt(inverse)
            q_r[a] = max(min(sum_r * inverse + x.beta_r * width, cap), 0.0)
            q_c[a] = max(min(sum_c * inverse - x.beta_c * width, 1.0), 0.0)
            weight[a] = q_r[a] - x.lam * q_c[a]
            best = max(best, weight[a])
        total, value_r, value_c = 0.0, 0.0, 0.0
        for a in range(n_actions):
            exponent = x.alpha * (weight[a] - best)  # <= 0: never overflows
            weight[a] = 1.0
            if exponent < 0.0:
                weight[a] = exp(exponent) if exponent > UNDERFLOW else 0.0
            total += weight[a]
            value_r += weight[a] * q_r[a]
            value_c += weight[a] * q_c[a]
        now_r[k], now_c[k] = value_r / total, value_c / total
        if keep:
            rows[k] = weight / total


@jit
def softmax_places(
    c: Seen,
    n_transitions: int,
    x: Widths,
    caps: Floats,  # [H]
    place: Numbers,  # [H, M]
    v_r: Floats,  # [N] out, at the new places
    v_c: Floats,  # [N] out
    state_at: Numbers,  # [N]
    bounds: Ints,  # [H + 1] the new places of each step
    first: int,  # the step to go back to
) -> None:
    """The values of the new places, from the last step to the first; rows are cheaper made again than kept."""
    v_r[OVER], v_c[OVER], v_r[DEAD], v_c[DEAD] = 0.0, 0.0, 0.0, 1.0
    no_rows = np.empty((0, c.tried.shape[1]))
    for h in range(len(place) - 1, first - 1, -1):
        new = slice(bounds[h], bounds[h + 1])
        if bounds[h] < bounds[h + 1]:
            softmax_step(c, n_transitions, x, caps, place, v_r, v_c, h, state_at[new], v_r[new], v_c[new], no_rows)
