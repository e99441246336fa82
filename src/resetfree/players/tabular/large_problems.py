"""The state of the players on counts where the problem is large: what was seen, and what that leaves possible."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resetfree.core.state import require, within
from resetfree.game.contract import Plan, Round
from resetfree.players.requirements import sizes
from resetfree.players.tabular.count_planning import Bonus
from resetfree.players.tabular.count_players import JITTER, CountData, CountState, Ties, fresh, no_data, whole_size
from resetfree.players.tabular.lazy_composite import link, spread
from resetfree.players.tabular.lazy_plans import NOTHING_HELD, CompositePass, Held, TieBreak
from resetfree.players.tabular.sparse_counts import GROWING, ROOM, SMALL, SeenCounts, longer
from resetfree.players.tabular.visited import NEWS, STATES, Numbers
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.finite.backward import Bools, Floats, Ints

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
    head: Ints = field(metadata={**GROWING, "least": -1})  # [M] see `lazy_composite.link`
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
