"""Backward passes on the places of a plan alone, in compiled code: optimistic value iteration, and Algorithm 1."""

from __future__ import annotations

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core.arrays import Bools, Floats, Ints
from resetfree.core.compiled import jit
from resetfree.players.tabular.count_players import Bonus, Rows, composite_step
from resetfree.players.tabular.sparse_counts import DEAD, NEWS, OVER, STATES, Numbers, Seen

# Optimistic value iteration on counts, and what can still be safe, on the places of a plan and on what changed alone.
#
# The passes over all states are `count_players` and `support_elimination`.
#
# Legend: as in `sparse_counts`; bad[i, l] whether a reset can no longer be avoided from numbered state i as far as was
# seen, one layer l for a life without end or one per step of an episode.


@jit
def _allowed(c: Seen, bad: Bools, endless: bool, n_transitions: int, h: int, numbers: Numbers, may: Bools) -> None:
    """may[k, a]: whether all observed successors of action a in numbers[k] can still be safe after step h."""
    at_end, moves_on = not endless and h == n_transitions - 1, h < n_transitions or endless
    layer, after = h if c.row.shape[1] > 1 else 0, 0 if endless else h + 1
    for k in range(len(numbers)):
        r = c.row[numbers[k], layer]
        for a in range(may.shape[1]):
            may[k, a] = True
            if r >= 0 and moves_on:
                for j in range(c.begin[r, a], c.begin[r, a] + c.used[r, a]):
                    t = c.successor[j]
                    if c.known_last[t] if at_end else bad[t, after]:
                        may[k, a] = False
                        break


@jit
def hold_back(may: Bools, belief: Floats, limit: float) -> None:
    """Of the actions that may be taken [A], keep those with a belief up to the limit, or with the least one."""
    least = np.inf
    for a in range(len(may)):
        if may[a]:
            least = min(least, belief[a])
    for a in range(len(may)):
        may[a] = may[a] and belief[a] <= max(limit, least)


@jit
def composite_places(
    c: Seen,
    bad: Bools,  # [M, 1 or H], or [0, 0]: every action is allowed
    endless: bool,  # whether its one layer is for a life without end
    n_transitions: int,
    bonus: Bonus,
    score: Floats,  # [A] the preference for an action among equally good ones is score + weight jitter
    weight: float,
    jitter: Floats,  # [S, A]
    belief: Floats,  # [S, A] that a pair is fatal, or [0, 0]: nothing is held back; only inside what can be safe
    limit: float,  # of the belief, above which a pair is held back
    place: Numbers,  # [H, M]
    state_at: Numbers,  # [N]
    bounds: Ints,  # [H + 1] the new places of each step
    first: int,  # the step to go back to
    v: Floats,  # [N] out, at the new places: the optimistic value
    v_r: Floats,  # [N] out: values of the policy on the counts
    v_c: Floats,  # [N] out
    low: Floats,  # [N] out: a lower bound
    action: Numbers,  # [N] out
) -> None:
    """`count_players.composite_plan` at the new places, from the last step to the first."""
    horizon, n_actions, lam = len(place), len(score), bonus.lam
    counted = Rows(c.tried, c.earned, c.moved, c.begin, c.used, c.successor, c.times, 0)
    over = np.zeros(place.shape[1] if bounds[horizon] > bounds[horizon - 1] else 0, dtype=np.int32)
    all_width = np.empty((0, 0))
    v[OVER], v_r[OVER], v_c[OVER], low[OVER] = 0.0, 0.0, 0.0, 0.0
    v[DEAD], v_r[DEAD], v_c[DEAD], low[DEAD] = -lam, 0.0, 1.0, -lam
    for h in range(horizon - 1, first - 1, -1):
        new = slice(bounds[h], bounds[h + 1])
        n = bounds[h + 1] - bounds[h]
        if n == 0:
            continue
        layer = h if c.row.shape[1] > 1 else 0
        rows, known = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        prefer = np.empty((n, n_actions))
        bound = len(bad) > 0 and h < n_transitions  # an action that leads nowhere is never unsafe
        may = np.empty((n if bound else 0, n_actions), dtype=np.bool_)
        if bound:
            _allowed(c, bad, endless, n_transitions, h, state_at[new], may)
        for k in range(n):
            i = state_at[bounds[h] + k]
            r = c.row[i, layer]
            rows[k], known[k] = r, c.known[i]
            for a in range(n_actions):
                prefer[k, a] = score[a] + weight * jitter[c.state[i], a]
            if bound and bad[i, 0 if endless else h]:
                may[k] = True  # nothing is safe here any more, so nothing is forbidden
            if bound and len(belief) > 0:
                hold_back(may[k], belief[c.state[i]], limit)
        next_place = place[h + 1] if h + 1 < horizon else over
        after = (v, v_r, v_c, low, next_place, c.known_last if h == n_transitions - 1 else c.known, DEAD)
        here, made = (rows, known, prefer, may, all_width), (v[new], v_r[new], v_c[new], low[new], action[new])
        composite_step(counted, h < n_transitions, bonus, float(horizon - h), 0.0, all_width, 0, *after, *here, *made)


@jit
def link(c: Seen, head: Ints, before: Numbers, follow: Ints, n: int) -> int:
    """Add the news to the lists of predecessors: those of t are before[e] for e = head[t], follow[e], ... until -1."""
    for e in range(c.size[NEWS]):
        before[n], follow[n] = c.news[e, 0], head[c.news[e, 1]]
        head[c.news[e, 1]] = n
        n += 1
    return n


@jit
def _turn(
    c: Seen,
    bad: Bools,
    endless: bool,
    n_transitions: int,
    h: int,
    checked: Numbers,
    may: Bools,
    turned: Numbers,
    n_turned: int,
) -> int:
    """Check the states `checked` again; those that have no safe action left turn bad, and are listed."""
    _allowed(c, bad, endless, n_transitions, h, checked, may)
    layer = 0 if endless else h
    for k in range(len(checked)):
        if not bad[checked[k], layer] and not may[k].any():
            bad[checked[k], layer] = True
            turned[n_turned] = checked[k]
            n_turned += 1
    return n_turned


@jit
def spread(
    c: Seen,
    n_transitions: int,
    head: Ints,  # [M] predecessors, see `link`
    before: Numbers,
    follow: Ints,
    n_edges: int,
    known: int,  # the state in which the episode was reset if it is one, or -1
    known_last: int,  # likewise at the end of an episode
    bad: Bools,  # [M, 1 or H] in and out
    endless: bool,  # whether its one layer is for a life without end; an episode of one step has one layer too
) -> None:
    """What is bad after an episode: only its new edges, its reset state, and predecessors of what turned bad change it.

    Sets only grow as more is seen, so looking again at what changed gives the sets that all counts together give.
    """
    n_new = c.size[NEWS]
    checked = np.empty(n_new + n_edges, dtype=np.int32)
    may = np.empty((len(checked), c.tried.shape[1]), dtype=np.bool_)
    turned = np.empty(c.size[STATES] + 1, dtype=np.int32)
    checked[:n_new] = c.news[:n_new, 0]
    h, m = bad.shape[1] - 1, 0
    if endless and known_last >= 0 and not bad[known_last, 0]:
        bad[known_last, 0] = True
        turned[0], m = known_last, 1
    first = True
    while h >= 0:
        if not endless and h == n_transitions - 1:  # the end of an episode has its own reset states
            turned[0], m = known_last, 1 if known_last >= 0 else 0
        n = n_new if first or not endless else 0
        for k in range(m):
            e = head[turned[k]]
            while e >= 0:
                checked[n] = before[e]
                n += 1
                e = follow[e]
        m = 0
        if not endless and known >= 0 and not bad[known, h]:
            bad[known, h] = True
            turned[0], m = known, 1
        m = _turn(c, bad, endless, n_transitions, h, checked[:n], may[:n], turned, m)
        first = False
        if endless and m == 0:
            return
        if not endless:
            h -= 1


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


# --------------------------------------------------------------------------------------------------------------------
