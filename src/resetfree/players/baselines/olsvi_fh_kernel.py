"""Least-squares value iteration over artificial episodes that run through the real ones: one unbroken life.

Legend: h from 0; length the steps of an artificial episode; a sample's successor is s' as usual, or S + s' where a
reset put the agent into s', which is worth lam less.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.players.shared.kernels.ridge import Regression, expect
from resetfree.problems.finite.backward import Floats, Ints


@jit
def unbroken_plan(
    r: Regression,  # with 2 S successors
    phi: Floats,
    layer_of_step: Ints,  # [H]
    position: int,  # of the first real step within its artificial episode
    length: int,
    beta: float,
    lam: float,
    policy: NDArray[np.int16],  # [H, S] out
    v: Floats,  # [S] out: value until the end of the artificial episode in which the real one begins
) -> None:
    """Q = min(what is left, w.phi + beta |phi|), greedy; values restart at the end of each artificial episode."""
    horizon, n_states = policy.shape
    n_actions = r.width2.shape[1] // n_states
    m = r.cross.shape[2] if phi.size == 0 else len(phi)
    value, nothing = np.zeros(2 * n_states), np.zeros(2 * n_states)
    q, unused = np.empty(m), np.empty(m)
    total = (horizon + position + length - 1) // length * length - position  # until the last artificial episode ends
    for i in range(total - 1, -1, -1):
        left = float(length - (position + i) % length)
        for s in range(n_states):
            now = 0.0 if left == 1.0 else v[s]
            value[s], value[n_states + s] = now, now - lam
        layer = layer_of_step[i % horizon]
        expect(r, phi, layer, value, nothing, q, unused)
        for s in range(n_states):
            v[s], best = -np.inf, 0
            for a in range(n_actions):
                j = s * n_actions + a
                one = min(max(q[j] + beta * sqrt(r.width2[layer, j]), -lam * left), left)
                if one > v[s]:
                    v[s], best = one, a
            if i < horizon:
                policy[i, s] = best
