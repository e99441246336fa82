"""Beliefs about danger: a mixture over rules, each of which says that danger of an action is the same within a cell.

Legend: J rules, R rows (states, or states of each step), C cells of all rules together, P chances of a fall. A rule
and a chance rho together are a hypothesis: each cell of the rule is fatal with probability p0 beforehand, independently
of the others; a step from a fatal cell falls with probability rho, and one from any other cell never.
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

from resetfree.core.compiled import jit
from resetfree.problems.finite.backward import Bools, Floats

Cells = NDArray[np.int32]
P0 = 0.25  # that a cell is fatal, beforehand
RHO = np.array([1.0, 1.0 / 3.0, 0.1])  # chances of a fall from a fatal cell
LOG_RHO = np.log(RHO)
LOG_STAY = np.array([-1e3, log(2.0 / 3.0), log(0.9)])  # of surviving there: never, for the first
LOG_MIX = np.log(np.array([0.5, 0.25, 0.25]))  # of the chances themselves
LIGHT = -40.0  # hypotheses lighter than the heaviest by this factor (e^-40) play no part


@jit
def _term(falls: int, stays: int, log_rho: float, log_stay: float) -> float:
    """The logarithm of the probability of what was seen in one cell."""
    if falls > 0:
        return log(P0) + falls * log_rho + stays * log_stay
    return log(1.0 - P0 + P0 * exp(max(stays * log_stay, -700.0)))


@jit
def note(
    cell: Cells,  # [J, R]
    row: int,
    falls: int,  # new ones
    stays: int,
    n_falls: Cells,  # [C], changed
    n_stays: Cells,  # [C], changed
    like: Floats,  # [P, J] logarithms, changed
) -> None:
    """Take into account what was seen of one pair."""
    for j in range(len(cell)):
        c = cell[j, row]
        for p in range(len(like)):
            like[p, j] -= _term(n_falls[c], n_stays[c], LOG_RHO[p], LOG_STAY[p])
        n_falls[c] += falls
        n_stays[c] += stays
        for p in range(len(like)):
            like[p, j] += _term(n_falls[c], n_stays[c], LOG_RHO[p], LOG_STAY[p])


@jit
def believe(
    cell: Cells,  # [J, R]
    prior: Floats,  # [J] logarithms
    n_falls: Cells,  # [C]
    n_stays: Cells,  # [C]
    like: Floats,  # [P, J]
    fatal: Floats,  # [R] out: the probability that a pair can fall
    falls: Floats,  # [R] out: the probability that it falls at the next try
) -> None:
    """The mixture's probabilities for one action."""
    n_chances, n_rules = like.shape
    top = -np.inf
    for p in range(n_chances):
        for j in range(n_rules):
            top = max(top, prior[j] + LOG_MIX[p] + like[p, j])
    fatal[:] = 0.0
    falls[:] = 0.0
    total = 0.0
    for j in range(n_rules):
        for p in range(n_chances):
            weight = prior[j] + LOG_MIX[p] + like[p, j] - top
            if weight < LIGHT:
                continue
            mass = exp(weight)
            total += mass
            for r in range(cell.shape[1]):
                c = cell[j, r]
                share = mass
                if n_falls[c] == 0:
                    hidden = P0 * exp(max(n_stays[c] * LOG_STAY[p], -700.0))
                    share = mass * hidden / (1.0 - P0 + hidden)
                fatal[r] += share
                falls[r] += share * RHO[p]
    for r in range(cell.shape[1]):
        fatal[r] /= total
        falls[r] /= total


@jit
def cautious_sets(
    allowed: Bools,  # [1 or H, S, A] what elimination leaves
    belief: Floats,  # [L, S, A]
    cautious: Bools,  # [1 or H, S, A] out
) -> None:
    """What is allowed and not believed to be fatal; where nothing is, the allowed actions with the least belief."""
    for h in range(allowed.shape[0]):
        layer = h if len(belief) > 1 else 0
        for s in range(allowed.shape[1]):
            some, least = False, 2.0
            for a in range(allowed.shape[2]):
                cautious[h, s, a] = allowed[h, s, a] and belief[layer, s, a] <= 0.5
                some = some or cautious[h, s, a]
                if allowed[h, s, a]:
                    least = min(least, belief[layer, s, a])
            if not some:
                for a in range(allowed.shape[2]):
                    cautious[h, s, a] = allowed[h, s, a] and belief[layer, s, a] <= least


@jit
def least_suspect(
    start: int,
    n_transitions: int,
    horizon: int,
    successor: NDArray[np.int32],  # [L, S, A, W]
    seen: NDArray[np.int64],  # [L, S, A, W]
    known: Bools,  # [S]
    allowed: Bools,  # [1 or H, S, A]
    cautious: Bools,  # [1 or H, S, A]
    belief: Floats,  # [L, S, A]
) -> float:
    """The least belief among pairs that are held back where an episode can come by cautious actions; 2 for none."""
    n_layers, n_states, n_actions, width = seen.shape
    here, after = np.zeros(n_states, dtype=np.bool_), np.zeros(n_states, dtype=np.bool_)
    here[start] = True
    least = 2.0
    for h in range(min(horizon, n_transitions)):
        layer, sets = (h if n_layers > 1 else 0), (h if len(allowed) > 1 else 0)
        grown = False
        if n_layers > 1 or len(allowed) > 1:
            after[:] = False
        else:
            after[:] = here
        for s in range(n_states):
            if not here[s] or known[s]:
                continue
            for a in range(n_actions):
                if cautious[sets, s, a]:
                    for j in range(width):
                        if seen[layer, s, a, j] == 0:
                            break
                        t = successor[layer, s, a, j]
                        if not after[t]:
                            after[t] = True
                            grown = True
                elif allowed[sets, s, a]:
                    least = min(least, belief[layer, s, a])
        if not grown:
            break
        here[:] = after
    return least
