"""Danger that belongs to where one lands: what actions do to the factors of a state, and which places are deadly.

An action's effects are the differences of ordered factors that its observed edges show ("row - 1"), each edge once; it
leads from any state to the one that differs so, and where there is none (a wall) nowhere. An action whose differences
are nearly all different has no effects (a teleport). A place is deadly if entering it was a reset, or ending an episode
there; where the place of a fall is not shown, it is one of those that the action can lead to that never was survived.

Which places are likely to be deadly is a mixture over rules about their factors, each of which says that places of one
cell are equally often deadly. The share of deadly places of a cell is drawn from Beta(1/4, 3/4), one for each cell;
under the last hypothesis places say nothing about each other, and each is deadly with probability 1/10.

Legend of the compiled code: S states in G groups with equal features, F features, J rules of at most two features each,
C cells of all rules together, D ways to move, A actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, jit
from resetfree.players.elimination.rule_class import (
    Feature,
    Rules,
    Values,
    cells_of,
    features_of,
    in_words,
    within_features,
)
from resetfree.players.tabular.count_players import TIE, CountState
from resetfree.players.tabular.counts import Counts
from resetfree.problems import Factor, has_factors

Numbers = NDArray[np.int32]
BAD, GOOD = 0.25, 0.75  # of the Beta distribution
ALONE = 0.1  # that a place is deadly, where places say nothing about each other
LIGHT = -12.0  # rules lighter than the heaviest by this factor play no part
SILENT = -1.0  # in place of beliefs where no effects of an action are known
SELDOM = 0.02  # effects with a smaller share are exceptions, no part of what an action can do
LIKELY = 0.9  # belief from which a place counts as that of a fall that was not shown
PASSES = 3  # over falls that share places
UNSEEN = 0.2  # edges that an action is taken to have had of the ways of the others
TINY = 1e-9
WAYS = 24  # differences that are distinguished
REGULAR = 2  # edges for each difference, from which effects count as the same everywhere
MANY = 32  # levels of a factor from which only some of them are tests
LARGEST_RULES = 4000
OFTEN = 1000  # times that an effect counts as seen: no bonus to speak of


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


@dataclass(frozen=True, eq=False)
class PlaceRules:
    """Rules about places: at most two features each."""

    group: Numbers  # [S] states of one group have equal features
    features: Numbers  # [F, G]
    sizes: Numbers  # [F]
    rules: Numbers  # [J, 2]
    first: Numbers  # [J + 1]
    prior: Floats  # [J + 1]
    said: tuple[Feature, ...]  # [F]

    @classmethod
    def of(cls, parts: tuple[Factor, ...], values: Values) -> PlaceRules:
        """One cell; one feature; two of them, tests and relations first."""
        base, related, tests = features_of(parts, values, MANY)
        tests += within_features(parts, values, MANY)
        said = [*base, *related, *tests]
        n_base, n_small = len(base), len(related) + len(tests)
        small = range(n_base, n_base + n_small)
        groups: list[tuple[float, list[tuple[int, int]]]] = [
            (1 / 4, [(-1, -1)]),
            (1 / 8, [(i, -1) for i in range(n_base)]),
            (1 / 4, [(i, -1) for i in small]),
            (1 / 4, list(combinations(small, 2))),
        ]
        sizes = np.array([int(f.values.max(initial=0)) + 2 for f in said], dtype=np.int32)
        found: list[tuple[int, int]] = []
        prior: list[float] = []
        for share, members in groups:
            if members and len(found) + len(members) <= LARGEST_RULES:
                found += members
                prior += [log(share / len(members))] * len(members)
        rules = np.array(found, dtype=np.int32).reshape(-1, 2)
        cells = [1 if i < 0 else int(sizes[i]) * (1 if j < 0 else int(sizes[j])) for i, j in found]
        table = np.ascontiguousarray(np.array([f.values + 1 for f in said]).T, dtype=np.int32)
        rows = table.view(np.dtype((np.void, 4 * max(len(said), 1)))).ravel() if said else np.zeros(len(values))
        _, which, group = np.unique(rows, return_index=True, return_inverse=True)
        return cls(
            group=group.reshape(-1).astype(np.int32),
            features=np.ascontiguousarray(table[which].T) if said else np.zeros((0, 1), dtype=np.int32),
            sizes=sizes,
            rules=rules,
            first=np.concatenate([[0], np.cumsum(cells)]).astype(np.int32),
            prior=np.array([*prior, log(1 / 8)]),
            said=tuple(said),
        )


@dataclass
class Edges:
    """What was seen to happen, each edge once."""

    states: NDArray[np.int64]  # [E]
    actions: NDArray[np.int64]  # [E]
    after: NDArray[np.int64]  # [E]


class Landings:
    """Effects of actions and beliefs about places: a function of the observed edges and of the labels of places."""

    def __init__(self, parts: tuple[Factor, ...], values: Values, n_actions: int) -> None:
        self.rules = PlaceRules.of(parts, values)
        self._ordered = np.array([part.ordered for part in parts])
        self._values, self._placed = values, has_factors(values)
        span = values.max(axis=0) + 1
        self._scale = np.concatenate([np.cumprod(span[::-1])[::-1][1:], [1]])
        self._span = span
        code = np.where(self._placed, values @ self._scale, -1)
        self._order = np.argsort(code, kind="stable")
        self._sorted = code[self._order]
        self._targets: dict[bytes, NDArray[np.int32]] = {}
        self.label = np.zeros(len(values), dtype=np.int8)  # 1 deadly, -1 survived
        self._n_bad, self._n_good = np.zeros((2, int(self.rules.first[-1])), dtype=np.int32)
        self.weights = self.rules.prior.copy()
        self.belief = np.zeros(len(values))
        self.target: Numbers = np.full((1, len(values)), -1, dtype=np.int32)
        self.ways = np.zeros((n_actions, 1))  # [A, D] shares of the ways that each action showed
        self.risked = self.ways  # likewise, with those of the other actions: it may do them as well, until tried often
        self._unsure: list[dict[int, float]] = []  # falls whose place is not known: shares of where it can have been
        self._believe()

    @property
    def placed(self) -> Bools:
        """[S] states that have factors."""
        return np.asarray(self._placed)

    def learn(self, edges: Edges, good: Bools, bad: Bools) -> None:
        """All edges so far, and the places [S] that were survived and that were deadly."""
        self._effects(edges)
        label = np.zeros_like(self.label)
        label[good & self._placed] = -1
        label[bad & self._placed] = 1
        self._unseen_falls(edges, bad, label)
        self._set_labels(label)
        self._believe()
        likely = np.array(
            [t for candidates in self._unsure for t in candidates if self.belief[t] >= LIKELY], dtype=np.int64
        )
        if len(likely):
            label = label.copy()
            label[likely] = 1
            self._unsure = [candidates for candidates in self._unsure if not any(label[t] > 0 for t in candidates)]
            self._set_labels(label)
            self._believe()

    def _set_labels(self, label: NDArray[np.int8]) -> None:
        """Count places that have another label than before in their cells of every rule."""
        changed = np.flatnonzero(label != self.label)
        if len(changed) == 0:
            return
        if (self.label[changed] != 0).any():  # a label was wrong: count all again
            self._n_bad[:], self._n_good[:] = 0, 0
            changed = np.flatnonzero(label)
        self.label = label
        r, states = self.rules, changed[label[changed] != 0]
        rules = (r.features, r.sizes, r.rules, r.first)
        tally(*rules, r.group[states], label[states] > 0, self._n_bad, self._n_good)

    def words(self) -> str:
        """The rule about places that is believed in most, as a sentence."""
        best, n = int(np.argmax(self.weights)), len(self.label)
        alone = best == len(self.rules.rules)
        said = () if alone else tuple(self.rules.said[i] for i in self.rules.rules[best] if i >= 0)
        cell = (np.arange(n) if alone else cells_of(said, n)).astype(np.int32)
        deadly, survived = np.zeros((2, n), dtype=np.bool_)
        deadly[cell[self.label > 0]], survived[cell[self.label < 0]] = True, True
        one = Rules(np.stack([cell, cell]), np.array([0, n, n], dtype=np.int32), np.zeros(2), (said, said))
        return in_words(one, int(alone), "a place", deadly, survived)

    def _believe(self) -> None:
        r = self.rules
        tallies, found = (self._n_bad, self._n_good, self.weights), np.empty(r.features.shape[1])
        believe_places(r.features, r.sizes, r.rules, r.first, r.prior, *tallies, found)
        self.belief = found[r.group]
        self.belief[self.label > 0], self.belief[self.label < 0] = 1.0, 0.0
        self._explain()
        self.fatal, self.falls = np.empty((2, len(self.belief), len(self.ways)))  # new ones: plans hold the old
        danger_of_pairs(self.target, self.risked, self.belief, self.fatal, self.falls)

    def _explain(self) -> None:
        """Beliefs about places where falls may have been: the fewer others explain a fall, the likelier each is.

        A fall that led to place t with share w_t has the probability sum of w_t over the deadly ones; beliefs about the
        other places of it are those of the pass before.
        """
        if not self._unsure:
            return
        candidates = sorted({t for one in self._unsure for t in one})
        number = {t: i for i, t in enumerate(candidates)}
        weights = np.zeros((len(self._unsure), len(candidates)))
        for i, one in enumerate(self._unsure):
            for t, share in one.items():
                weights[i, number[t]] = share
        prior = np.clip(self.belief[candidates], TINY, 1.0 - TINY)
        odds, belief = np.log(prior / (1.0 - prior)), prior
        for _ in range(PASSES):
            others = np.maximum((weights @ belief)[:, None] - weights * belief, TINY)
            gain = np.where(weights > 0.0, np.log(weights + others) - np.log(others), 0.0).sum(axis=0)
            belief = 1.0 / (1.0 + np.exp(-(odds + gain)))
        self.belief[candidates] = belief

    def _effects(self, edges: Edges) -> None:
        """Differences, the most frequent first, and how often each action showed each."""
        n_actions, n_states = len(self.ways), len(self._values)
        inside = self._placed[edges.states] & self._placed[edges.after]
        s, a, t = edges.states[inside], edges.actions[inside], edges.after[inside]
        gap = self._values[t] - self._values[s]
        plain = (gap[:, ~self._ordered] == 0).all(axis=1)
        still = (gap == 0).all(axis=1)
        kinds, which, times = np.unique(gap[plain & ~still], axis=0, return_inverse=True, return_counts=True)
        best = np.argsort(-times, kind="stable")[: WAYS - 1]
        rank = np.full(len(kinds), WAYS, dtype=np.int64)
        rank[best] = np.arange(1, len(best) + 1)
        n_ways = np.zeros((n_actions, WAYS + 1))
        np.add.at(n_ways, (a[plain & ~still], rank[which.reshape(-1)]), 1.0)
        np.add.at(n_ways, (a[~plain], WAYS), 1.0)
        distinct = np.zeros(n_actions)
        for action in range(n_actions):
            distinct[action] = (n_ways[action, 1:WAYS] > 0).sum() + n_ways[action, WAYS]
        leads = [np.where(self._placed, np.arange(n_states), -1).astype(np.int32)]
        leads += [self._leads(kinds[d]) for d in best]
        target = np.stack(leads)
        # Standing still counts where no wall explains it.
        walls = (n_ways[a[still], 1 : len(leads)] > 0) & (target[1:, s[still]].T < 0)
        np.add.at(n_ways, (a[still][~walls.any(axis=1)], 0), 1.0)
        total = n_ways.sum(axis=1)
        regular = (total > 0) & (total >= REGULAR * np.maximum(distinct, 1.0) - (distinct <= 1) * (REGULAR - 1))
        shown = np.where(regular[:, None], n_ways[:, : len(leads)], 0.0)
        self.ways = shown / np.maximum(total, 1.0)[:, None]
        others = shown.any(axis=0)
        extra = np.where(regular[:, None], UNSEEN * others / max(others.sum(), 1), 0.0)
        self.risked = (shown + extra) / np.maximum(total + extra.sum(axis=1), 1.0)[:, None]
        self.target = np.where(target < 0, target[0], target)

    def _leads(self, gap: Values) -> NDArray[np.int32]:
        """[S] the state that differs so, -1 where there is none."""
        key = gap.tobytes()
        if key not in self._targets:
            moved = self._values + gap
            fits = self._placed & (moved >= 0).all(axis=1) & (moved < self._span).all(axis=1)
            code = np.where(fits, moved @ self._scale, -2)
            at = np.minimum(np.searchsorted(self._sorted, code), len(self._sorted) - 1)
            self._targets[key] = np.where(self._sorted[at] == code, self._order[at], -1).astype(np.int32)
        return self._targets[key]

    def _unseen_falls(self, edges: Edges, bad: Bools, label: NDArray[np.int8]) -> None:
        """Label the places of falls that were not shown, where the action has only one way that was not survived."""
        fell = np.flatnonzero(bad[edges.after] & ~self._placed[edges.after] & self._placed[edges.states])
        cases = []
        for s, a in zip(edges.states[fell].tolist(), edges.actions[fell].tolist(), strict=True):
            candidates = {int(self.target[d, s]): float(self.risked[a, d]) for d in np.flatnonzero(self.risked[a])}
            cases.append({t: share for t, share in candidates.items() if label[t] >= 0})
        for candidates in cases:
            if len(candidates) == 1:
                label[[*candidates]] = 1
        self._unsure = [candidates for candidates in cases if candidates and not any(label[t] > 0 for t in candidates)]


def mean_pay(data: CountState) -> Floats:
    """What each pair that was tried paid on average."""
    tried = data.tried > 0
    return np.asarray(data.earned[tried] / data.tried[tried])


def all_alike(data: CountState) -> bool:
    """Whether all pairs that were tried pay the same, on average."""
    pay = mean_pay(data)
    return bool(len(pay) == 0 or pay.max() - pay.min() <= TIE)


def filled(data: CountState, landings: Landings, visited: Bools) -> tuple[Counts, float] | None:
    """The counts, and the value of finding nothing, where all pairs pay alike; None if nothing can be filled in."""
    tried = data.tried > 0
    usual = float(data.earned.sum() / max(data.tried.sum(), 1))
    effects = landings.ways.any(axis=1)
    states, actions = np.nonzero(~tried[0] & (visited & landings.placed & ~data.known)[:, None] & effects)
    if len(states) == 0:
        return None
    width = max(data.seen.shape[3], landings.ways.shape[1])
    shape = (*data.seen.shape[:3], width)
    successor, seen = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.int64)
    successor[..., : data.seen.shape[3]], seen[..., : data.seen.shape[3]] = data.successor, data.seen
    # Effects that an action has are put in front: kernels read successors until one has no times.
    order = np.argsort(-landings.ways, axis=1, kind="stable")
    for a in np.flatnonzero(effects).tolist():
        here, ways = states[actions == a], order[a][landings.ways[a, order[a]] > 0.0]
        successor[0, here, a, : len(ways)] = landings.target[ways][:, here].T
        seen[0, here, a, : len(ways)] = np.maximum(1, np.rint(OFTEN * landings.ways[a, ways])).astype(np.int64)
    pairs = (0, states, actions)
    times, earned, moved = data.tried.copy(), data.earned.copy(), data.moved.copy()
    moved[pairs] = seen[pairs].sum(axis=1)
    times[pairs] = moved[pairs]
    earned[pairs] = usual * times[pairs]
    counts = Counts(
        tried=times,
        earned=earned,
        moved=moved,
        successor=successor,
        seen=seen,
        known=data.known,
        known_last=data.known_last,
    )
    return counts, usual * data.horizon
