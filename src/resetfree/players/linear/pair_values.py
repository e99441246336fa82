"""Passes of linear players over what was seen: of stored transitions on a continuum, and of large finite problems.

Legend: rows in the order of visit, the action of row j leads to row j + 1; psi [n, A, d] features of every action in
every row; L layers of data (one per step, or one for all), inverse [L, d, d] = Lam^-1, pay [L, d] = sum phi r; order
the rows with an action, by layer, ends [L+1] where each layer begins in it; w, w_r, w_c [H, d] weights of each step.
"""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core import Bools, Floats, Ints, jit, longer
from resetfree.players.linear.ridge import choose, cost_bonus
from resetfree.players.tabular.sparse_counts import DEAD, OVER, PLACES, LazyPass, Numbers, Seen, SeenCounts
from resetfree.problems import State


@jit
def learn_pairs(
    psi: Floats,  # [m + 1, A, d] of one episode
    actions: Ints,  # [m]
    rewards: Floats,  # [m]
    layer_of_step: Ints,
    inverse: Floats,
    pay: Floats,
    log_det: Floats,  # [L] log det Lam, less its value without data
    counts: Ints,  # [L]
) -> None:
    """Add the steps of an episode: Lam^-1 -= u u^T / (1 + x.u), u = Lam^-1 x; log det Lam += log(1 + x.u)."""
    d = psi.shape[2]
    for t in range(len(actions)):
        layer, x = layer_of_step[t], psi[t, actions[t]]
        gram = inverse[layer]
        u = np.dot(gram, x)
        q = 1.0 + max(np.dot(x, u), 0.0)
        log_det[layer] += np.log(q)
        counts[layer] += 1
        for i in range(d):
            pay[layer, i] += rewards[t] * x[i]
            f = u[i] / q
            for j in range(d):
                gram[i, j] -= f * u[j]


@jit
def squared(gram: Floats, x: Floats) -> float:
    """The squared width x^T Lam^-1 x."""
    total = 0.0
    for i in range(len(x)):
        part = 0.0
        for j in range(len(x)):
            part += gram[i, j] * x[j]
        total += part * x[i]
    return max(total, 0.0)


@jit
def soft_row(
    x: Floats,  # [A, d]
    gram: Floats,
    w_r: Floats,  # [d]
    w_c: Floats,  # [d]
    beta_r: float,
    beta_c: float,
    alpha: float,
    lam: float,
    cap: float,
    row: Floats,  # [A] out: the softmax of alpha (Q_r - lam Q_c)
) -> tuple[float, float]:
    """V_r and V_c of one state: optimistic Q_r and Q_c under their softmax."""
    n_actions, d = x.shape
    q_r, q_c = np.empty(n_actions), np.empty(n_actions)
    best = -np.inf
    for a in range(n_actions):
        width = np.sqrt(squared(gram, x[a]))
        r, c = beta_r * width, -beta_c * width
        for i in range(d):
            r += w_r[i] * x[a, i]
            c += w_c[i] * x[a, i]
        q_r[a], q_c[a] = max(min(r, cap), 0.0), max(min(c, 1.0), 0.0)
        best = max(best, q_r[a] - lam * q_c[a])
    total, v_r, v_c = 0.0, 0.0, 0.0
    for a in range(n_actions):
        exponent = alpha * (q_r[a] - lam * q_c[a] - best) if q_r[a] - lam * q_c[a] < best else 0.0
        row[a] = np.exp(exponent) if exponent > -745.0 else 0.0
        total += row[a]
    for a in range(n_actions):
        row[a] /= total
        v_r += row[a] * q_r[a]
        v_c += row[a] * q_c[a]
    return v_r, v_c


@jit
def soft_pass(
    psi: Floats,
    action: Ints,
    is_reset: Bools,
    order: Ints,
    ends: Ints,
    layer_of_step: Ints,
    inverse: Floats,
    pay: Floats,
    betas: Floats,  # [2, H]
    alpha: float,
    lam: float,
    w_r: Floats,  # out
    w_c: Floats,  # out
) -> None:
    """The backward pass of Algorithm 1: w_h = Lam^-1 sum phi (r + V_{h+1}(s')), and the same of costs."""
    horizon, d = w_r.shape
    row = np.empty(psi.shape[1])
    for h in range(horizon - 1, -1, -1):
        layer = layer_of_step[h]
        total_r, total_c = pay[layer].copy(), np.zeros(d)
        for i in range(ends[layer], ends[layer + 1]):
            j = order[i]
            v_r, v_c = 0.0, 0.0
            if is_reset[j + 1]:
                v_c = 1.0
            elif h + 1 < horizon:
                gram = inverse[layer_of_step[h + 1]]
                b_r, b_c, cap = betas[0, h + 1], betas[1, h + 1], float(horizon - h - 1)
                v_r, v_c = soft_row(psi[j + 1], gram, w_r[h + 1], w_c[h + 1], b_r, b_c, alpha, lam, cap, row)
            x = psi[j, action[j]]
            for t in range(d):
                total_r[t] += x[t] * v_r
                total_c[t] += x[t] * v_c
        w_r[h] = np.dot(inverse[layer], total_r)
        w_c[h] = np.dot(inverse[layer], total_c)


@jit
def soft_rows(
    psi: Floats,  # [n, A, d]
    gram: Floats,
    w_r: Floats,
    w_c: Floats,
    beta_r: float,
    beta_c: float,
    alpha: float,
    lam: float,
    cap: float,
    rows: Floats,  # [n, A] out
    v_r: Floats,  # [n] out
    v_c: Floats,  # [n] out
) -> None:
    """The softmax and the values of many states at one step."""
    for j in range(len(psi)):
        v_r[j], v_c[j] = soft_row(psi[j], gram, w_r, w_c, beta_r, beta_c, alpha, lam, cap, rows[j])


@jit
def greedy_row(
    x: Floats,  # [A, d]
    gram: Floats,
    w: Floats,  # [3, d] of the composite, of rewards and of costs
    beta_r: float,
    beta_c: float,
    aware: bool,  # see `cost_bonus`
    lam: float,
    cap: float,
) -> tuple[int, float, float, float]:
    """The greedy action of one state, V of the composite, and V_r and V_c without bonus."""
    n_actions, d = x.shape
    q, width2, q_r, q_c = np.empty(n_actions), np.empty(n_actions), np.zeros(n_actions), np.zeros(n_actions)
    for a in range(n_actions):
        total = 0.0
        for i in range(d):
            total += w[0, i] * x[a, i]
            q_r[a] += w[1, i] * x[a, i]
            q_c[a] += w[2, i] * x[a, i]
        width2[a] = squared(gram, x[a])
        width = np.sqrt(width2[a])
        bonus = beta_r * width + lam * cost_bonus(beta_c, width, q_c[a], aware)
        q[a] = max(min(total + bonus, cap), -lam)
    a = choose(q, width2, 0, n_actions)
    return a, q[a], max(min(q_r[a], cap), 0.0), max(min(q_c[a], 1.0), 0.0)


@jit
def greedy_pass(
    psi: Floats,
    action: Ints,
    is_reset: Bools,
    order: Ints,
    ends: Ints,
    layer_of_step: Ints,
    inverse: Floats,
    pay: Floats,
    betas: Floats,  # [2, H]
    aware: bool,
    lam: float,
    w: Floats,  # [H, 3, d] out
) -> None:
    """The backward pass of the greedy composite: regressions of r + V(s'), r + V_r(s') and V_c(s')."""
    horizon, _, d = w.shape
    for h in range(horizon - 1, -1, -1):
        layer = layer_of_step[h]
        total = np.zeros((3, d))
        total[0], total[1] = pay[layer], pay[layer]
        for i in range(ends[layer], ends[layer + 1]):
            j = order[i]
            v, v_r, v_c = 0.0, 0.0, 0.0
            if is_reset[j + 1]:
                v, v_c = -lam, 1.0
            elif h + 1 < horizon:
                gram = inverse[layer_of_step[h + 1]]
                b_r, b_c, cap = betas[0, h + 1], betas[1, h + 1], float(horizon - h - 1)
                _, v, v_r, v_c = greedy_row(psi[j + 1], gram, w[h + 1], b_r, b_c, aware, lam, cap)
            x = psi[j, action[j]]
            for t in range(d):
                total[0, t] += x[t] * v
                total[1, t] += x[t] * v_r
                total[2, t] += x[t] * v_c
        for one in range(3):
            w[h, one] = np.dot(inverse[layer], total[one])


@jit
def greedy_rows(
    psi: Floats,  # [n, A, d]
    gram: Floats,
    w: Floats,  # [3, d]
    beta_r: float,
    beta_c: float,
    aware: bool,
    lam: float,
    cap: float,
    actions: Ints,  # [n] out
    values: Floats,  # [3, n] out: V, V_r and V_c
) -> None:
    """The greedy actions and the values of many states at one step."""
    for j in range(len(psi)):
        actions[j], values[0, j], values[1, j], values[2, j] = greedy_row(
            psi[j], gram, w, beta_r, beta_c, aware, lam, cap
        )


# --------------------------------------------------------------------------------------------------------------------

# The pass of Algorithm 1 with one-hot features, on the places of a plan alone.
#
# Legend: as in `sparse_counts`; n how often a pair was tried, reg the ridge. With one-hot features Lam is diagonal, so
#     Q_r = clip((sum of rewards + sum of V_r(s')) / (reg + n) + beta_r / sqrt(reg + n)),  Q_c likewise with - beta_c.

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
    is_reset = c.known_last if h == n_transitions - 1 else c.known
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
                at = DEAD if is_reset[t] else after[t]
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


class SoftmaxPass(LazyPass):
    """Algorithm 1's pass for one multiplier, with one-hot features."""

    def __init__(self, counts: SeenCounts, shape: tuple[int, int, int], widths: Widths, caps: Floats) -> None:
        super().__init__(counts, shape)
        self._fixed = (counts.n_transitions, widths, caps)
        self._v_r, self._v_c = np.empty((2, PLACES))
        self._untried = max(min(widths.beta_r * (1.0 / widths.reg) ** 0.5, caps[0]), 0.0)

    def _fill(self, bounds: Ints, first: int) -> None:
        self._v_r, self._v_c = longer(self._v_r, self.n_places), longer(self._v_c, self.n_places)
        softmax_places(self._seen, *self._fixed, self._place, self._v_r, self._v_c, self._state_at, bounds, first)

    def rows(self, h: int, states: Ints) -> Floats:
        """Uniform where nothing was seen: there all actions are equally good."""
        rows, numbers = np.empty((len(states), self.shape[2])), self.numbers(states)
        self.work_out(h, numbers)
        now_r, now_c = np.empty((2, len(states)))
        softmax_step(self._seen, *self._fixed, self._place, self._v_r, self._v_c, h, numbers, now_r, now_c, rows)
        return rows

    def values(self, s1: State) -> tuple[float, float]:
        """V_r and V_c at step 1."""
        number = self.numbers(np.array([s1]))
        if number[0] < 0:
            return self._untried, 0.0
        at = self.places_of(0, number)[0]
        return float(self._v_r[at]), float(self._v_c[at])
