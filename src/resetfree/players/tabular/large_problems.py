"""The state of the players on counts where the problem is large: what was seen, and what that leaves possible."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Bools, Floats, Ints, jit, longer, require, within
from resetfree.game.contract import Plan, Round
from resetfree.players.tabular.count_players import (
    JITTER,
    Bonus,
    CountData,
    Rows,
    composite_step,
)
from resetfree.players.tabular.sparse_counts import (
    DEAD,
    GROWING,
    NEWS,
    OVER,
    PLACES,
    ROOM,
    STATES,
    LazyPass,
    Numbers,
    Seen,
    SeenCounts,
)
from resetfree.problems import Episode, Problem, State

# Optimistic value iteration on counts, and what can still be safe, on the places of a plan and on what changed alone.
#
# The passes over all states are `count_players` and `support_elimination`.
#
# Legend: as in `sparse_counts`; bad[i, l] whether a reset can no longer be avoided from numbered state i as far as was
# seen, one layer l for a life without end or one per step of an episode.


@jit
def _allowed(c: Seen, bad: Bools, endless: bool, n_transitions: int, h: int, numbers: Numbers, may: Bools) -> None:
    """may[k, a]: whether all observed successors of action a in numbers[k] can still be safe after step h."""
    at_end, moves_on = not endless and h == n_transitions - 1, h < n_transitions or endless
    layer, after = h if c.row.shape[1] > 1 else 0, 0 if endless else h + 1
    for k in range(len(numbers)):
        r = c.row[numbers[k], layer]
        for a in range(may.shape[1]):
            may[k, a] = True
            if r >= 0 and moves_on:
                for j in range(c.begin[r, a], c.begin[r, a] + c.used[r, a]):
                    t = c.successor[j]
                    if c.known_last[t] if at_end else bad[t, after]:
                        may[k, a] = False
                        break


@jit
def hold_back(may: Bools, belief: Floats, limit: float) -> None:
    """Of the actions that may be taken [A], keep those with a belief up to the limit, or with the least one."""
    least = np.inf
    for a in range(len(may)):
        if may[a]:
            least = min(least, belief[a])
    for a in range(len(may)):
        may[a] = may[a] and belief[a] <= max(limit, least)


@jit
def composite_places(
    c: Seen,
    bad: Bools,  # [M, 1 or H], or [0, 0]: every action is allowed
    endless: bool,  # whether its one layer is for a life without end
    n_transitions: int,
    bonus: Bonus,
    score: Floats,  # [A] the preference for an action among equally good ones is score + weight jitter
    weight: float,
    jitter: Floats,  # [S, A]
    belief: Floats,  # [S, A] that a pair is fatal, or [0, 0]: nothing is held back; only inside what can be safe
    limit: float,  # of the belief, above which a pair is held back
    place: Numbers,  # [H, M]
    state_at: Numbers,  # [N]
    bounds: Ints,  # [H + 1] the new places of each step
    first: int,  # the step to go back to
    v: Floats,  # [N] out, at the new places: the optimistic value
    v_r: Floats,  # [N] out: values of the policy on the counts
    v_c: Floats,  # [N] out
    low: Floats,  # [N] out: a lower bound
    action: Numbers,  # [N] out
) -> None:
    """`count_players.composite_plan` at the new places, from the last step to the first."""
    horizon, n_actions, lam = len(place), len(score), bonus.lam
    counted = Rows(c.tried, c.earned, c.moved, c.begin, c.used, successor=c.successor, times=c.times, stride=0)
    over = np.zeros(place.shape[1] if bounds[horizon] > bounds[horizon - 1] else 0, dtype=np.int32)
    all_width = np.empty((0, 0))
    v[OVER], v_r[OVER], v_c[OVER], low[OVER] = 0.0, 0.0, 0.0, 0.0
    v[DEAD], v_r[DEAD], v_c[DEAD], low[DEAD] = -lam, 0.0, 1.0, -lam
    for h in range(horizon - 1, first - 1, -1):
        new = slice(bounds[h], bounds[h + 1])
        n = bounds[h + 1] - bounds[h]
        if n == 0:
            continue
        layer = h if c.row.shape[1] > 1 else 0
        rows, known = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
        prefer = np.empty((n, n_actions))
        bound = len(bad) > 0 and h < n_transitions  # an action that leads nowhere is never unsafe
        may = np.empty((n if bound else 0, n_actions), dtype=np.bool_)
        if bound:
            _allowed(c, bad, endless, n_transitions, h, state_at[new], may)
        for k in range(n):
            i = state_at[bounds[h] + k]
            r = c.row[i, layer]
            rows[k], known[k] = r, c.known[i]
            for a in range(n_actions):
                prefer[k, a] = score[a] + weight * jitter[c.state[i], a]
            if bound and bad[i, 0 if endless else h]:
                may[k] = True  # nothing is safe here any more, so nothing is forbidden
            if bound and len(belief) > 0:
                hold_back(may[k], belief[c.state[i]], limit)
        next_place = place[h + 1] if h + 1 < horizon else over
        after = (v, v_r, v_c, low, next_place, c.known_last if h == n_transitions - 1 else c.known, DEAD)
        here, made = (rows, known, prefer, may, all_width), (v[new], v_r[new], v_c[new], low[new], action[new])
        composite_step(counted, h < n_transitions, bonus, float(horizon - h), 0.0, all_width, 0, *after, *here, *made)


@jit
def link(c: Seen, head: Ints, before: Numbers, follow: Ints, n: int) -> int:
    """Add the news to the lists of predecessors: those of t are before[e] for e = head[t], follow[e], ... until -1."""
    for e in range(c.size[NEWS]):
        before[n], follow[n] = c.news[e, 0], head[c.news[e, 1]]
        head[c.news[e, 1]] = n
        n += 1
    return n


@jit
def _turn(
    c: Seen,
    bad: Bools,
    endless: bool,
    n_transitions: int,
    h: int,
    checked: Numbers,
    may: Bools,
    turned: Numbers,
    n_turned: int,
) -> int:
    """Check the states `checked` again; those that have no safe action left turn bad, and are listed."""
    _allowed(c, bad, endless, n_transitions, h, checked, may)
    layer = 0 if endless else h
    for k in range(len(checked)):
        if not bad[checked[k], layer] and not may[k].any():
            bad[checked[k], layer] = True
            turned[n_turned] = checked[k]
            n_turned += 1
    return n_turned


@jit
def spread(
    c: Seen,
    n_transitions: int,
    head: Ints,  # [M] predecessors, see `link`
    before: Numbers,
    follow: Ints,
    n_edges: int,
    known: int,  # the state in which the episode was reset if it is one, or -1
    known_last: int,  # likewise at the end of an episode
    bad: Bools,  # [M, 1 or H] in and out
    endless: bool,  # whether its one layer is for a life without end; an episode of one step has one layer too
) -> None:
    """What is bad after an episode: only its new edges, its reset state, and predecessors of what turned bad change it.

    Sets only grow as more is seen, so looking again at what changed gives the sets that all counts together give.
    """
    n_new = c.size[NEWS]
    checked = np.empty(n_new + n_edges, dtype=np.int32)
    may = np.empty((len(checked), c.tried.shape[1]), dtype=np.bool_)
    turned = np.empty(c.size[STATES] + 1, dtype=np.int32)
    checked[:n_new] = c.news[:n_new, 0]
    h, m = bad.shape[1] - 1, 0
    if endless and known_last >= 0 and not bad[known_last, 0]:
        bad[known_last, 0] = True
        turned[0], m = known_last, 1
    first = True
    while h >= 0:
        if not endless and h == n_transitions - 1:  # the end of an episode has its own reset states
            turned[0], m = known_last, 1 if known_last >= 0 else 0
        n = n_new if first or not endless else 0
        for k in range(m):
            e = head[turned[k]]
            while e >= 0:
                checked[n] = before[e]
                n += 1
                e = follow[e]
        m = 0
        if not endless and known >= 0 and not bad[known, h]:
            bad[known, h] = True
            turned[0], m = known, 1
        m = _turn(c, bad, endless, n_transitions, h, checked[:n], may[:n], turned, m)
        first = False
        if endless and m == 0:
            return
        if not endless:
            h -= 1


# --------------------------------------------------------------------------------------------------------------------


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

    def _fill(self, bounds: Ints, first: int) -> None:
        for name in ("_v", "_v_r", "_v_c", "_low", "_action"):
            setattr(self, name, longer(getattr(self, name), self.n_places))
        within = (self._bad, self._endless, self._counts.n_transitions, self._bonus, *self._ties, *self._held)
        made = (self._v, self._v_r, self._v_c, self._low, self._action)
        composite_places(self._seen, *within, self._place, self._state_at, bounds, first, *made)

    def rows(self, h: int, states: Ints) -> Floats:
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

    @classmethod
    def nothing(cls, problem: Problem, pooled: bool, data: dict[str, Any]) -> LargeCounts:
        """Nothing seen yet.  data: the fields of `CountData`."""
        n_opened, n_fatal, score = np.zeros((3, problem.n_actions))
        shape = (problem.horizon, *data["opened"].shape)
        seen = SeenCounts.nothing(problem, pooled)
        return cls(**data, seen=seen, n_opened=n_opened, n_fatal=n_fatal, score=score, weight=1.0, shape=shape)

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
    head: Ints = field(metadata={**GROWING, "least": -1})  # [M] see `link`
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
