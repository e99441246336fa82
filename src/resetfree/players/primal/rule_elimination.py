"""Support elimination that generalises: one fall counts against every state that the simplest rules cannot tell apart.

Legend: a state is a tuple of named factors (`problem.factors`); a rule says which of them, or of their relations, the
danger of an action depends on (`rule_class`). The player believes in a mixture of all rules (`rule_beliefs`), holds
back what it believes to be fatal, and tries such a pair only when nothing else is left to gain, ever more rarely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log2
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from resetfree.game.capabilities import Decision, Partner
from resetfree.game.contract import Plan, Round
from resetfree.players.shared.count_players import CountState
from resetfree.players.shared.elimination_players import EliminationPlayer
from resetfree.players.shared.elimination_sets import EliminationState, LargeEliminationState
from resetfree.players.shared.kernels.count_planning import TIE, Bonus
from resetfree.players.shared.kernels.rule_beliefs import (
    RHO,
    Cells,
    believe,
    cautious_sets,
    least_suspect,
    note,
)
from resetfree.players.shared.rule_class import Rules, in_words, rows_of, rules_of
from resetfree.problems.contract import Problem, State
from resetfree.problems.factors import Factors
from resetfree.problems.finite.transitions import Bools, Floats

MOST_STAYS = 16  # survivals of one pair that count; in between, those at powers of two
EXCEPTIONS = 0.75  # the largest belief about a pair before it survives
HALF = 0.5  # belief from which a pair is held back


@dataclass
class Beliefs:
    """What was seen, cell by cell of every rule, and the beliefs that follow from it: a function of the counts."""

    rules: Rules
    recorded: NDArray[np.int32]  # [2, R, A] falls and survivals that are taken into account
    n_falls: Cells  # [A, C]
    n_stays: Cells  # [A, C]
    weights: Floats  # [A, P, J] logarithms, of actions that fell
    fatal: Floats  # [L, S, A] that a pair can fall
    falls: Floats  # [L, S, A] that it falls at the next try

    @classmethod
    def none(cls, rules: Rules, shape: tuple[int, ...]) -> Beliefs:
        """Nothing seen; shape: L, S, A."""
        n_rows, n_actions = shape[0] * shape[1], shape[2]
        cells = (n_actions, int(rules.first[-1]))
        return cls(
            rules=rules,
            recorded=np.zeros((2, n_rows, n_actions), dtype=np.int32),
            n_falls=np.zeros(cells, dtype=np.int32),
            n_stays=np.zeros(cells, dtype=np.int32),
            weights=np.zeros((n_actions, len(RHO), len(rules.cell))),
            fatal=np.zeros(shape),
            falls=np.zeros(shape),
        )

    def take(self, data: CountState, layer: NDArray[Any], states: NDArray[Any], actions: NDArray[Any]) -> bool:
        """Take some pairs of the counts into account; whether a belief changed."""
        seen = data.seen[layer, states, actions]
        fell = (seen * data.known[data.successor[layer, states, actions]]).sum(axis=1)
        stays = np.minimum(data.moved[layer, states, actions] - fell, MOST_STAYS)
        stays = np.where(stays > 0, 1 << np.frexp(np.maximum(stays, 1))[1].astype(np.int64) - 1, 0)
        rows, falls = layer * data.tried.shape[1] + states, np.minimum(fell, 1)
        news = (falls != self.recorded[0, rows, actions]) | (stays != self.recorded[1, rows, actions])
        touched: set[int] = set()
        for i in np.flatnonzero(news):
            r, a = int(rows[i]), int(actions[i])
            before = self.recorded[:, r, a].copy()
            if falls[i] == before[0] and stays[i] == before[1]:
                continue  # a pair that was taken twice
            new = int(falls[i] - before[0]), int(stays[i] - before[1])
            note(self.rules.cell, r, *new, self.n_falls[a], self.n_stays[a])
            self.recorded[:, r, a] = falls[i], stays[i]
            touched.add(a)
        changed = False
        for a in touched:
            if self.recorded[0, :, a].any():  # an action that never fell is not held back
                fatal, fall = np.empty((2, self.rules.cell.shape[1]))
                tallies, rules = (self.n_falls[a], self.n_stays[a], self.weights[a]), self.rules
                believe(rules.cell, rules.first, rules.prior, *tallies, fatal, fall)
                shape = self.fatal.shape[:2]
                self.falls[..., a] = fall.reshape(shape)
                self.fatal[..., a] = self._own(a, fatal, fall).reshape(shape)
                changed = True
        return changed

    def _own(self, a: int, fatal: Floats, fall: Floats) -> Floats:
        """Beliefs [R] about one action, in which a pair that survived may be an exception to the rules.

        Where falls always happen, it is one.
        """
        fell, stays = self.recorded[:, :, a]
        prior = np.minimum(fatal, EXCEPTIONS)
        hidden = prior * (1.0 - fall / np.maximum(fatal, TIE)) ** stays
        own = np.where(stays >= MOST_STAYS, 0.0, hidden / (hidden + 1.0 - prior))
        return np.where((stays > 0) & (fell == 0), own, fatal)

    def heaviest(self, a: int) -> int:
        """The rule that is believed in most."""
        return int(np.argmax(np.logaddexp.reduce(self.weights[a], axis=0)))


@dataclass
class RuleState(EliminationState):
    """Elimination, and what is held back beyond it."""

    idle: int  # episodes in a row that tried no pair for the first time
    confirmed: int  # m: tests that fell, less those that refuted a belief
    cautious: Bools = field(metadata={"saved": False})  # [1 or H, S, A]
    beliefs: Beliefs | None = field(metadata={"saved": False})  # computed from the counts
    factors: Factors | None = field(metadata={"saved": False})  # the problem's, which may come to know more
    known_factors: int = field(metadata={"saved": False})  # states with factors for which the rules were made

    def check_loaded(self) -> None:
        """Beliefs follow from the counts."""
        self.known_factors = -1

    def refresh(self) -> None:
        """Make the rules again if more factors became known, or the counts were loaded."""
        known = 0 if self.factors is None else self.factors.known
        if known == self.known_factors:
            return
        self.known_factors = known
        shape = self.data.tried.shape
        found = rows_of(self.factors, shape[1], shape[0])
        if found is None:
            self.cautious[:] = self.allowed
            return
        self.beliefs = Beliefs.none(rules_of(*found), shape)
        self.beliefs.take(self.data, *np.nonzero(self.data.tried))
        cautious_sets(self.allowed, self.beliefs.fatal, self.cautious)

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside the cautious actions; if a test is due and has something to gain, a test."""
        self.refresh()
        plan = self.data.plan(s1, bonus, self.cautious)
        if self.beliefs is None or self.idle < 1 << self.confirmed:
            return plan
        data, sets = self.data, (self.allowed, self.cautious, self.beliefs.fatal)
        where = (int(s1), data.n_transitions, data.horizon, data.successor, data.seen, data.known)
        least = least_suspect(*where, *sets)
        if least > 1.0 + TIE:
            return plan
        opened = self.cautious | (self.allowed & (self.beliefs.fatal <= least))
        test = data.plan(s1, bonus, opened)
        return test if test.upper > plan.upper + TIE else plan

    def learn(self, round: Round) -> None:
        """Count the round; what was tried in spite of a belief makes the next such try later, or sooner."""
        self.refresh()
        data, episode = self.data, round.episode
        n = min(len(episode.actions), len(episode.states) - 1)
        steps = np.arange(n)
        layer = steps if len(data.tried) > 1 else np.zeros(n, dtype=np.int64)
        pairs = (layer, np.asarray(episode.states[:n], dtype=np.int64), np.asarray(episode.actions[:n], dtype=np.int64))
        new = bool((data.tried[pairs] == 0).any())
        tested = self._tested(steps, pairs)
        super().learn(round)
        self.idle = 0 if new or episode.reset else self.idle + 1
        if self.beliefs is None:
            self.cautious[:] = self.allowed
            return
        if episode.reset:
            self.confirmed += bool(n and tested[-1])
        elif (tested & (self.beliefs.falls[pairs] >= HALF)).any():  # one an episode: the proof counts halvings
            self.confirmed = max(0, self.confirmed - 1)
        self.beliefs.take(data, *pairs)
        cautious_sets(self.allowed, self.beliefs.fatal, self.cautious)

    def _tested(self, steps: NDArray[Any], pairs: tuple[NDArray[Any], ...]) -> Bools:
        """Which steps were taken in spite of a belief, where others could have been."""
        if self.beliefs is None:
            return np.zeros(len(steps), dtype=np.bool_)
        sets = steps if len(self.cautious) > 1 else np.zeros(len(steps), dtype=np.int64)
        return np.asarray((self.beliefs.fatal[pairs] > HALF) & ~self.cautious[(sets, *pairs[1:])])


@dataclass(frozen=True)
class RuleElimination(EliminationPlayer):
    """Elimination over a class of rules: what one fall teaches about all the others.

    It plays inside what support elimination allows, so on every path resets never exceed the number of unsafe pairs.
    Where a pair that can fall always does, and some action never falls, they are at most the sum over actions of
    bits(a), plus log2(K) + 1: bits(a) = log2(1 / weight) of the lightest description of where the action is fatal, by
    a rule and its cells. Definition and proof: docs/rules.md.

    Without factors (`problem.factors` None, counts pooled), and on problems that are too large for tables, it is
    support elimination.

    scale, width, pooled, ties, noise, p: see `support-elimination`.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "rule-elimination", episodes=200)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "rule-elimination"

    def init(self, problem: Problem, episodes: int, seed: int) -> RuleState | LargeEliminationState:
        """No data yet: every action can be safe, and nothing is believed."""
        plain = super().init(problem, episodes, seed)
        if isinstance(plain, LargeEliminationState):
            return plain
        return RuleState(
            plain.data,
            plain.allowed,
            plain.endless,
            idle=0,
            confirmed=0,
            cautious=plain.allowed.copy(),
            beliefs=None,
            factors=problem.factors,
            known_factors=-1,
        )

    @classmethod
    def partner(cls) -> Partner:
        """None is needed: no penalty."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    def rule_bound(self, problem: Problem, fatal: Bools, episodes: int) -> float | None:
        """Bits of the rules that describe which pairs fall [L, S, A], and the tests of a run; None without rules."""
        found = rows_of(problem.factors, fatal.shape[1], len(fatal))
        if found is None:
            return None
        rules, rows = rules_of(*found), fatal.reshape(-1, fatal.shape[2])
        bits = sum(rules.bits(rows[:, a])[0] for a in range(rows.shape[1]) if rows[:, a].any())
        return bits + log2(episodes) + 1.0

    def decisions(self, state: RuleState | LargeEliminationState) -> list[Decision]:
        """The rules that it has learned, in words."""
        if isinstance(state, LargeEliminationState):
            return []
        state.refresh()
        found = state.beliefs
        if found is None:
            return []
        name: Callable[[int], str] = (lambda a: f"action {a}") if state.factors is None else state.factors.action
        return [
            Decision(
                state.data.k,
                in_words(found.rules, found.heaviest(a), name(a), found.n_falls[a] > 0, found.n_stays[a] > 0),
            )
            for a in range(len(found.n_falls))
            if found.recorded[0, :, a].any()
        ]
