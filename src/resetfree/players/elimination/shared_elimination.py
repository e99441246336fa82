"""Support elimination where steps or tasks differ: risk that twins share.

What fell at one step is suspected at every other, what fell in one task in every other.

Legend: state s = c n + q is place q of n in task c (one task: s = q); rows (layer, s) of counts with one place are
twins. A pair is suspected if a twin fell and it has not survived often enough itself. W: the states that can still be
safe if suspects fall, and if an untried pair leads where its twins led. Places are fatal as a whole, as far as the data
say so, if where one action fell the others did, too: then what was not tried there is suspected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools
from resetfree.game.capabilities import Partner, Suited
from resetfree.game.contract import Plan, Round
from resetfree.players.elimination.elimination_sets import (
    EliminationPlayer,
    EliminationState,
    LargeEliminationState,
    doubled,
)
from resetfree.players.requirements import TakesEpisodes
from resetfree.players.tabular.count_players import TIE, Bonus, CountState
from resetfree.problems.contract import Problem, State

DOUBT = 0.05  # a pair is no longer suspected if a pair like the twins that fell would have survived so with this chance
PATIENCE = 2  # a test waits 2 to the power of this times 1 + m
WHOLE = 0.7  # places are fatal as a whole if the estimated share of actions that fall where another one fell is larger
OWN = 4  # steps of a pair after which only its own successors count


class TwinEdges(NamedTuple):
    """Which place follows a pair of place and action at some step, in some task."""

    pair: NDArray[np.int64]  # [E]
    place: NDArray[np.int64]  # [E]


def twin_edges(data: CountState, n_places: int) -> TwinEdges:
    """All that were seen, each once."""
    layer, state, action, j = np.nonzero(data.seen)
    after = data.successor[layer, state, action, j] % n_places
    code = (state % n_places * data.tried.shape[2] + action) * n_places + after
    return TwinEdges(*np.divmod(np.unique(code), n_places))


class Falls(NamedTuple):
    """What was seen of falls: of each row of counts, and of pairs of place and action at all steps, in all tasks."""

    counted: NDArray[np.int64]  # [L, S, A]
    fell: Bools  # [n, A] pairs that fell at some step, in some task
    tried: Bools  # [n, A]

    @classmethod
    def of(cls, data: CountState, n_places: int) -> Falls:
        """All that the counts say."""
        counted = (data.seen * data.known[data.successor]).sum(axis=3)
        by_place = (len(data.tried), -1, n_places, data.tried.shape[2])
        fell, tried = (np.asarray((x > 0).reshape(by_place).any(axis=(0, 1))) for x in (counted, data.moved))
        return cls(counted, fell, tried)

    def whole(self) -> bool:
        """Whether places are fatal as a whole: where one action fell, nearly all others that were tried did, too."""
        some = self.fell.any(axis=1)
        others = int(self.fell[some].sum() - some.sum())
        stayed = int((self.tried & ~self.fell)[some].sum())
        return (others + 1) / (others + stayed + 2) > WHOLE


def suspected(data: CountState, n_places: int, falls: Falls) -> Bools:
    """[L, S, A] pairs whose twins fell, and that neither fell nor survived often enough to differ from them."""
    n_layers, n_states, n_actions = data.tried.shape
    by_place = (n_layers, -1, n_places, n_actions)
    fell = falls.counted > 0
    n_falls = falls.counted.reshape(by_place).sum(axis=(0, 1))
    n_tries = (data.moved * fell).reshape(by_place).sum(axis=(0, 1))
    chance = np.tile(n_falls / np.maximum(n_tries, 1), (n_states // n_places, 1))  # [S, A] of a fall
    return np.asarray((chance > 0) & ~fell & ((1.0 - chance) ** data.moved > DOUBT))


def preferred_sets(data: CountState, allowed: Bools, n_places: int) -> Bools:
    """Allowed actions [H, S, A] that are not suspected and lead to W only; where there is none, the least suspect."""
    horizon, n_states, n_actions = allowed.shape
    n_layers, tasks = len(data.tried), n_states // n_places
    falls = Falls.of(data, n_places)
    edges, suspects, whole = twin_edges(data, n_places), suspected(data, n_places, falls), falls.whole()
    tried = np.tile(falls.tried, (tasks, 1))
    if whole:
        stayed = (falls.tried & ~falls.fell).any(axis=1)
        suspects |= np.tile(falls.fell.any(axis=1) & ~stayed, tasks)[:, None] & ~tried
    here = data.tried.any(axis=(0, 2))  # who acted there was not reset on entering
    is_reset, last = (
        known | (np.tile(known.reshape(tasks, n_places).any(axis=0), tasks) & ~here)
        for known in (data.known, data.known_last)
    )
    preferred, after = np.empty_like(allowed), ~last
    for h in range(horizon - 1, -1, -1):
        layer = h if n_layers > 1 else 0
        fine = allowed[h] & ~suspects[layer]
        inside = hopeful = fine
        if h < data.n_transitions:
            own = (~after[data.successor[layer]] & (data.seen[layer] > 0)).any(axis=2)
            out = np.zeros((tasks, n_places * n_actions), dtype=np.bool_)
            for c in range(tasks):
                out[c, edges.pair[~after[c * n_places + edges.place]]] = True
            few = data.moved[layer] < OWN
            inside = hopeful = fine & ~(own | (few & out.reshape(n_states, n_actions)))
            if whole:  # as where it falls, so where all that was tried leads there
                hopeless = (tried & ~inside).any(axis=1) & ~(tried & inside).any(axis=1)
                hopeful = inside & (tried | ~hopeless[:, None])
        preferred[h] = _first_of(hopeful, inside, fine, allowed[h])
        if h < data.n_transitions:
            after = hopeful.any(axis=1) & ~is_reset
    return preferred


def _first_of(*sets: Bools) -> Bools:
    """[S, A] in each state the first of these sets that is not empty."""
    found = sets[-1]
    for one in reversed(sets[:-1]):
        found = np.where(one.any(axis=1, keepdims=True), one, found)
    return found


@dataclass
class SharedState(EliminationState):
    """Elimination, and what it prefers among what it allows."""

    preferred: Bools  # [H, S, A]
    idle: int  # episodes in a row that tried no pair for the first time, and tested nothing
    confirmed: int  # m: tests that fell, less those after which something is no longer held back
    n_places: int = field(metadata={"saved": False})

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside what is preferred; if a test is due and has something to gain, inside all."""
        plan = self.data.plan(s1, bonus, self.preferred, ahead=self.ahead)
        if self.idle < doubled(PATIENCE * (1 + self.confirmed)) or np.array_equal(self.preferred, self.allowed):
            return plan
        test = self.data.plan(s1, bonus, self.allowed, ahead=self.ahead)
        return test if test.upper > plan.upper + TIE else plan

    def within(self) -> Bools:
        """See `EliminationState`: the preferred ones."""
        return self.preferred

    def learn(self, round: Round) -> bool:
        """Count the round; what was tried although it is held back makes the next such try later, or sooner."""
        data, episode = self.data, round.episode
        n = min(len(episode.actions), len(episode.states) - 1)
        steps = np.arange(n)
        pairs = (np.asarray(episode.states[:n], dtype=np.int64), np.asarray(episode.actions[:n], dtype=np.int64))
        new = bool((data.tried[(steps if len(data.tried) > 1 else 0, *pairs)] == 0).any())
        tested = self.allowed[(steps, *pairs)] & ~self.preferred[(steps, *pairs)]
        news = super().learn(round)
        self.idle = 0 if new or episode.reset or tested.any() else self.idle + 1
        young = (data.moved[(steps if len(data.tried) > 1 else 0, *pairs)] <= OWN).any()
        danger = data.known.any() or data.known_last.any()
        if danger and (young or tested.any() or news):
            self.preferred = preferred_sets(data, self.allowed, self.n_places)
        if tested.any() and episode.reset:
            self.confirmed += 1
        elif self.preferred[(steps, *pairs)][tested].any():
            self.confirmed = max(0, self.confirmed - 1)
        return news


@dataclass(frozen=True)
class SharedElimination(TakesEpisodes, EliminationPlayer):
    """Elimination that learns danger once for all steps and tasks, as long as the data agree.

    Where dynamics change with the step, or tasks with the episode, support elimination must see each unsafe triple
    (h, s, a) fall. Here a pair whose twin fell, at another step or at the same place in another task, is held back, and
    so is what leads where only such pairs are left. What is held back is tested if nothing else is left to gain: the
    last 4^(1 + m) episodes tried no pair for the first time, m being the tests that fell less those that refuted
    something, and the optimistic value with it is larger than without.

    It plays inside what support elimination allows, so on every path resets never exceed the number of unsafe triples
    if twins differ: which of the allowed actions is taken plays no part in the proof. Without twins (one task, pooled
    counts), and on problems that are too large for tables, it is support elimination.

    scale, width, pooled, ties, noise, p, objective: see `support-elimination`.

    >>> import resetfree as rf
    >>> [int(rf.learn("doors-v0", player, episodes=200).realised_resets[-1])
    ...     for player in ("support-elimination", "shared-elimination")]
    [28, 5]
    """

    name: ClassVar[str] = "shared-elimination"

    def init(self, problem: Problem, episodes: int, seed: int) -> EliminationState | LargeEliminationState:
        """No data yet: every action can be safe, and nothing is held back."""
        plain = super().init(problem, episodes, seed)
        if isinstance(plain, LargeEliminationState) or (len(plain.data.tried) == 1 and problem.n_contexts == 1):
            return plain
        return SharedState(
            plain.data,
            plain.allowed,
            plain.endless,
            long_run=plain.long_run,
            preferred=plain.allowed.copy(),
            idle=0,
            confirmed=0,
            n_places=plain.allowed.shape[1] // problem.n_contexts,
        )

    @classmethod
    def partner(cls) -> Partner:
        """None is needed: no penalty."""
        return Partner("constant-penalty", "realised", {"C": 0.0})

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features, whose steps or tasks differ."""
        if problem.actions.n is None or problem.n_states is None or problem.phi is not None:
            return None
        if problem.stationary and problem.n_contexts == 1:
            return None
        twins = "steps" if problem.n_contexts == 1 else "tasks"
        why = (
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            f"resets are bounded on every path, and what fell is held back at other {twins} until a test refutes it"
        )
        return Suited(1.5, why, cls.partner(), {"objective": "long-run"})
