"""Variance-weighted regression and planning with running bounds, on the composite r - lam c.

Legend as in `regression`, with Lam = reg I + sum x phi phi^T, x the weight of a sample; Q from above and Qcheck from
below, V and Vcheck their largest values in a state; R = H + lam the range of the targets.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.composite import choose, expect_composite, mark_known
from resetfree.players.shared.kernels.ridge import Regression, expect
from resetfree.problems.finite.backward import Bools, Floats, Ints


@jit
def learn_weighted(r: Regression, phi: Floats, layer: int, i: int, reward: float, successor: int, x: float) -> None:
    """Add one sample of weight x: Lam^-1 -= x u u^T / (1 + x phi_i.u) with u = Lam^-1 phi_i."""
    gram, cross, pay, width2 = r.gram[layer], r.cross[layer], r.pay[layer], r.width2[layer]
    n_states = cross.shape[0]
    if phi.size > 0:
        feature = phi[i]
        u = np.dot(gram, feature)
        share = x / (1.0 + x * np.dot(feature, u))
        along = np.dot(phi, u)
        for j in range(len(along)):
            width2[j] = max(width2[j] - share * along[j] * along[j], 0.0)
        for j in range(len(u)):
            f = share * u[j]
            for t in range(len(u)):
                gram[j, t] -= f * u[t]
            pay[j] += x * reward * feature[j]
        if successor >= 0:
            for j in range(len(u)):
                cross[successor, j] += x * feature[j]
        return
    v = gram[i].copy()
    n, share = len(v), x / (1.0 + x * v[i])
    for s in range(n_states):
        change = share * ((1.0 if s == successor else 0.0) - cross[s, i])
        if change != 0.0:
            for j in range(n):
                cross[s, j] += v[j] * change
    change = share * (reward - pay[i])
    for j in range(n):
        pay[j] += v[j] * change
    for j in range(n):
        if v[j] != 0.0:
            f = share * v[j]
            for t in range(n):
                gram[j, t] -= f * v[t]
            width2[j] = max(gram[j, j], 0.0)


@jit
def expect_at(r: Regression, phi: Floats, layer: int, i: int, v: Floats) -> float:
    """The regression of V(s'), without the reward, for one pair."""
    cross = r.cross[layer]
    total = 0.0
    if phi.size > 0:
        u = np.dot(r.gram[layer], phi[i])
        for s in range(len(v)):
            for j in range(len(u)):
                total += v[s] * cross[s, j] * u[j]
        return total
    for s in range(len(v)):
        total += v[s] * cross[s, i]
    return total


@jit
def learn_by_variance(
    r: Regression,
    phi: Floats,
    log_det: Floats,  # [L]
    layer_of_step: Ints,
    values: Floats,  # [H, S] V on arrival from each step
    below: Floats,  # [H, S] Vcheck on arrival
    beta: float,
    floor: float,
    lam: float,
    n_actions: int,
    states: Ints,
    actions: Ints,
    rewards: Floats,
    weights: Floats,  # [steps] out
) -> None:
    """Add the steps taken, each weighted by one over its relative variance in [floor, 1], judged before it is added.

    With U = V + lam in [0, R] the relative variance is the larger of ([U^2] - [U]^2 + R [V - Vcheck]) / R^2 and
    beta width, where [.] is the regression clipped to its range.
    """
    reach = values.shape[0] + lam
    for t in range(len(actions)):
        layer, i = layer_of_step[t], states[t] * n_actions + actions[t]
        shifted = values[t] + lam
        mean = max(min(expect_at(r, phi, layer, i, shifted), reach), 0.0)
        square = max(min(expect_at(r, phi, layer, i, shifted * shifted), reach * reach), 0.0)
        gap = max(min(expect_at(r, phi, layer, i, values[t] - below[t]), reach), 0.0)
        spread = (max(square - mean * mean, 0.0) + reach * gap) / (reach * reach)
        weights[t] = 1.0 / max(min(max(spread, beta * np.sqrt(r.width2[layer, i])), 1.0), floor)
    for t in range(len(actions)):
        layer, i = layer_of_step[t], states[t] * n_actions + actions[t]
        log_det[layer] += np.log1p(weights[t] * r.width2[layer, i])
        learn_weighted(r, phi, layer, i, rewards[t], states[t + 1] if t + 1 < len(states) else -1, weights[t])


@jit
def monotone_plan(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta: float,
    lam: float,
    known: Bools,  # [S]
    known_last: Bools,  # [S]
    above: Floats,  # [H, N] Q of the last pass, for a multiplier not above lam
    under: Floats,  # [H, N] Qcheck of the last pass, already lowered to this multiplier
    policy: Floats,  # [H, S, A] out
    q: Floats,  # [H, N] out
    q_check: Floats,  # [H, N] out
    values: Floats,  # [H, S] out: V on arrival from each step
    below: Floats,  # [H, S] out: Vcheck on arrival
    v: Floats,  # [S] out, at step 1
    v_r: Floats,  # [S] out, of the greedy policy without bonus
    v_c: Floats,  # [S] out
) -> None:
    """Q = min(regression + bonus, Q of the last pass), Qcheck = max(regression - bonus, that of the last pass)."""
    horizon, n_states, n_actions = policy.shape
    n = q.shape[1]
    mean_r, mean_c, unused = np.empty(n), np.empty(n), np.empty(n)
    v_check, nothing = np.zeros(n_states), np.zeros(n_states)
    v[:] = 0.0
    v_r[:] = 0.0
    v_c[:] = 0.0
    policy[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        last = h == n_transitions - 1
        mark_known(lam, last, known, known_last, v, v_r, v_c)
        mark_known(lam, last, known, known_last, v_check, nothing, nothing)
        nothing[:] = 0.0
        values[h] = v
        below[h] = v_check
        layer, left = layer_of_step[h], float(horizon - h)
        now, now_check, width2 = q[h], q_check[h], r.width2[layer]
        expect_composite(r, phi, layer, v, v_r, v_c, now, mean_r, mean_c)
        expect(r, phi, layer, v_check, nothing, now_check, unused)
        for i in range(n):
            bonus = beta * (horizon + lam) * np.sqrt(width2[i])
            now[i] = max(min(now[i] + bonus, left, above[h, i]), -lam)
            now_check[i] = min(max(now_check[i] - bonus, -lam, under[h, i]), left)
        for s in range(n_states):
            a = choose(now, width2, s, n_actions)
            i = s * n_actions + a
            policy[h, s, a] = 1.0
            v[s] = now[i]
            v_check[s] = now_check[s * n_actions]
            for other in range(1, n_actions):
                v_check[s] = max(v_check[s], now_check[s * n_actions + other])
            v_r[s] = max(min(mean_r[i], left), 0.0)
            v_c[s] = max(min(mean_c[i], 1.0), 0.0)
