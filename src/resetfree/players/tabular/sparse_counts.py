"""Counts of a large finite problem as part of a player's state: they grow with what was seen, not with the problem."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, InvalidInput, jit, longer, require, within
from resetfree.players.tabular.counts import mark_reset
from resetfree.problems import Episode, Problem
from resetfree.problems.finite.tabular_policy import LazyPolicy

# Counts of what was seen of a large finite problem, and which steps of a plan they connect.
#
# Legend: states are numbered in the order in which they were first seen, M of them; R rows of A pairs, one for each
# state
# (and each step, where data are not pooled) in which something was tried; L layers of data; a place is a step h
# (from 0)
# and a numbered state that a plan has used. Nothing here has the size S A S, H S A, or even S A.

Numbers = NDArray[np.int32]
STATES, ROWS, EDGES, NEWS = 0, 1, 2, 3  # what `Seen.size` counts; NEWS: edges that the last episode saw first
SCAN = 16  # scanning this many entries costs about what sorting one does
OVER, DEAD, FIRST = 0, 1, 2  # places of every plan: after the last step, in a reset state; and the first real one


class Seen(NamedTuple):
    """What was seen; arrays have room for more than that."""

    number: Numbers  # [S] of each state, -1 where it was never seen
    state: Numbers  # [M] the other way round
    known: Bools  # [M] states whose entering was a reset
    known_last: Bools  # [M] likewise at the end of an episode
    row: Numbers  # [M, L] the row of a state's pairs, -1 where nothing was tried
    tried: Ints  # [R, A]
    earned: Floats  # [R, A] sum of rewards
    moved: Ints  # [R, A] transitions seen
    begin: Ints  # [R, A] where the successors of a pair begin
    room: Numbers  # [R, A] how many fit there
    used: Numbers  # [R, A] how many there are
    successor: Numbers  # [E] numbers of states, in the order in which they were seen
    times: Ints  # [E] how often
    news: Numbers  # [H, 2] the new edges of the last episode: numbers of both states
    size: Ints  # [4] how many states, rows, places for edges and news there are


@jit
def _numbered(c: Seen, s: int) -> int:
    """The number of a state, a new one where it is seen for the first time."""
    i = c.number[s]
    if i < 0:
        i = c.size[STATES]
        c.size[STATES] += 1
        c.number[s], c.state[i] = i, s
    return int(i)


@jit
def _row_of(c: Seen, i: int, layer: int) -> int:
    r = c.row[i, layer]
    if r < 0:
        r = c.size[ROWS]
        c.size[ROWS] += 1
        c.row[i, layer] = r
    return int(r)


@jit
def note(
    c: Seen,
    first: int,
    states: Ints,  # [n or n + 1]
    actions: Ints,  # [n]
    rewards: Floats,  # [n]
) -> int:
    """Count steps `first` .. of an episode; returns n, or the step for whose successor there is no room yet.

    There must be room for all states and rows of the episode. Successors that outgrow their room move to the end of
    the pool, to twice the room: the pool stays within a constant of the edges, and each edge moves O(1) times.
    """
    if first == 0:
        c.size[NEWS] = 0
    for h in range(first, len(actions)):
        i, a = _numbered(c, states[h]), actions[h]
        r = _row_of(c, i, h if c.row.shape[1] > 1 else 0)
        if h + 1 < len(states):
            t = _numbered(c, states[h + 1])
            begin, used = c.begin[r, a], c.used[r, a]
            j = begin
            while j < begin + used and c.successor[j] != t:
                j += 1
            if j == begin + used:
                if used == c.room[r, a]:
                    room, end = max(2 * used, 1), c.size[EDGES]
                    if end + room > len(c.successor):
                        return h
                    for k in range(used):
                        c.successor[end + k], c.times[end + k] = c.successor[begin + k], c.times[begin + k]
                    c.begin[r, a], c.room[r, a], j = end, room, end + used
                    c.size[EDGES] += room
                c.successor[j], c.times[j] = t, 0
                c.used[r, a] += 1
                c.news[c.size[NEWS], 0], c.news[c.size[NEWS], 1] = i, t
                c.size[NEWS] += 1
            c.times[j] += 1
            c.moved[r, a] += 1
        c.tried[r, a] += 1
        c.earned[r, a] += rewards[h]
    return len(actions)


@jit
def give_places(place: Numbers, state_at: Numbers, h: int, numbers: Numbers, n: int) -> int:
    """Give the next places, from n on, to those of some states (-1: none) without one at step h; returns the new n."""
    here = place[h]
    for k in range(len(numbers)):
        t = numbers[k]
        if t >= 0 and here[t] == 0:
            here[t], state_at[n] = n, t
            n += 1
    return n


@jit
def _arrange(after: Numbers, state_at: Numbers, begin: int, end: int) -> None:
    """Put the new places of a step in the order of their states: counts are then read from front to back."""
    if SCAN * (end - begin) > len(after):
        k = begin
        for t in range(len(after)):
            if after[t] >= begin:
                after[t], state_at[k] = k, t
                k += 1
    else:
        state_at[begin:end].sort()
        for k in range(begin, end):
            after[state_at[k]] = k


@jit
def reach(
    c: Seen,
    n_transitions: int,
    place: Numbers,  # [H, M] in and out: the place of (h, i), 0 if it has no place yet
    state_at: Numbers,  # [N] out: the state of each place
    bounds: Ints,  # [H + 1] in and out: the new places of step h are bounds[h] .. bounds[h + 1] - 1
    h: int,  # the step and the place to go on from, and how many places there are
    at: int,
    n: int,
) -> tuple[int, int, int]:
    """Give a place to everything that observed edges lead to from the new places of step h; h = H when done.

    Only these places enter the values of the new ones. If `state_at` is full, it returns where to go on.
    """
    horizon, n_actions = len(place), c.tried.shape[1]
    while h + 1 < horizon:
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        after = place[h + 1]
        for k in range(at, bounds[h + 1]):
            r = c.row[state_at[k], h if c.row.shape[1] > 1 else 0]
            if r < 0:
                continue
            for a in range(n_actions):
                begin = c.begin[r, a]
                for j in range(begin, begin + c.used[r, a]):
                    t = c.successor[j]
                    if after[t] == 0 and not is_reset[t]:
                        if n == len(state_at):
                            return h, k, n
                        after[t], state_at[n] = n, t
                        n += 1
        h += 1
        bounds[h + 1] = n
        at = bounds[h]
        _arrange(after, state_at, at, n)
        if at == n:
            bounds[h + 1 :] = n
            break
    return horizon, 0, n


# --------------------------------------------------------------------------------------------------------------------

ROOM = 1024  # entries of each array to begin with
GROWING = {"grows": (0,)}
BY_STATE, BY_EDGE = ("state", "known", "known_last", "row"), ("successor", "times")
BY_ROW = ("tried", "earned", "moved", "begin", "room", "used")
SMALL = 10_000_000  # bytes up to which a player keeps the data of all pairs, and its passes go over all states


@dataclass
class SeenCounts:
    """The arrays of `Seen`, whose first axis grows where it is full."""

    number: Numbers = field(metadata={"least": -1})
    state: Numbers = field(metadata=GROWING)
    known: Bools = field(metadata=GROWING)
    known_last: Bools = field(metadata=GROWING)
    row: Numbers = field(metadata={**GROWING, "least": -1})
    tried: NDArray[np.int64] = field(metadata=GROWING)
    earned: Floats = field(metadata=GROWING)
    moved: NDArray[np.int64] = field(metadata=GROWING)
    begin: NDArray[np.int64] = field(metadata=GROWING)
    room: Numbers = field(metadata=GROWING)
    used: Numbers = field(metadata=GROWING)
    successor: Numbers = field(metadata=GROWING)
    times: NDArray[np.int64] = field(metadata=GROWING)
    news: Numbers
    size: NDArray[np.int64]
    version: int  # episodes learned: a plan that was made at another one can no longer be extended
    n_transitions: int = field(metadata={"saved": False})
    end_resets: bool = field(metadata={"saved": False})

    @classmethod
    def nothing(cls, problem: Problem, pooled: bool) -> SeenCounts:
        """No state was seen yet."""
        assert problem.n_states is not None
        pairs = (ROOM, problem.n_actions)
        return cls(
            number=np.full(problem.n_states, -1, dtype=np.int32),
            state=np.zeros(ROOM, dtype=np.int32),
            known=np.zeros(ROOM, dtype=np.bool_),
            known_last=np.zeros(ROOM, dtype=np.bool_),
            row=np.full((ROOM, 1 if pooled else problem.horizon), -1, dtype=np.int32),
            tried=np.zeros(pairs, dtype=np.int64),
            earned=np.zeros(pairs),
            moved=np.zeros(pairs, dtype=np.int64),
            begin=np.zeros(pairs, dtype=np.int64),
            room=np.zeros(pairs, dtype=np.int32),
            used=np.zeros(pairs, dtype=np.int32),
            successor=np.zeros(ROOM, dtype=np.int32),
            times=np.zeros(ROOM, dtype=np.int64),
            news=np.zeros((problem.horizon, 2), dtype=np.int32),
            size=np.zeros(4, dtype=np.int64),
            version=0,
            n_transitions=problem.n_transitions,
            end_resets=problem.end_resets,
        )

    @property
    def counts(self) -> Seen:
        """As one record, for the kernels."""
        return Seen(*(getattr(self, name) for name in Seen._fields))

    def learn(self, episode: Episode) -> None:
        """Count the steps that were taken, and remember a state that turned out to be a reset state."""
        steps = len(episode.actions)
        self._room_for(STATES, steps + 1, BY_STATE)
        self._room_for(ROWS, steps, BY_ROW)
        h = note(self.counts, 0, episode.states, episode.actions, episode.rewards)
        while h < steps:
            self._room_for(EDGES, len(self.successor), BY_EDGE)
            h = note(self.counts, h, episode.states, episode.actions, episode.rewards)
        if episode.reset:
            mark_reset(self, episode, self.number[episode.states[-1]])
        self.version += 1

    def check_loaded(self) -> None:
        """Numbers of states, rows and places for edges lie within what there is."""
        for names in (BY_STATE, BY_ROW, BY_EDGE):
            require(
                len({len(getattr(self, name)) for name in names}) == 1, f"{' and '.join(names)} must be of one size"
            )
        n, rows, edges, news = self.size.tolist()
        fits = n <= len(self.state) and rows <= len(self.tried) and edges <= len(self.successor)
        require(fits and news <= len(self.news), "'size' must be within its arrays")
        require(within(self.number, -1, n) and within(self.state[:n], 0, len(self.number)), "states are not numbered")
        require((self.number[self.state[:n]] == np.arange(n)).all(), "states must be numbered one by one")
        require(within(self.row, -1, rows), "rows must be among those there are")
        ends = self.begin + self.room
        require((self.used <= self.room).all() and within(ends, 0, edges + 1), "edges must be among those there are")
        require(within(self.successor[:edges], 0, max(n, 1)), "successors must be numbers of states")
        require(within(self.news[:news], 0, n), "new edges must be between states that were seen")

    def _room_for(self, what: int, more: int, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(self, name, longer(getattr(self, name), int(self.size[what]) + more, -1 if name == "row" else 0))


# --------------------------------------------------------------------------------------------------------------------

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
