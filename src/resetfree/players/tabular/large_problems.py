"""The state of the players on counts where the problem is large: what was seen, and what that leaves possible."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats, Ints, longer
from resetfree.core.errors import InvalidInput
from resetfree.core.state import require, within
from resetfree.game.contract import Plan, Round
from resetfree.players.requirements import sizes
from resetfree.players.tabular.count_players import (
    JITTER,
    Bonus,
    CountData,
    CountState,
    Ties,
    fresh,
    no_data,
    whole_size,
)
from resetfree.players.tabular.lazy_passes import Widths, composite_places, link, softmax_places, softmax_step, spread
from resetfree.players.tabular.sparse_counts import (
    FIRST,
    GROWING,
    NEWS,
    ROOM,
    SMALL,
    STATES,
    Numbers,
    SeenCounts,
    give_places,
    reach,
)
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.finite.tabular_policy import LazyPolicy

# Backward passes over the requested states only: exact, and as large as what was seen.
#
# A plan at (h, s) depends on counts alone, and only on those of the places that observed edges lead to from (h, s) in
# the steps that are left: by induction from the last step, Q of a tried pair is a function of the values of its
# observed successors one step later, and Q of an untried pair is known in closed form (it has no successors, and its
# width or cap is the same everywhere). So the pass over these places gives the very numbers that the pass over all
# states gives. An episode may leave them, through an edge that was never seen before; then the pass goes on from where
# it arrives.

PLACES = 256  # places to begin with


class LazyPass(LazyPolicy):
    """The places of a plan that were requested so far, and those that their values need."""

    def __init__(self, counts: SeenCounts, shape: tuple[int, int, int]) -> None:
        super().__init__(shape)
        self._counts, self._version = counts, counts.version
        self._seen = counts.counts  # the present arrays; they only grow, and `version` counts their changes
        self._n_seen = int(counts.size[STATES])
        self._place: Numbers = np.zeros((shape[0], self._n_seen), dtype=np.int32)  # pages are allocated on first write
        self._state_at: Numbers = np.zeros(PLACES, dtype=np.int32)
        self.n_places = FIRST

    def work_out(self, h: int, numbers: Numbers) -> None:
        """Make places for some states (-1: none) at step h, and compute the values there."""
        if self._version != self._counts.version:
            raise InvalidInput(
                "A policy that is computed on request must be used before its player learns more: "
                "take it as an array if it is to be kept."
            )
        self._state_at = longer(self._state_at, self.n_places + len(numbers))
        end = int(give_places(self._place, self._state_at, h, numbers, self.n_places))
        if end > self.n_places:
            self._extend(h, end)

    def places_of(self, h: int, numbers: Numbers) -> Numbers:
        """[n] the places of some numbered states at step h, where their values are."""
        self.work_out(h, numbers)
        return np.asarray(self._place[h, numbers])

    def numbers(self, states: NDArray[Any]) -> Numbers:
        """[n] the numbers of some states, -1 for those that were not seen when the plan was made."""
        numbers: Numbers = self._counts.number[states]
        numbers[numbers >= self._n_seen] = -1
        return numbers

    def touched(self) -> int:
        """How many edges (non-zeros of the observed model) the pass has gone along, where data are pooled."""
        edges = self._seen.used.sum(axis=1, dtype=np.int64)
        rows = self._seen.row[self._state_at[FIRST : self.n_places], 0]
        return int(edges[rows[rows >= 0]].sum())

    def _extend(self, h: int, end: int) -> None:
        """Compute the new places of step h, and those that they need."""
        begin = self.n_places
        bounds = np.full(self.shape[0] + 1, end, dtype=np.int64)
        bounds[: h + 1] = begin
        step, at, n = h, begin, end
        while True:
            step, at, n = reach(
                self._seen, self._counts.n_transitions, self._place, self._state_at, bounds, step, at, n
            )
            if step == self.shape[0]:
                break
            self._state_at = longer(self._state_at, n + 1)
        self.n_places = n
        self._fill(bounds, h)

    @abstractmethod
    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        """Compute the values of the new places."""


class SoftmaxPass(LazyPass):
    """Algorithm 1's pass for one multiplier, with one-hot features."""

    def __init__(self, counts: SeenCounts, shape: tuple[int, int, int], widths: Widths, caps: Floats) -> None:
        super().__init__(counts, shape)
        self._fixed = (counts.n_transitions, widths, caps)
        self._v_r, self._v_c = np.empty((2, PLACES))
        self._untried = max(min(widths.beta_r * (1.0 / widths.reg) ** 0.5, caps[0]), 0.0)

    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        self._v_r, self._v_c = longer(self._v_r, self.n_places), longer(self._v_c, self.n_places)
        softmax_places(self._seen, *self._fixed, self._place, self._v_r, self._v_c, self._state_at, bounds, first)

    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        """Uniform where nothing was seen: there all actions are equally good."""
        rows, numbers = np.empty((len(states), self.shape[2])), self.numbers(states)
        self.work_out(h, numbers)
        now_r, now_c = np.empty((2, len(states)))
        softmax_step(self._seen, *self._fixed, self._place, self._v_r, self._v_c, h, numbers, now_r, now_c, rows)
        return rows

    def values(self, s1: State) -> tuple[float, float]:
        """V_r and V_c at step 1."""
        number = self.numbers(np.array([s1]))
        if number[0] < 0:
            return self._untried, 0.0
        at = self.places_of(0, number)[0]
        return float(self._v_r[at]), float(self._v_c[at])


class TieBreak(NamedTuple):
    """Which of equally good actions to take: the one with the largest score + weight jitter."""

    score: Floats  # [A]
    weight: float
    jitter: Floats  # [S, A]


class Held(NamedTuple):
    """What is held back of the actions that can still be safe: pairs with a larger belief than the limit."""

    belief: Floats  # [S, A] that a pair is fatal, or [0, 0]: nothing is held back
    limit: float


NOTHING_HELD = Held(np.empty((0, 0)), 1.0)


class CompositePass(LazyPass):
    """The optimistic pass on counts for one multiplier, inside the actions that can still be safe."""

    def __init__(
        self,
        counts: SeenCounts,
        shape: tuple[int, int, int],
        bonus: Bonus,
        bad: Bools,
        endless: bool,
        ties: TieBreak,
        held: Held = NOTHING_HELD,
    ) -> None:
        super().__init__(counts, shape)
        self._held = held
        self._bonus, self._bad, self._endless = bonus, bad, endless
        self._ties = ties
        self._v, self._v_r, self._v_c, self._low = np.empty((4, PLACES))
        self._action: Numbers = np.empty(PLACES, dtype=np.int32)

    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        for name in ("_v", "_v_r", "_v_c", "_low", "_action"):
            setattr(self, name, longer(getattr(self, name), self.n_places))
        within = (self._bad, self._endless, self._counts.n_transitions, self._bonus, *self._ties, *self._held)
        made = (self._v, self._v_r, self._v_c, self._low, self._action)
        composite_places(self._seen, *within, self._place, self._state_at, bounds, first, *made)

    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        """The preferred action where nothing was seen: there all actions are equally good."""
        numbers = self.numbers(states)
        seen = numbers >= 0
        preference = self._ties.score + self._ties.weight * self._ties.jitter[states]
        if len(self._held.belief):
            belief = self._held.belief[states]
            limit = np.maximum(belief.min(axis=1, keepdims=True), self._held.limit)
            preference = np.where(belief <= limit, preference, -np.inf)
        actions = preference.argmax(axis=1)
        if seen.any():
            at = self.places_of(h, numbers[seen])  # first: it may make the arrays longer
            actions[seen] = self._action[at]
        return np.asarray(np.eye(self.shape[2])[actions])

    def values(self, s1: State) -> tuple[float, float, float]:
        """V_r and V_c of the policy on the counts, and the optimistic V, at step 1."""
        number = self.numbers(np.array([s1]))
        if number[0] < 0:
            return float(self.shape[0]), 0.0, float(self.shape[0])
        at = self.places_of(0, number)[0]
        return float(self._v_r[at]), float(self._v_c[at]), float(self._v[at])


# --------------------------------------------------------------------------------------------------------------------

NONE: Bools = np.empty((0, 0), dtype=np.bool_)  # no action is forbidden


@dataclass
class LargeCounts(CountData):
    """As `CountState`, in the size of what was seen (and one byte, or one number for breaking ties, per pair)."""

    seen: SeenCounts
    n_opened: Floats  # [A] how many pairs were tried
    n_fatal: Floats  # [A] how many pairs were reset
    score: Floats  # [A] the preference for an action is score + weight jitter
    weight: float
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A

    def count(self, episode: Episode) -> None:
        """Count the steps of an episode."""
        self.seen.learn(episode)

    def rank(self, opened: Floats, fatal: Floats) -> None:
        """As `CountState` does, from sums that are kept."""
        self.n_opened += opened
        self.n_fatal += fatal
        self.score[:] = (self.found - self.n_fatal) / (1.0 + self.n_opened)
        self.weight = JITTER

    def plan(self, s1: State, bonus: Bonus, bad: Bools = NONE, endless: bool = True, held: Held = NOTHING_HELD) -> Plan:
        """The optimistic plan, computed on request."""
        # The score changes with the next episode, and a plan must not.
        ties = TieBreak(self.score.copy(), self.weight, self.jitter)
        policy = CompositePass(self.seen, self.shape, bonus, bad, endless, ties=ties, held=held)
        return Plan(policy, *policy.values(s1))


@dataclass
class Bad:
    """From where a reset can no longer be avoided, as far as was seen; kept by looking at what an episode changed."""

    bad: Bools = field(metadata=GROWING)  # [M, 1 or H]: one for a life without end, or one per step of an episode
    head: Ints = field(metadata={**GROWING, "least": -1})  # [M] see `lazy_passes.link`
    before: Numbers = field(metadata={**GROWING, "least": None})  # [E], anything beyond the edges there are
    follow: Ints = field(metadata={**GROWING, "least": None})  # [E] likewise
    n_edges: int
    endless: bool = field(metadata={"saved": False})  # not visible from the number of layers if H = 1

    @classmethod
    def nothing(cls, n_layers: int, endless: bool) -> Bad:
        """Everything can be safe."""
        return cls(
            bad=np.zeros((ROOM, n_layers), dtype=np.bool_),
            head=np.full(ROOM, -1, dtype=np.int64),
            before=np.zeros(ROOM, dtype=np.int32),
            follow=np.zeros(ROOM, dtype=np.int64),
            n_edges=0,
            endless=endless,
        )

    def check_loaded(self) -> None:
        """Every edge is in one list of predecessors, and each list ends."""
        n = self.n_edges
        fits = n <= min(len(self.before), len(self.follow)) and len(self.bad) == len(self.head)
        require(fits, "predecessors must be within their arrays")
        follow = self.follow[:n]
        require(within(self.before[:n], 0, len(self.head)), "predecessors must be numbers of states")
        require((follow < np.arange(n)).all() and within(follow, -1, n), "lists of predecessors must end")
        require(within(self.head, -1, n), "lists of predecessors must begin with an edge")
        linked = np.concatenate([follow, self.head])
        require(len(np.unique(linked[linked >= 0])) == (linked >= 0).sum(), "edges must be in one list each")

    def learn(self, data: SeenCounts, round: Round) -> None:
        """After `data` has learned the same round; a state that was known before changes nothing any more."""
        n_seen = int(data.size[STATES])
        self.bad, self.head = longer(self.bad, n_seen, 0), longer(self.head, n_seen, -1)
        n_edges = self.n_edges + int(data.size[NEWS])
        self.before, self.follow = longer(self.before, n_edges), longer(self.follow, n_edges)
        counts, episode = data.counts, round.episode
        self.n_edges = int(link(counts, self.head, self.before, self.follow, self.n_edges))
        last = int(data.number[episode.states[-1]])
        known, at_end = bool(data.known[last]), bool(data.known_last[last])
        if data.size[NEWS] or episode.reset:
            at = (last if known else -1, last if at_end else -1)
            lists = (self.head, self.before, self.follow, self.n_edges)
            spread(counts, data.n_transitions, *lists, *at, self.bad, self.endless)


def begin(
    problem: Problem, name: str, pooled: bool, ties: Ties, log_term: float, noise: float, seed: int
) -> CountState | LargeCounts:
    """Nothing seen yet, in the form that suits the size of the problem."""
    shape = sizes(problem, pooled, name)
    if whole_size(problem, shape) <= SMALL or seed < 0:
        return fresh(problem, name, pooled, ties, log_term, noise=noise, seed=seed)
    n_opened, n_fatal, score = np.zeros((3, shape[2]))
    return LargeCounts(
        **no_data(shape, ties, log_term, noise, seed),
        seen=SeenCounts.nothing(problem, pooled),
        n_opened=n_opened,
        n_fatal=n_fatal,
        score=score,
        weight=1.0,
        shape=(problem.horizon, *shape[1:]),
    )
