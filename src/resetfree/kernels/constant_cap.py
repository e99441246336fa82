"""The backward pass of Ghosh et al. (2022): softmax of optimistic values whose cap is H at every step.

Legend: as in `regression`; the difference to the pass of Algorithm 1 is the cap alone (H here, H - h + 1 there).
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np

from resetfree.kernels.jit import jit
from resetfree.kernels.regression import Bools, Floats, Ints, Regression, expect


@jit
def constant_cap_plan(
    r: Regression,
    phi: Floats,
    layer_of_step: Ints,  # [H]
    n_transitions: int,
    beta_r: float,
    beta_c: float,
    alpha: float,
    lam: float,
    known: Bools,  # [S] states seen to be reset states
    known_last: Bools,  # [S] likewise at the end of an episode
    policy: Floats,  # [H, S, A] out
    q_r: Floats,  # [H, S*A] out, in [0, H]
    q_c: Floats,  # [H, S*A] out, in [0, 1]
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """Q_r, Q_c, the softmax of alpha (Q_r - lam Q_c) and the values under it, from the last step to the first."""
    horizon, n_states, n_actions = policy.shape
    v_r[:], v_c[:] = 0.0, 0.0
    score = np.empty(n_actions)
    for h in range(horizon - 1, -1, -1):
        dead = known_last if h == n_transitions - 1 else known
        for s in range(n_states):
            if dead[s]:
                v_r[s], v_c[s] = 0.0, 1.0
        layer = layer_of_step[h]
        expect(r, phi, layer, v_r, v_c, q_r[h], q_c[h])
        for s in range(n_states):
            first = s * n_actions
            for a in range(n_actions):
                width = sqrt(r.width2[layer, first + a])
                q_r[h, first + a] = max(min(q_r[h, first + a] + beta_r * width, float(horizon)), 0.0)
                q_c[h, first + a] = max(min(q_c[h, first + a] - beta_c * width, 1.0), 0.0)
                score[a] = q_r[h, first + a] - lam * q_c[h, first + a]
            top, norm = score.max(), 0.0
            for a in range(n_actions):
                policy[h, s, a] = exp(alpha * (score[a] - top))
                norm += policy[h, s, a]
            v_r[s], v_c[s] = 0.0, 0.0
            for a in range(n_actions):
                policy[h, s, a] /= norm
                v_r[s] += policy[h, s, a] * q_r[h, first + a]
                v_c[s] += policy[h, s, a] * q_c[h, first + a]
