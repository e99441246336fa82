"""The rules that elimination learns among: which coordinates of a state the danger of an action depends on.

A rule is a partition of the states into cells, and says that an action is equally dangerous within each. Rules are made
of features: a factor itself, whether two factors are equal, their difference, whether a factor has a value or is at
most a value. Simple rules come first: each group of rules has a share of the weight, in equal parts.

Legend: J rules, R rows (states, or states of each step), C cells of all rules together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.players.elimination.rule_beliefs import LOG_MIX, LOG_P0, P0, RHO, Cells
from resetfree.problems.factors import NONE, Factor, Factors, has_factors

Values = NDArray[np.int64]
LARGEST = 3_000_000  # entries of all partitions: a group of rules that does not fit is left out
SHOWN = 4  # cells that a sentence names
FEW = 2  # values of a factor for which "has this value" says no more than the factor


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
