"""One step of the distribution of states under a policy, over the states that it can be in."""

from __future__ import annotations

from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Bools, Floats, Ints, Model


@jit
def onwards(
    m: Model,
    h: int,
    states: Ints,  # [n] the states that can be reached at step h, each once
    share: Floats,  # [n] their probabilities
    rows: Floats,  # [n, A] the policy there
    mass: Floats,  # [S] zeros in; probabilities of the next states out
    here: Bools,  # [S] False in; whether a state is listed out
    listed: Ints,  # [S] out: the next states, in the order in which they are met
) -> tuple[float, float, int]:
    """Expected reward of this step, probability that it ends in a reset, and how many next states there are."""
    earned, cost, n = 0.0, 0.0, 0
    n_actions = rows.shape[1]
    dead = m.last_reset if h == m.n_transitions - 1 else m.reset
    for k in range(len(states)):
        s = states[k]
        for a in range(n_actions):
            weight = share[k] * rows[k, a]
            if weight == 0.0:
                continue
            earned += weight * m.reward[m.reward_of_step[h], s, a]
            if h >= m.n_transitions:
                continue
            row = m.row_of_step[h] + s * n_actions + a
            for j in range(m.indptr[row], m.indptr[row + 1]):
                t = m.indices[j]
                if dead[t]:
                    cost += weight * m.prob[j]
                    continue
                if not here[t]:
                    here[t], listed[n] = True, t
                    n += 1
                mass[t] += weight * m.prob[j]
    return earned, cost, n
