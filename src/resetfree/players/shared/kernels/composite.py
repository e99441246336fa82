"""Greedy planning on the composite r - lam c: one regression of r + V(s'), and what the greedy policy earns and costs.

Legend as in `regression`: N = S*A pairs, L layers of data, H steps; lam the multiplier; V in [-lam, H-h+1], and -lam in
states that are known to be reset states.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.ridge import Regression, expect, learn
from resetfree.problems.finite.backward import Bools, Floats, Ints

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
