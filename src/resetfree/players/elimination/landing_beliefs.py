"""Beliefs about places: a mixture over rules, each of which says that places of one cell are equally often deadly.

Legend: S states in G groups with equal features, F features, J rules of at most two features each, C cells of all rules
together, D ways to move, A actions. The share of deadly places of a cell is drawn from Beta(1/4, 3/4), one for each
cell; under the last hypothesis places say nothing about each other, and each is deadly with probability 1/10.
"""

from __future__ import annotations

from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.core.compiled import jit

Numbers = NDArray[np.int32]
BAD, GOOD = 0.25, 0.75  # of the Beta distribution
ALONE = 0.1  # that a place is deadly, where places say nothing about each other
LIGHT = -12.0  # rules lighter than the heaviest by this factor play no part
SILENT = -1.0  # in place of beliefs where no effects of an action are known
SELDOM = 0.02  # effects with a smaller share are exceptions, no part of what an action can do


@jit
def _cell(features: Numbers, sizes: Numbers, rule: Numbers, s: int) -> int:
    """The cell of group s under one rule: the number that its features spell."""
    i, j = rule[0], rule[1]
    if i < 0:
        return 0
    return int(features[i, s] if j < 0 else features[i, s] * sizes[j] + features[j, s])


@jit
def tally(
    features: Numbers,  # [F, G]
    sizes: Numbers,  # [F] values of each
    rules: Numbers,  # [J, 2] features of each, -1 for none
    first: Numbers,  # [J + 1] the first cell of each
    groups: Numbers,  # [n] of the states whose labels are news
    bad: Bools,  # [n]
    n_bad: Numbers,  # [C] in and out
    n_good: Numbers,  # [C] in and out
) -> None:
    """Count labels of states in their cells of every rule."""
    for k in range(len(groups)):
        for j in range(len(rules)):
            c = first[j] + _cell(features, sizes, rules[j], groups[k])
            if bad[k]:
                n_bad[c] += 1
            else:
                n_good[c] += 1


@jit
def believe_places(
    features: Numbers,
    sizes: Numbers,
    rules: Numbers,
    first: Numbers,
    prior: Floats,  # [J + 1] logarithms; the last one: places say nothing about each other
    n_bad: Numbers,
    n_good: Numbers,
    weights: Floats,  # [J + 1] out: logarithms
    belief: Floats,  # [G] out: that a place is deadly of which nothing is known itself
) -> None:
    """The mixture's probabilities: the same tallies give the same bits."""
    n_rules, n_groups = len(rules), len(belief)
    base = lgamma(BAD) + lgamma(GOOD)
    for j in range(n_rules):
        weight = prior[j]
        for c in range(first[j], first[j + 1]):
            b, g = n_bad[c], n_good[c]
            if b > 0 or g > 0:
                weight += lgamma(b + BAD) + lgamma(g + GOOD) - lgamma(b + g + 1.0) - base
        weights[j] = weight
    b, g = n_bad[0], n_good[0]  # the first rule has one cell: all labels
    weights[n_rules] = prior[n_rules] + b * log(ALONE) + g * log(1.0 - ALONE)
    top = weights.max()
    total = exp(weights[n_rules] - top)
    belief[:] = total * ALONE
    for j in range(n_rules):
        if weights[j] - top < LIGHT:
            continue
        mass = exp(weights[j] - top)
        total += mass
        for s in range(n_groups):
            c = first[j] + _cell(features, sizes, rules[j], s)
            belief[s] += mass * (n_bad[c] + BAD) / (n_bad[c] + n_good[c] + 1.0)
    for s in range(n_groups):
        belief[s] /= total


@jit
def danger_of_pairs(
    target: Numbers,  # [D, S] where each way to move leads, -1 where it is not known
    ways: Floats,  # [A, D] shares of the ways of each action; all 0 if its effects are not the same everywhere
    belief: Floats,  # [S]
    fatal: Floats,  # [S, A] out: that a pair can fall, -1 where nothing is known
    falls: Floats,  # [S, A] out: that it falls at the next try, likewise
) -> None:
    """What beliefs about places say about the actions that lead there."""
    for a in range(len(ways)):
        known = ways[a].sum() > 0.0
        for s in range(target.shape[1]):
            if not known or target[0, s] < 0:
                fatal[s, a], falls[s, a] = SILENT, SILENT
                continue
            safe, fall = 1.0, 0.0
            for d in range(len(target)):
                if ways[a, d] > 0.0:
                    deadly = belief[target[d, s]] if target[d, s] != s else 0.0  # one stands there already
                    fall += ways[a, d] * deadly
                    if ways[a, d] >= SELDOM:
                        safe *= 1.0 - deadly
            fatal[s, a], falls[s, a] = max(1.0 - safe, fall), fall
