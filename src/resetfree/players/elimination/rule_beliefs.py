"""Beliefs about danger: a mixture over rules, each of which says that danger of an action is the same within a cell.

Legend: J rules, R rows (states, or states of each step), C cells of all rules together, P kinds of danger (rho, p0). A
rule and a kind together are a hypothesis: each cell of the rule is fatal with probability p0 beforehand, independently
of the others; a step from a fatal cell falls with probability rho, and one from any other cell never.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.compiled import jit

Cells = NDArray[np.int32]
RHO = np.array([1.0, 1.0, 1.0 / 3.0, 0.1])  # the chance of a fall from a fatal cell
P0 = np.array([0.1, 0.5, 0.25, 0.25])  # that a cell is fatal, beforehand: few are, or as many as not
MIX = np.array([0.4, 0.4, 0.1, 0.1])  # weights of the kinds: falls that always happen are likelier beforehand
LIGHT = -25.0  # hypotheses lighter than the heaviest by this factor (e^-25) play no part in a belief
MOST = 4096  # survivals in one cell that are distinguished
IMPOSSIBLE = -1e3  # the logarithm of the probability to survive where a fall always happens
LOG_RHO, LOG_P0, LOG_MIX = np.log(RHO), np.log(P0), np.log(MIX)
LOG_STAY = np.array([np.log1p(-rho) if rho < 1.0 else IMPOSSIBLE for rho in RHO])
_SURVIVED = P0[:, None] * np.exp(np.maximum(LOG_STAY[:, None] * np.arange(MOST), -700.0))
HIDDEN = _SURVIVED / (1.0 - P0[:, None] + _SURVIVED)  # [P, MOST] that a cell is fatal in which nothing fell
LOG_CLEAR = np.log(1.0 - P0[:, None] + _SURVIVED)  # [P, MOST] of the survivals in such a cell


@jit
def _term(p: int, falls: int, stays: int) -> float:
    """The logarithm of the probability of what was seen in one cell."""
    if falls > 0:
        return float(LOG_P0[p] + falls * LOG_RHO[p] + stays * LOG_STAY[p])
    return float(LOG_CLEAR[p, min(stays, MOST - 1)])


@jit
def note(cell: Cells, row: int, falls: int, stays: int, n_falls: Cells, n_stays: Cells) -> None:
    """Count new falls and survivals of one pair in its cell of every rule: cell [J, R]; n_falls, n_stays [C]."""
    for j in range(len(cell)):
        c = cell[j, row]
        n_falls[c] += falls
        n_stays[c] += stays


@jit
def weigh(first: Cells, prior: Floats, n_falls: Cells, n_stays: Cells, weights: Floats) -> float:
    """Logarithms of the weights [P, J] of all hypotheses about one action; returns the largest."""
    top = -np.inf
    for p in range(weights.shape[0]):
        for j in range(weights.shape[1]):
            weight = prior[j] + LOG_MIX[p]
            for c in range(first[j], first[j + 1]):
                if n_falls[c] > 0 or n_stays[c] > 0:
                    weight += _term(p, n_falls[c], n_stays[c])
            weights[p, j] = weight
            top = max(top, weight)
    return float(top)


@jit
def believe(
    cell: Cells,  # [J, R]
    first: Cells,  # [J + 1] the first cell of each rule
    prior: Floats,  # [J] logarithms
    n_falls: Cells,  # [C]
    n_stays: Cells,  # [C]
    weights: Floats,  # [P, J] out: logarithms of the weights of all hypotheses
    fatal: Floats,  # [R] out: the probability that a pair can fall
    falls: Floats,  # [R] out: the probability that it falls at the next try
) -> None:
    """The mixture's probabilities for one action: the same tallies give the same bits."""
    n_kinds, n_rules = weights.shape
    top = weigh(first, prior, n_falls, n_stays, weights)
    fatal[:] = 0.0
    falls[:] = 0.0
    total = 0.0
    for j in range(n_rules):
        for p in range(n_kinds):
            weight = weights[p, j] - top
            if weight < LIGHT:
                continue
            mass = exp(weight)
            total += mass
            for r in range(cell.shape[1]):
                c = cell[j, r]
                share = mass if n_falls[c] > 0 else mass * HIDDEN[p, min(n_stays[c], MOST - 1)]
                fatal[r] += share
                falls[r] += share * RHO[p]
    for r in range(cell.shape[1]):
        fatal[r] /= total
        falls[r] /= total


@jit
def cautious_sets(
    allowed: Bools,  # [1 or H, S, A] what elimination leaves
    belief: Floats,  # [L, S, A]
    limit: float,
    cautious: Bools,  # [1 or H, S, A] out
) -> None:
    """What is allowed and not believed to be fatal; where nothing is, the allowed actions with the least belief."""
    for h in range(allowed.shape[0]):
        layer = h if len(belief) > 1 else 0
        for s in range(allowed.shape[1]):
            some, least = False, 2.0
            for a in range(allowed.shape[2]):
                cautious[h, s, a] = allowed[h, s, a] and belief[layer, s, a] <= limit
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
