"""The states in which episodes can end, under any actions, from the support alone: O(H nnz) per call.

Legend: label[s] the start from which s was reached first, -1 if s is not reached.
"""

from __future__ import annotations

import numpy as np

from resetfree.core.arrays import Ints
from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Model


@jit
def episode_ends(
    m: Model,
    starts: Ints,  # [n] states outside the reset set
    stationary: bool,  # whether all steps have one layer: the labels may then stop changing early
) -> Ints:
    """[S] for each state in which an episode can end without a reset: a start it can end from, else -1.

    A path ends where it arrives in a reset state; at the last arrival the end-of-episode resets count too.
    """
    n_states, n_actions = m.reward.shape[1:]
    label = np.full(n_states, -1, dtype=np.int64)
    after = np.full(n_states, -1, dtype=np.int64)
    for i in range(len(starts)):
        label[starts[i]] = starts[i]
    h = 0
    while h < m.n_transitions:
        is_reset = m.last_reset if h == m.n_transitions - 1 else m.reset
        after[:] = -1
        for s in range(n_states):
            if label[s] < 0:
                continue
            row = m.row_of_step[h] + s * n_actions
            for j in range(m.indptr[row], m.indptr[row + n_actions]):
                t = m.indices[j]
                if after[t] < 0 and not is_reset[t]:
                    after[t] = label[s]
        same = True
        for s in range(n_states):
            same = same and label[s] == after[s]
            label[s] = after[s]
        if stationary and same and h < m.n_transitions - 2:
            h = m.n_transitions - 1  # nothing changes until the last arrival, which has its own reset set
        else:
            h += 1
    return label
