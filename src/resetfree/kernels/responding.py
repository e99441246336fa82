"""The best answer to a multiplier as a policy: one backward pass, O(H nnz), memory O(S) beside what it returns.

Legend: h from 0; y the multiplier; w V_r of a baseline policy; gain what leaving the baseline brings in V_r; V_c the
probability of a reset.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resetfree.kernels.jit import jit
from resetfree.kernels.planning import EPS, Floats, Model


@jit
def respond(
    m: Model,
    y: float,
    baseline: NDArray[np.int16],  # [H, S] any policy; pi* makes the gains exact where they matter
    policy: NDArray[np.int16],  # [H, S] out: the maximiser
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """The policy that maximises V_r - y V_c from every state and step; ties go to smaller V_c, then smaller action.

    The arithmetic is that of `planning.best_lagrangian` (gains over a baseline, so that a tiny V_c meets no rounding of
    large values), which gives the values alone: whoever asks for multipliers asks often and needs no policy.
    """
    n_states, n_actions = m.reward.shape[1:]
    rounding = 8.0 * EPS * len(m.row_of_step)
    w, gain = np.zeros(n_states), np.zeros(n_states)
    next_w, next_gain, next_c = np.zeros(n_states), np.zeros(n_states), np.zeros(n_states)
    earned, gained, cost = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    for h in range(len(m.row_of_step) - 1, -1, -1):
        dead = m.last_reset if h == m.n_transitions - 1 else m.reset
        for s in range(n_states):
            w[s], gain[s], v_c[s], policy[h, s] = 0.0, 0.0, 0.0, 0
            if m.reset[s]:
                continue
            for a in range(n_actions):
                earned[a], gained[a], cost[a] = 0.0, 0.0, 0.0
                if h < m.n_transitions:
                    row = m.row_of_step[h] + s * n_actions + a
                    for j in range(m.indptr[row], m.indptr[row + 1]):
                        t = m.indices[j]
                        if dead[t]:
                            cost[a] += m.prob[j]
                        else:
                            earned[a] += m.prob[j] * next_w[t]
                            gained[a] += m.prob[j] * next_gain[t]
                            cost[a] += m.prob[j] * next_c[t]
                earned[a] += m.reward[m.reward_of_step[h], s, a]
            w[s] = earned[baseline[h, s]]
            best = -np.inf
            for a in range(n_actions):
                advantage = earned[a] - w[s]
                if abs(advantage) <= rounding * max(earned[a], w[s]):
                    advantage = 0.0
                total = gained[a] + advantage
                composite = total - y * cost[a]
                if composite > best or (composite == best and cost[a] < v_c[s]):
                    best, gain[s], v_c[s], policy[h, s] = composite, total, cost[a], a
        next_w[:], next_gain[:], next_c[:] = w, gain, v_c
    for s in range(n_states):
        v_r[s] = w[s] + gain[s]
