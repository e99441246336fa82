"""Rules about danger on problems that are too large for tables: danger belongs to where one lands, and to nothing else.

Counts and sets are those of support elimination; beliefs are about places (`landings`), one number per state.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats
from resetfree.game.contract import Plan, Round
from resetfree.players.elimination.danger_beliefs import HALF
from resetfree.players.elimination.elimination_sets import LargeEliminationState, doubled
from resetfree.players.elimination.landings import SELDOM, Edges, Landings
from resetfree.players.tabular.count_players import TIE, Bonus
from resetfree.players.tabular.large_problems import Held
from resetfree.players.tabular.sparse_counts import NEWS, ROWS, STATES
from resetfree.problems.contract import State
from resetfree.problems.knowledge import Factors

OFTEN = 8  # one of so many plans is that of the counts
FIRM = 0.999  # the largest belief about a pair before it is tried: slips are rare
DULL = 2.0  # in place of the belief, where an action leads to nothing new


def with_exceptions(landings: Landings, edges: Edges, times: NDArray[np.int64]) -> Floats:
    """Beliefs [S, A] in which a pair that never led to a deadly place in so many `times` [S, A] may be an exception.

    One that was believed to be fatal with probability f and leads there with probability q each time survived n times
    with probability (1 - q)^n.
    """
    fatal, falls = landings.fatal, landings.falls
    deadly = landings.label[edges.after] > 0
    shown = np.zeros(fatal.shape, dtype=np.bool_)
    shown[edges.states[deadly], edges.actions[deadly]] = True
    survived = (times > 0) & ~shown & (fatal > HALF)
    prior = np.minimum(fatal[survived], FIRM)
    hidden = prior * (1.0 - falls[survived] / fatal[survived]) ** times[survived]
    belief = fatal.copy()
    belief[survived] = hidden / (hidden + 1.0 - prior)
    return belief


@dataclass
class LargeRuleState(LargeEliminationState):
    """Elimination, and what is held back beyond it because of the places where it leads."""

    idle: int  # episodes in a row that saw no new edge
    confirmed: int  # m: tests that fell, less those that refuted a belief
    begun: Bools  # [S] where episodes began
    doomed: NDArray[np.int64]  # [2] see `RuleState`
    factors: Factors | None = field(metadata={"saved": False})
    known_factors: int = field(metadata={"saved": False})
    landings: Landings | None = field(metadata={"saved": False})
    belief: Floats = field(metadata={"saved": False})  # [S, A] that a pair is fatal
    edges: Edges | None = field(default=None, metadata={"saved": False})  # that the beliefs rest on

    def check_loaded(self) -> None:
        """Beliefs follow from the counts."""
        super().check_loaded()
        self.known_factors = -1

    def refresh(self) -> Landings | None:
        """The beliefs, made again if more factors became known, or the counts were loaded; None without factors."""
        if self.factors is not None and self.factors.known != self.known_factors:
            self.known_factors = self.factors.known
            if any(part.ordered for part in self.factors.parts):
                self.landings = Landings(self.factors.parts, self.factors.values, self.data.shape[2])
                self.edges = None
                self._look(self.landings)
        return self.landings

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside what is not held back; if a test is due and has something to gain, a test.

        As long as all pairs pay alike, only a new state has a value, or else a new pair: no bonus is given. Then
        rewards that are known count as well; every eighth plan is that of the counts, for effects that are wrong.
        """
        found = self.refresh()
        if found is None:
            return super().plan(s1, bonus)
        limits = [HALF, *self._test()]
        usual, plain = self._usual(), bonus._replace(log_term=0.0, noise=0.0)
        dull = self._with_dull(found)
        if usual is None and self.data.k % OFTEN != OFTEN - 1:
            plans = [self._inside(s1, plain, Held(dull, limit)) for limit in limits]
            return plans[-1] if plans[-1].upper > plans[0].upper + TIE else plans[0]
        if usual is not None:
            nothing = usual * self.data.shape[0]
            for belief in (dull, self.belief):
                for limit in limits:
                    if (plan := self._inside(s1, plain, Held(belief, limit))).upper > nothing + TIE:
                        return plan
        plans = [self._inside(s1, bonus, Held(self.belief, limit)) for limit in limits]
        return plans[-1] if plans[-1].upper > plans[0].upper + TIE else plans[0]

    def _inside(self, s1: State, bonus: Bonus, held: Held) -> Plan:
        return self.data.plan(s1, bonus, self.sets.bad, self.sets.endless, held)

    def _with_dull(self, found: Landings) -> Floats:
        """Beliefs [S, A] in which untried pairs whose effects lead only to visited states are held back, too."""
        seen, belief = self.data.seen, self.belief.copy()
        states, rows = seen.state[: int(seen.size[STATES])], seen.row[: int(seen.size[STATES])]
        acted, tried = rows.max(axis=1) >= 0, np.zeros((len(states), belief.shape[1]), dtype=np.bool_)
        visited = np.zeros(len(belief), dtype=np.bool_)
        visited[states[acted]] = True
        for layer in range(rows.shape[1]):
            here = rows[:, layer] >= 0
            tried[here] |= seen.tried[rows[here, layer]] > 0
        for a in np.flatnonzero(found.ways.any(axis=1)).tolist():
            dull = ~tried[:, a] & found.placed[states]
            for d in np.flatnonzero(found.ways[a] >= SELDOM).tolist():
                dull &= visited[found.target[d, states]]
            belief[states[dull], a] = DULL
        return belief

    def _usual(self) -> float | None:
        """What every pair pays, None if some pay more than others."""
        seen = self.data.seen
        tried = seen.tried[: int(seen.size[ROWS])]
        pay = seen.earned[: len(tried)][tried > 0] / tried[tried > 0]
        return None if len(pay) and pay.max() - pay.min() > TIE else float(pay.mean()) if len(pay) else 0.0

    def _test(self) -> list[float]:
        """The least belief that is held back in a state that was seen, if a test is due; what is certain is no test."""
        if self.idle < doubled(self.confirmed):
            return []
        seen = self.data.seen
        belief = self.belief[seen.state[: int(seen.size[STATES])]]
        suspects = belief[(belief > HALF) & (belief < 1.0 - TIE)]
        return [float(suspects.min())] if len(suspects) else []

    def learn(self, round: Round) -> None:
        """Count the round; what was tried in spite of a belief makes the next such try later, or sooner."""
        found, episode = self.refresh(), round.episode
        n = min(len(episode.actions), len(episode.states) - 1)
        tested, before = np.zeros(n, dtype=np.bool_), (bool(self.begun[int(round.s1)]), *self.doomed.tolist())
        self.begun[int(round.s1)] = True
        if found is not None:
            tested = self.belief[episode.states[:n], episode.actions[:n]] > HALF
            if self.data.seen.end_resets:
                if episode.reset:
                    self.doomed[0] += len(episode.actions) == self.data.seen.n_transitions
                else:
                    self.doomed[1] += bool((found.label[episode.states[1:-1]] > 0).any())
        super().learn(round)
        self.idle = 0 if episode.reset or self.data.seen.size[NEWS] else self.idle + 1
        if episode.reset:
            self.confirmed += bool(n and tested[-1])
        elif tested.any():
            self.confirmed = max(0, self.confirmed - 1)
        if found is not None:
            if self.idle == 0 or before != (True, *self.doomed.tolist()):
                self.edges = None
            self._look(found)

    def _look(self, landings: Landings) -> None:
        """Take edges and places into account where there are news, and how often pairs were tried."""
        if self.edges is None:
            self.edges = self._learn_places(landings)
        seen = self.data.seen
        times = np.zeros(landings.fatal.shape, dtype=np.int64)
        for numbers in seen.row[: int(seen.size[STATES])].T:
            here = np.flatnonzero(numbers >= 0)
            times[seen.state[here]] += seen.moved[numbers[here]]
        self.belief = with_exceptions(landings, self.edges, times)

    def _learn_places(self, landings: Landings) -> Edges:
        """Learn from all edges and places; returns the edges."""
        seen = self.data.seen
        n, rows = int(seen.size[STATES]), int(seen.size[ROWS])
        edges = self._edges(n, rows)
        known, known_last = np.zeros((2, len(seen.number)), dtype=np.bool_)
        known[seen.state[:n]], known_last[seen.state[:n]] = seen.known[:n], seen.known_last[:n]
        if seen.end_resets:
            ends = known_last if self.doomed[0] >= self.doomed[1] else known
            landings.learn(edges, self.begun & ~ends, known | ends)
        else:
            good = np.zeros_like(known)
            good[edges.states], good[edges.after] = True, True
            landings.learn(edges, good & ~known, known)
        return edges

    def _edges(self, n: int, rows: int) -> Edges:
        """All edges that were seen."""
        seen = self.data.seen
        state_of = np.zeros(rows, dtype=np.int64)
        number, layer = np.nonzero(seen.row[:n] >= 0)
        state_of[seen.row[number, layer]] = seen.state[number]
        used = seen.used[:rows]
        row, action = np.nonzero(used)
        times = used[row, action].astype(np.int64)
        ends = np.cumsum(times)
        within = np.arange(int(times.sum())) - np.repeat(ends - times, times)
        at = np.repeat(seen.begin[row, action], times) + within
        after = seen.state[seen.successor[at]].astype(np.int64)
        return Edges(np.repeat(state_of[row], times), np.repeat(action, times), after)
