"""The states and actions that can avoid a reset for certain: a property of the support, without a tolerance.

Legend: Z_h states from which a reset can be avoided for certain from step h on; Abar_h(s) the actions that stay in
Z_{h+1}.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools
from resetfree.problems.finite import backward
from resetfree.problems.finite.mdp import FiniteMDP


@dataclass(frozen=True, eq=False)
class SafeSets:
    """Zero-cost states and actions of every step, from the support alone.

    Paper: restricted action space Abar_s.
    """

    layers: Bools  # [n, S, A] the distinct action sets
    layer_of_step: NDArray[np.int64]  # [H] the index of the set at each step
    last: Bools  # [S] Z_{H+1}

    def actions(self, h: int) -> Bools:
        """Abar_h as Boolean [S, A], h = 1..H."""
        return np.asarray(self.layers[self.layer_of_step[h - 1]])

    def states(self, h: int) -> Bools:
        """Z_h as Boolean [S], h = 1..H+1."""
        return self.last if h == len(self.layer_of_step) + 1 else np.asarray(self.actions(h).any(axis=1))


def safe_sets(mdp: FiniteMDP, last: Bools | None = None) -> SafeSets:
    """Z_h = {s not reset: some a has supp P_h(.|s,a) within Z_{h+1}}, backwards from Z_{H+1} = `last`.

    last: Boolean [S], states in which an episode may end (default: all whose entry then is not a reset).

    Under stationary dynamics the loop stops once the sets stop changing.
    """
    t = mdp.transition
    end = np.asarray(~mdp.last_reset if last is None else last & ~mdp.reset)
    if mdp.n_transitions == 0:  # no state is ever entered
        end = ~mdp.reset
    after = end
    layers: list[Bools] = []
    layer_of_step = np.zeros(mdp.horizon, dtype=np.int64)
    for h in range(mdp.horizon - 1, -1, -1):
        allowed = np.empty((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        if h >= mdp.n_transitions:  # the literal boundary's last action moves nothing
            safe = end
            allowed[:] = safe[:, None]
        else:
            safe = np.empty(mdp.n_states, dtype=np.bool_)
            backward.safe_actions(t.indptr, t.indices, int(mdp.model.row_of_step[h]), mdp.reset, after, allowed, safe)
        layer_of_step[h] = len(layers)
        layers.append(allowed)
        if t.stationary and h < mdp.n_transitions and np.array_equal(safe, after):
            layer_of_step[:h] = len(layers) - 1
            break
        after = safe
    return SafeSets(np.stack(layers), layer_of_step, end)
