"""Planning in which every step's risk stays below a threshold: mixtures of a known safe action and others.

Legend: h from 0; up(a) upper confidence bound on the probability that action a is reset at the next step; tau the
threshold; theta the distribution over the actions.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.baselines.shielded_kernel import optimistic_value
from resetfree.players.shared.kernels.action_values import Counts, arrivals
from resetfree.problems.finite.backward import Floats


@jit
def best_mixture(q: Floats, up: Floats, tau: float, theta: Floats) -> float:
    """Largest theta.q with theta.up <= tau, by vertices, which have at most two actions; some up must be <= tau."""
    best, first, second, share = -np.inf, 0, 0, 0.0
    for i in range(len(q)):
        if up[i] > tau:
            continue
        if q[i] > best:
            best, first, second, share = q[i], i, i, 0.0
        for j in range(len(q)):
            if up[j] > tau:
                weight = (tau - up[i]) / (up[j] - up[i])
                value = (1.0 - weight) * q[i] + weight * q[j]
                if value > best:
                    best, first, second, share = value, i, j, weight
    theta[:] = 0.0
    theta[first] += 1.0 - share
    theta[second] += share
    return best


@jit
def safe_mixture_plan(
    c: Counts,
    n_transitions: int,
    beta_r: float,
    beta_c: float,
    tau: float,
    safe: NDArray[np.int16],  # [H, S] the known safe action, whose risk counts as 0
    policy: Floats,  # [H, S, A] out
    v_r: Floats,  # [S] out, at step 1
) -> None:
    """Optimistic values of rewards, the best mixture in every state and step."""
    horizon, n_states, n_actions = policy.shape
    after, q, up = np.zeros(n_states), np.empty(n_actions), np.empty(n_actions)
    at_once = np.zeros(n_states)  # no cost but that of the very next step
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        dead = c.known_last if h == n_transitions - 1 else c.known
        for s in range(n_states):
            for a in range(n_actions):
                q[a] = optimistic_value(c, layer, s, a, h < n_transitions, horizon - h, beta_r, dead, after)
                n = c.moved[layer, s, a]
                up[a] = 1.0
                if a == safe[h, s] or h >= n_transitions:
                    up[a] = 0.0
                elif n > 0:
                    up[a] = min(arrivals(c, layer, s, a, dead, after, at_once)[1] + beta_c / sqrt(n), 1.0)
            v_r[s] = best_mixture(q, up, tau, policy[h, s])
        after[:] = v_r
