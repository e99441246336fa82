"""Ridge regression of next-state values, kept incrementally and exactly, for finite problems with any features.

Legend: N = S*A pairs with features Phi [N, d]; L layers of data (one per step, or one for all); a sample is a pair i
with reward r and successor s' (-1: none). With Lam = reg I + sum phi phi^T, b = sum phi r, M = sum phi e_{s'}^T,
planning needs
    Phi Lam^-1 sum phi (r + V(s')) = Phi Lam^-1 b + (Phi Lam^-1 M) V    and    width(i) = ||phi_i||_{Lam^-1}.
Two exact forms, distinguished by `phi`:
  pairs     (phi empty) gram = Phi Lam^-1 Phi^T [N, N], cross = (Phi Lam^-1 M)^T [S, N], pay = Phi Lam^-1 b [N]: a
            sample of pair i changes them along the column gram[:, i], which has one entry for one-hot features;
  features  gram = Lam^-1 [d, d], cross = M^T [S, d], pay = b [d]: better when d is much smaller than N.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, jit


class Regression(NamedTuple):
    """What has been learned from the samples, in one of the two forms."""

    gram: Floats  # [L, N, N] or [L, d, d]
    cross: Floats  # [L, S, N] or [L, S, d]
    pay: Floats  # [L, N] or [L, d]
    width2: Floats  # [L, N] squared widths


def empty(phi: Floats, n_states: int, n_layers: int, reg: float, by_pairs: bool = True) -> tuple[Regression, Floats]:
    """No samples yet, in the cheaper form; the second value is the `phi` to pass along (empty in the pairs form).

    by_pairs: whether the pairs form may be chosen.
    """
    n, d = phi.shape
    width2 = np.tile((phi**2).sum(axis=1) / reg, (n_layers, 1))
    if by_pairs and n * (n + n_states) <= 2 * d * (d + 2 * n):
        gram = np.tile(phi @ phi.T / reg, (n_layers, 1, 1))
        cross, pay = np.zeros((n_layers, n_states, n)), np.zeros((n_layers, n))
        return Regression(gram, cross, pay, width2), np.empty((0, 0))
    gram = np.tile(np.eye(d) / reg, (n_layers, 1, 1))
    return Regression(gram, np.zeros((n_layers, n_states, d)), np.zeros((n_layers, d)), width2), phi


@jit
def learn(r: Regression, phi: Floats, layer: int, i: int, reward: float, successor: int) -> None:
    """Add one sample: Sherman-Morrison, Lam^-1 -= u u^T / q with u = Lam^-1 phi_i, q = 1 + phi_i.u."""
    gram, cross, pay, width2 = r.gram[layer], r.cross[layer], r.pay[layer], r.width2[layer]
    if phi.size > 0:
        x = phi[i]
        u = np.dot(gram, x)
        q = 1.0 + np.dot(x, u)
        v = np.dot(phi, u)
        for j in range(len(v)):
            width2[j] = max(width2[j] - v[j] * v[j] / q, 0.0)
        for j in range(len(u)):
            f = u[j] / q
            for t in range(len(u)):
                gram[j, t] -= f * u[t]
        for j in range(len(x)):
            pay[j] += reward * x[j]
        if successor >= 0:
            for j in range(len(x)):
                cross[successor, j] += x[j]
        return
    # Pairs form: Phi u is the column gram[:, i], and u^T M is the column cross[:, i].
    v = gram[i].copy()
    n, q = len(v), 1.0 + v[i]
    for s in range(cross.shape[0]):
        change = ((1.0 if s == successor else 0.0) - cross[s, i]) / q
        if change != 0.0:
            for j in range(n):
                cross[s, j] += v[j] * change
    change = (reward - pay[i]) / q
    for j in range(n):
        pay[j] += v[j] * change
    for j in range(n):
        if v[j] != 0.0:
            f = v[j] / q
            for t in range(n):
                gram[j, t] -= f * v[t]
            width2[j] = max(gram[j, j], 0.0)


@jit
def learn_episode(
    r: Regression, phi: Floats, layer_of_step: Ints, n_actions: int, states: Ints, actions: Ints, rewards: Floats
) -> None:
    """Add the steps that were really taken; the last may have no successor (literal boundary)."""
    for t in range(len(actions)):
        successor = states[t + 1] if t + 1 < len(states) else -1
        learn(r, phi, layer_of_step[t], states[t] * n_actions + actions[t], rewards[t], successor)


@jit
def expect(r: Regression, phi: Floats, layer: int, v_r: Floats, v_c: Floats, out_r: Floats, out_c: Floats) -> None:
    """out_r = regression of r + V_r(s'), out_c = regression of V_c(s'), for all pairs."""
    cross, pay = r.cross[layer], r.pay[layer]
    n_states, n = cross.shape
    if phi.size > 0:
        y_r, y_c = pay.copy(), np.zeros(n)
        for s in range(n_states):
            for j in range(n):
                y_r[j] += v_r[s] * cross[s, j]
                y_c[j] += v_c[s] * cross[s, j]
        out_r[:] = np.dot(phi, np.dot(r.gram[layer], y_r))
        out_c[:] = np.dot(phi, np.dot(r.gram[layer], y_c))
        return
    for j in range(n):
        out_r[j] = pay[j]
        out_c[j] = 0.0
    for s in range(n_states):  # whole columns at once: additions only, which compilers vectorise without reordering
        a, b = v_r[s], v_c[s]
        if b == 0.0:
            for j in range(n):
                out_r[j] += a * cross[s, j]
        else:
            for j in range(n):
                out_r[j] += a * cross[s, j]
                out_c[j] += b * cross[s, j]


@jit
def softmax_plan(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta_r: Floats,  # [H]
    beta_c: Floats,  # [H]
    z_r: Floats,  # [H] what is added to each Q_r besides
    z_c: Floats,  # [H] what is subtracted from each Q_c
    alpha: float,
    lam: float,
    known: Bools,  # [S] states seen to be reset states
    known_last: Bools,  # [S] states in which the end of an episode was seen to be a reset
    caps: Floats,  # [H] the largest Q_r of each step
    old: Floats,  # [H, S, A] the policy to average with (lagged), or empty: average with the new one
    policy: Floats,  # [H, S, A] out
    q_r: Floats,  # [H, N] out
    q_c: Floats,  # [H, N] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """The backward pass of Algorithm 1: optimistic Q_r and Q_c, softmax of alpha (Q_r - lam Q_c), values under it."""
    horizon, n_states, n_actions = policy.shape
    v_r[:] = 0.0
    v_c[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            if known[s] or (h == n_transitions - 1 and known_last[s]):
                v_r[s] = 0.0
                v_c[s] = 1.0
        layer = layer_of_step[h]
        now_r, now_c, width2 = q_r[h], q_c[h], r.width2[layer]
        expect(r, phi, layer, v_r, v_c, now_r, now_c)
        for s in range(n_states):
            best = -np.inf
            for a in range(n_actions):
                i = s * n_actions + a
                width = np.sqrt(width2[i])
                now_r[i] = max(min(now_r[i] + beta_r[h] * width + z_r[h], caps[h]), 0.0)
                now_c[i] = max(min(now_c[i] - beta_c[h] * width - z_c[h], 1.0), 0.0)
                best = max(best, now_r[i] - lam * now_c[i])
            total = 0.0
            for a in range(n_actions):
                i = s * n_actions + a
                exponent = alpha * (now_r[i] - lam * now_c[i] - best)  # <= 0: never overflows
                policy[h, s, a] = np.exp(exponent) if exponent > -745.0 else 0.0
                total += policy[h, s, a]
            v_r[s] = 0.0
            v_c[s] = 0.0
            for a in range(n_actions):
                policy[h, s, a] /= total
                weight = policy[h, s, a] if old.size == 0 else old[h, s, a]
                v_r[s] += weight * now_r[s * n_actions + a]
                v_c[s] += weight * now_c[s * n_actions + a]


# --------------------------------------------------------------------------------------------------------------------

TIE = 1e-9  # values, and squared widths, that are closer than this are equal


@jit
def learn_counted(
    r: Regression,
    phi: Floats,
    log_det: Floats,  # [L] log det Lam, less its value without data
    layer_of_step: Ints,
    n_actions: int,
    states: Ints,
    actions: Ints,
    rewards: Floats,
) -> None:
    """Add the steps that were really taken, and keep the determinants: det(Lam + x x^T) = det Lam (1 + |x|^2)."""
    for t in range(len(actions)):
        layer, i = layer_of_step[t], states[t] * n_actions + actions[t]
        log_det[layer] += np.log1p(r.width2[layer, i])
        learn(r, phi, layer, i, rewards[t], states[t + 1] if t + 1 < len(states) else -1)


@jit
def expect_composite(
    r: Regression, phi: Floats, layer: int, v: Floats, v_r: Floats, v_c: Floats, q: Floats, q_r: Floats, q_c: Floats
) -> None:
    """Regressions, for all pairs, of r + V(s') into q, of r + V_r(s') into q_r and of V_c(s') into q_c."""
    cross, pay = r.cross[layer], r.pay[layer]
    n_states, n = cross.shape
    if phi.size > 0:
        y, y_r, y_c = pay.copy(), pay.copy(), np.zeros(n)
        for s in range(n_states):
            for j in range(n):
                y[j] += v[s] * cross[s, j]
                y_r[j] += v_r[s] * cross[s, j]
                y_c[j] += v_c[s] * cross[s, j]
        gram = r.gram[layer]
        q[:] = np.dot(phi, np.dot(gram, y))
        q_r[:] = np.dot(phi, np.dot(gram, y_r))
        q_c[:] = np.dot(phi, np.dot(gram, y_c))
        return
    for j in range(n):
        q[j] = pay[j]
        q_r[j] = pay[j]
        q_c[j] = 0.0
    for s in range(n_states):
        a, b, c = v[s], v_r[s], v_c[s]
        for j in range(n):
            q[j] += a * cross[s, j]
            q_r[j] += b * cross[s, j]
        if c != 0.0:
            for j in range(n):
                q_c[j] += c * cross[s, j]


@jit
def mark_known(lam: float, last: bool, known: Bools, known_last: Bools, v: Floats, v_r: Floats, v_c: Floats) -> None:
    """V = -lam, V_r = 0 and V_c = 1 in the states known to be reset states on arrival at this step."""
    for s in range(len(v)):
        if known[s] or (last and known_last[s]):
            v[s] = -lam
            v_r[s] = 0.0
            v_c[s] = 1.0


@jit
def choose(q: Floats, width2: Floats, s: int, n_actions: int) -> int:
    """The action of largest q in state s; of those that tie the one of smallest width, which was tried most."""
    best = q[s * n_actions]
    for a in range(1, n_actions):
        best = max(best, q[s * n_actions + a])
    chosen, least = -1, np.inf
    for a in range(n_actions):
        i = s * n_actions + a
        if q[i] >= best - TIE and width2[i] < least - TIE:
            chosen, least = a, width2[i]
    return chosen


@jit
def cost_bonus(beta_c: float, width: float, q_c: float, variance_aware: bool) -> float:
    """beta_c width, or with x = beta_c width the smaller of x and 2 sqrt(q (1 - q)) x + x^2."""
    x = beta_c * width
    if not variance_aware:
        return x
    q = max(min(q_c, 1.0), 0.0)
    return min(x, 2.0 * sqrt(q * (1.0 - q)) * x + x * x)


@jit
def greedy_plan(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta_r: float,
    beta_c: float,
    variance_aware: bool,
    noise: Floats,  # [L, N] to be added times beta_r (H-h+1 + lam) in place of the bonuses, or empty
    lam: float,
    known: Bools,  # [S] states seen to be reset states
    known_last: Bools,  # [S] states in which the end of an episode was seen to be a reset
    policy: Floats,  # [H, S, A] out
    q: Floats,  # [H, N] out
    v: Floats,  # [S] out, at step 1
    v_r: Floats,  # [S] out
    v_c: Floats,  # [S] out
) -> None:
    """Q = clip(regression of r + V + bonus, -lam, H-h+1), V = max Q; V_r and V_c of the greedy policy, no bonus."""
    horizon, n_states, n_actions = policy.shape
    q_r, q_c = np.empty(q.shape[1]), np.empty(q.shape[1])
    v[:] = 0.0
    v_r[:] = 0.0
    v_c[:] = 0.0
    policy[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        mark_known(lam, h == n_transitions - 1, known, known_last, v, v_r, v_c)
        layer, left = layer_of_step[h], float(horizon - h)
        now, width2 = q[h], r.width2[layer]
        expect_composite(r, phi, layer, v, v_r, v_c, now, q_r, q_c)
        for i in range(len(now)):
            if noise.size > 0:
                bonus = beta_r * (left + lam) * noise[layer, i]
            else:
                width = np.sqrt(width2[i])
                bonus = beta_r * width + lam * cost_bonus(beta_c, width, q_c[i], variance_aware)
            now[i] = max(min(now[i] + bonus, left), -lam)
        for s in range(n_states):
            a = choose(now, width2, s, n_actions)
            i = s * n_actions + a
            policy[h, s, a] = 1.0
            v[s] = now[i]
            v_r[s] = max(min(q_r[i], left), 0.0)
            v_c[s] = max(min(q_c[i], 1.0), 0.0)


@jit
def plan_among(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta: float,
    lam: float,
    known: Bools,  # [S] states seen to be reset states
    known_last: Bools,  # [S] states in which the end of an episode was seen to be a reset
    may: Bools,  # [1 or H, S, A] the actions to choose from; where there are none, all
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out, at step 1
) -> None:
    """Q = clip(regression of r + V + beta width, -lam, H-h+1), V = max Q; ties go to the action of largest width."""
    horizon, n_states = policy.shape
    n_actions = may.shape[2]
    q, unused, nothing = np.empty(n_states * n_actions), np.empty(n_states * n_actions), np.zeros(n_states)
    v[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        for s in range(n_states):
            if known[s] or (h == n_transitions - 1 and known_last[s]):
                v[s] = -lam
        layer, left, sets = layer_of_step[h], float(horizon - h), may[min(h, len(may) - 1)]
        width2 = r.width2[layer]
        expect(r, phi, layer, v, nothing, q, unused)
        for s in range(n_states):
            some = h < n_transitions and sets[s].any()  # an action that leads nowhere is never unsafe
            best, most, chosen = -np.inf, -np.inf, 0
            for a in range(n_actions):
                i = s * n_actions + a
                if sets[s, a] or not some:
                    one = max(min(q[i] + beta * sqrt(width2[i]), left), -lam)
                    if one > best + TIE or (one >= best - TIE and width2[i] > most + TIE):
                        best, most, chosen = max(one, best), width2[i], a
            policy[h, s], v[s] = chosen, best
