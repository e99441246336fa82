"""The rules that elimination learns among, and the mixture over them: what the danger of an action depends on.

A rule is a partition of the states into cells, and says that an action is equally dangerous within each. Rules are made
of features: a factor itself, whether two factors are equal, their difference, whether a factor has a value or is at
most a value. Simple rules come first: each group of rules has a share of the weight, in equal parts.

Legend: J rules, R rows (states, or states of each step), C cells of all rules together, P kinds of danger (rho, p0). A
rule and a kind together are a hypothesis: each cell of the rule is fatal with probability p0 beforehand, independently
of the others; a step from a fatal cell falls with probability rho, and one from any other cell never.

**Rules: what is proved.** Legend: bits(a) = log2(1 / weight) of the hypothesis of least bits under which action a is
fatal in exactly the cells where it is: its weight beforehand, times p0 for each fatal cell, times 1 - p0 for each other
one; a dangerous action is one that can lead to a reset; a test is a plan that opens a pair that was held back.

On every path resets never exceed the unsafe pairs (or triples): each reset rules one out for good, and which of the
allowed actions is taken plays no part in the proof. So a class of rules that is wrong costs no reset beyond that.

Where a pair that can lead to a reset always does, some action never does, and states have their factors before they
are seen, after K episodes resets <= sum over dangerous actions of bits(a) + log2(K) + 1.
  Proof. Let Phi(a) be the sum of the weights of all hypotheses about action a, each times the probability of what was
  seen. It is at most 1 beforehand and, if the hypothesis above is true, never below 2^-bits(a). (1) A reset by a pair
  to which the mixture gave at most 1/2, as of every pair that was not held back: Phi(a) at least halves; what else was
  seen in the episode only lowers it. (2) An episode without a reset in which a pair survived that the mixture gave at
  least 1/2 to a reset: Phi(a) at least halves, and m decreases by one (to no less than 0). Both together happen at most
  sum of bits(a) times. (3) Every other reset is a test that ended in it, and m grows by one. A test waits 2^m episodes,
  so m <= log2(K) + 1, and (3) happens at most that often more than (2). The action that is never dangerous is never
  held back, so in no state is everything held back, and there is no dead end. With hypotheses lighter than the heaviest
  by e^-25 left out, all this is up to rounding. Survivals of a pair are taken into account at the 1st, 2nd, 4th, 8th
  and 16th: fewer factors, each at most 1.  []

With `moves="relative"`: resets <= sum over all A actions of bits(a) + A + 1 + (dangerous actions) + log2(K) + 1. The
mixture is over all actions at once (1/2 that places are all that matters, and otherwise 1/2 for each action), so bits
of actions that are never dangerous count; and an action that never led to a reset is classified by the places alone,
and is taken first where everything is held back, so that its first reset is counted apart. The rest of the proof is the
same: the places are one more forecaster in the mixture, and tests wait at least 2^m episodes. Bounds of single actions
cannot be mixed (the rule of one, the pairs of another): tests share one waiting time, which a survival of any action
shortens (2).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, jit
from resetfree.problems import Factor, Factors, has_factors
from resetfree.problems.knowledge import NONE

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
Values = NDArray[np.int64]
LARGEST = 3_000_000  # entries of all partitions: a group of rules that does not fit is left out
SHOWN = 4  # cells that a sentence names
FEW = 2  # values of a factor for which "has this value" says no more than the factor


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


class Feature(NamedTuple):
    """A function of a row's factors."""

    values: Values  # [R]
    words: dict[int, str]  # how to say that it has a value


@dataclass(frozen=True, eq=False)
class Rules:
    """All rules, the simplest first, and the last one apart for every row: that of the pairs."""

    cell: Cells  # [J, R] numbered through all rules
    first: Cells  # [J + 1] the first cell of each rule, and the number of all
    prior: Floats  # [J] logarithms of weights whose sum is at most 1
    features: tuple[tuple[Feature, ...], ...]  # [J] what each rule is made of; none for the first and for the last

    def bits(self, fatal: Bools) -> tuple[float, int]:
        """The least number of bits that describe where an action is fatal [R], and the rule that does it."""
        best, which = np.inf, -1
        for j, cell in enumerate(self.cell):
            cells = np.unique(cell[fatal])
            if np.isin(cell[~fatal], cells).any():
                continue
            others = len(np.unique(cell)) - len(cells)
            code = -(LOG_MIX + len(cells) * LOG_P0 + others * np.log1p(-P0))[RHO == 1.0].max()
            bits = (code - self.prior[j]) / log(2)
            if bits < best:
                best, which = bits, j
        return best, which


def rows_of(factors: Factors | None, n_states: int, n_layers: int) -> tuple[tuple[Factor, ...], Values] | None:
    """Factors of the rows of counts, with the step where each step has its own; None if nothing is known.

    >>> import resetfree as rf
    >>> parts, values = rows_of(rf.make("grid-v0").problem().factors, 12, n_layers=2)
    >>> [part.name for part in parts], values.shape
    (['row', 'column', 'step'], (24, 3))
    """
    if factors is None or not factors.known:
        if n_layers == 1:
            return None
        factors = Factors((Factor("state", ordered=False),), np.arange(n_states)[:, None])
    if n_layers == 1:
        return factors.parts, factors.values
    step = np.repeat(np.arange(n_layers), n_states)[:, None]
    values = np.hstack([np.tile(factors.values, (n_layers, 1)), step])
    values[~has_factors(values)] = NONE
    return (*factors.parts, Factor("step")), values


def rules_of(parts: tuple[Factor, ...], values: Values) -> Rules:
    """Every rule about these factors that there is room for."""
    base, related, tests = features_of(parts, values)
    groups: list[tuple[float, Iterator[tuple[Feature, ...]], int]] = [
        (1 / 8, iter([()]), 1),
        (1 / 8, ((f,) for f in base), len(base)),
        (1 / 4, ((f,) for f in related), len(related)),
        (1 / 16, ((f,) for f in tests), len(tests)),
        (1 / 8, combinations(base, 2), _pairs(len(base))),
        (1 / 32, ((f, g) for f in base for g in related), len(base) * len(related)),
        (1 / 8, combinations(related + tests, 2), _pairs(len(related) + len(tests))),
        (1 / 64, combinations(base, 3), len(base) * (len(base) - 1) * (len(base) - 2) // 6),
        (1 / 32, ((f, g) for f in base for g in tests), len(base) * len(tests)),
    ]
    n_rows = len(values)
    found: list[tuple[NDArray[np.int64], float, tuple[Feature, ...]]] = []
    seen: set[bytes] = {np.arange(n_rows).tobytes()}
    for share, members, n in groups:
        if n == 0 or (len(found) + n) * n_rows > LARGEST:
            continue
        for member in members:
            cell = cells_of(member, n_rows)
            if (key := cell.tobytes()) not in seen:
                seen.add(key)
                found.append((cell, log(share / n), member))
    found.append((np.arange(n_rows), log(1 / 256), ()))
    first = np.zeros(len(found) + 1, dtype=np.int32)
    first[1:] = np.cumsum([int(cell.max(initial=0)) + 1 for cell, _, _ in found])
    cells = np.stack([cell + start for (cell, _, _), start in zip(found, first, strict=False)]).astype(np.int32)
    return Rules(cells, first, np.array([w for _, w, _ in found]), tuple(member for _, _, member in found))


def _pairs(n: int) -> int:
    return n * (n - 1) // 2


def cells_of(features: tuple[Feature, ...], n_rows: int) -> NDArray[np.int64]:
    """[R] the cell of each row, numbered in the order of first appearance."""
    if not features:
        return np.zeros(n_rows, dtype=np.int64)
    code = np.zeros(n_rows, dtype=np.int64)
    for values in (feature.values for feature in features):
        code = code * (int(values.max()) + 2) + values + 1
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse])


def features_of(
    parts: tuple[Factor, ...], values: Values, many: int = 2**31
) -> tuple[list[Feature], list[Feature], list[Feature]]:
    """The factors themselves, relations of two, and tests of one; of a factor with many levels only some tests."""
    with_factors = has_factors(values)
    base: list[Feature] = []
    related: list[Feature] = []
    tests: list[Feature] = []
    for i, part in enumerate(parts):
        own = values[:, i]
        levels = np.unique(own[with_factors]).tolist()
        if len(levels) < FEW:
            continue
        if len(levels) <= many:
            base.append(Feature(own, {v: f"{part.name} is {part.word(v)}" for v in levels}))
        if FEW < len(levels) <= many:
            tests += [_test(own == v, f"{part.name} is ", part.word(v)) for v in levels]
        if part.ordered:
            tests += [
                _test(own <= v, f"{part.name} is ", f"at most {part.word(v)}", f"above {part.word(v)}")
                for v in some_levels(levels[1:-2], many)
            ]
        for k in range(i):
            if part.kind and part.kind == parts[k].kind:
                other, name = values[:, k], parts[k].name
                same = (own == other).astype(np.int64)
                related.append(
                    Feature(same, {1: f"{name} and {part.name} are the same", 0: f"{name} and {part.name} differ"})
                )
                if part.ordered and parts[k].ordered and len(levels) <= many:
                    gap = np.where(with_factors, own - other, 0)
                    gap -= gap.min(initial=0)
                    low = int((own - other)[with_factors].min(initial=0))
                    words = {v: f"{part.name} - {name} is {v + low}" for v in np.unique(gap).tolist()}
                    base.append(Feature(gap, words))
    return base, related, tests


def within_features(parts: tuple[Factor, ...], values: Values, many: int) -> list[Feature]:
    """Tests of how near an ordered factor is to the nearer of its ends: the rim of a field."""
    found = []
    with_factors = has_factors(values)
    for i, part in enumerate(parts):
        if part.ordered:
            own = values[:, i]
            low, high = int(own[with_factors].min(initial=0)), int(own[with_factors].max(initial=0))
            near = np.minimum(own - low, high - own)
            for v in some_levels(list(range((high - low) // 2)), many):
                words = f"within {v} of an end", f"more than {v} from either end"
                found.append(_test(with_factors & (near <= v), f"{part.name} is ", *words))
    return found


def some_levels(levels: list[int], many: int) -> list[int]:
    """All of few levels; of many, those at distances 0, 1, 2, 4, .. from both ends.

    >>> some_levels([0, 1, 2], 4), some_levels(list(range(20)), 4)
    ([0, 1, 2], [0, 1, 2, 4, 8, 11, 15, 17, 18, 19])
    """
    n = len(levels)
    if n <= many:
        return levels
    near = [0] + [1 << k for k in range(n.bit_length()) if 1 << k <= n // 2]
    return [levels[i] for i in sorted({*near, *(n - 1 - i for i in near)})]


def _test(holds: Bools, name: str, yes: str, no: str = "") -> Feature:
    return Feature(holds.astype(np.int64), {1: name + yes, 0: name + (no or f"not {yes}")})


def in_words(rules: Rules, j: int, action: str, fallen: Bools, survived: Bools) -> str:
    """A rule with the cells where an action fell and where it survived ([C] both), as one sentence.

    >>> same = Feature(np.array([0, 1]), {0: "taxi and passenger differ", 1: "taxi and passenger are the same"})
    >>> cell, first = np.array([[0, 1]], dtype=np.int32), np.array([0, 2], dtype=np.int32)
    >>> fell, rules = np.array([True, False]), Rules(cell, first, np.zeros(1), ((same,),))
    >>> in_words(rules, 0, "pick-up", fell, ~fell), in_words(rules, 0, "pick-up", fell, fell & ~fell)
    ('pick-up is fatal unless taxi and passenger are the same', 'pick-up is fatal where taxi and passenger differ')
    """
    features, cell = rules.features[j], rules.cell[j]
    fatal, safe = np.unique(cell[fallen[cell]]), np.unique(cell[(survived & ~fallen)[cell]])
    if not features:
        return f"{action} is fatal" + ("" if j == 0 else f" in {len(fatal)} states, by no simpler rule")
    # Where nothing is known about a cell, "unless" would say too much; the rows without factors are no cell of a rule.
    known = np.unique(cell[np.all([feature.values != NONE for feature in features], axis=0)])
    unless = len(safe) <= len(fatal) and np.isin(known, np.concatenate([fatal, safe])).all() and len(safe) > 0
    cases = []
    for c in safe if unless else fatal:
        r = int(np.flatnonzero(cell == c)[0])
        cases.append(" and ".join(f.words.get(int(f.values[r]), "?") for f in features))
    more = f", and {len(cases) - SHOWN} more cases" if len(cases) > SHOWN else ""
    word = "unless" if unless else "where"
    return f"{action} is fatal {word} " + f"; or {word} ".join(cases[:SHOWN]) + more
