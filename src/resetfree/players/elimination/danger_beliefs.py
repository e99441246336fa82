"""What is believed about the danger of every pair: the mixture of rules, and beside it the danger of places.

Each action has its own mixture of rules about pairs (`rule_class`). Where moves are taken to be relative, there is one
more hypothesis: that danger belongs to where one lands (`landings`), for all actions or for some.

On problems that are too large for tables danger belongs to where one lands, and to nothing else: counts and sets are
those of support elimination, and beliefs are about places, one number per state (`LargeRuleState`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats
from resetfree.game.contract import Plan, Round
from resetfree.players.elimination import LargeEliminationState, doubled
from resetfree.players.elimination.landings import SELDOM, Edges, Landings
from resetfree.players.elimination.rule_class import LOG_MIX, Cells, Rules, believe, note, weigh
from resetfree.players.tabular.count_players import TIE, Bonus, CountState
from resetfree.players.tabular.large_problems import Held
from resetfree.players.tabular.sparse_counts import NEWS, ROWS, STATES
from resetfree.problems import Factors, State

MOST_STAYS = 16  # survivals of one pair that count; in between, those at powers of two
EXCEPTIONS = 0.75  # the largest belief about a pair before it survives, by the rules
FIRM = 0.98  # likewise by the places: moves are the same nearly everywhere
HALF = 0.5  # a survival in spite of such a belief refutes it; both bounds rest on it
DOUBT = 0.4  # belief above which a pair is held back: at most HALF
FIRST_FALL = 1e-6  # an action that never fell is held back with a belief just above that: it is tried first
SURE = 1e-3  # what no forecast of the places goes below


@dataclass
class Beliefs:
    """What was seen, cell by cell of every rule, and the beliefs that follow from it."""

    rules: Rules
    recorded: NDArray[np.int32]  # [2, R, A] falls and survivals that are taken into account
    n_falls: Cells  # [A, C]
    n_stays: Cells  # [A, C]
    weights: Floats  # [A, P, J] logarithms, of actions that fell; where there are places, of all
    shares: Floats  # [A] of the places in the mixture
    fatal: Floats  # [L, S, A] that a pair can fall
    falls: Floats  # [L, S, A] that it falls at the next try
    by_rules: Floats  # [2, A, R] both, by the rules alone
    landings: Landings | None

    @classmethod
    def none(cls, rules: Rules, shape: tuple[int, ...], landings: Landings | None = None) -> Beliefs:
        """Nothing seen; shape: L, S, A."""
        n_rows, n_actions = shape[0] * shape[1], shape[2]
        cells = (n_actions, int(rules.first[-1]))
        return cls(
            rules=rules,
            recorded=np.zeros((2, n_rows, n_actions), dtype=np.int32),
            n_falls=np.zeros(cells, dtype=np.int32),
            n_stays=np.zeros(cells, dtype=np.int32),
            weights=np.tile(LOG_MIX[:, None] + rules.prior, (n_actions, 1, 1)),
            shares=np.zeros(n_actions),
            fatal=np.zeros(shape),
            falls=np.zeros(shape),
            by_rules=np.zeros((2, n_actions, n_rows)),
            landings=landings,
        )

    def take(
        self,
        data: CountState,
        layer: NDArray[Any],
        states: NDArray[Any],
        actions: NDArray[Any],
        forecasts: Floats | None = None,
    ) -> bool:
        """Take some pairs of the counts into account; whether anything about them was news.

        forecasts: [A] logarithms of what the places gave to all that was taken into account, in and out.
        """
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
            if forecasts is not None and self.landings is not None:
                forecasts[a] += self._forecast(self.landings, r, a, int(before[1]), *new)
            note(self.rules.cell, r, *new, self.n_falls[a], self.n_stays[a])
            self.recorded[:, r, a] = falls[i], stays[i]
            touched.add(a)
        for a in touched:
            tallies, rules = (self.n_falls[a], self.n_stays[a], self.weights[a]), self.rules
            if self.recorded[0, :, a].any():
                believe(rules.cell, rules.first, rules.prior, *tallies, *self.by_rules[:, a])
            elif self.landings is not None:
                weigh(rules.first, rules.prior, *tallies)
            if self.landings is None:
                self._mix(a, 0.0)
        return bool(touched)

    def settled(self, n_states: int, layer: NDArray[Any], states: NDArray[Any], actions: NDArray[Any]) -> bool:
        """Whether these pairs survived so often that another time says nothing."""
        return bool((self.recorded[1, layer * n_states + states, actions] >= MOST_STAYS).all())

    def _forecast(self, landings: Landings, r: int, a: int, survived: int, falls: int, stays: int) -> float:
        """The logarithm of the probability that the places gave to new survivals of a pair, and to a fall after them.

        The pair can fall with probability f, and then falls each time with probability q: it survives n times with
        probability g(n) = 1 - f + f (1 - q)^n. Where the places say nothing, the share of falls so far is taken.
        """
        if landings.falls[r, a] < 0.0:
            fell, before = self.recorded[0, :, a].sum(), self.recorded[1, :, a].sum()
            n = fell + before + 1.0
            chance = float(np.log1p(-(fell + 0.25) / (n + np.arange(stays))).sum()) if stays else 0.0
            return chance + (float(np.log(min((fell + 0.25) / (n + stays), HALF))) if falls else 0.0)
        f = min(max(float(landings.fatal[r, a]), SURE), 1.0 - SURE)
        q = min(max(float(landings.falls[r, a]) / f, SURE), 1.0 - SURE)
        after = f * (1.0 - q) ** (survived + stays)
        chance = float(np.log((1.0 - f + after) / (1.0 - f + f * (1.0 - q) ** survived)))
        return chance + (float(np.log(max(after * q / (1.0 - f + after), SURE**2))) if falls else 0.0)

    def with_landings(self, forecasts: Floats) -> None:
        """Mix in what the places say; forecasts: [A], see `take`.

        Beforehand danger belongs to places for all actions together with probability 1/2, and otherwise for each action
        by itself with probability 1/2.
        """
        evidence = np.array([np.logaddexp.reduce(one.ravel()) for one in self.weights])
        alone = np.logaddexp(forecasts, evidence)  # and a factor of 1/2 for each action
        together = forecasts.sum() - (alone - np.log(2.0)).sum()
        joint = 1.0 / (1.0 + np.exp(np.clip(-together, -700.0, 700.0)))
        self.shares = joint + (1.0 - joint) * np.exp(forecasts - alone)
        for a, share in enumerate(self.shares.tolist()):
            self._mix(a, min(share, 1.0))

    def _mix(self, a: int, share: float) -> None:
        """Beliefs about one action, of which the places have a share.

        An action that never fell is not held back by the rules.
        """
        (fatal, fall), shape = self.by_rules[:, a], self.fatal.shape[:2]
        fell = bool(self.recorded[0, :, a].any())
        if self.landings is not None and share > 0.0:
            stated = self.landings.falls[:, a] >= 0.0
            by_place = np.where(stated, self.landings.falls[:, a], self._usual()[a])
            mixed = (1.0 - share) * fall + share * by_place
            fatal = np.where(
                stated, (1.0 - share) * fatal + share * self.landings.fatal[:, a], np.maximum(fatal, mixed)
            )
            fall = mixed
        elif not fell:
            return
        own = self._own(a, fatal, fall, EXCEPTIONS + (FIRM - EXCEPTIONS) * share)
        if not fell:
            own = np.where(own > DOUBT, DOUBT + FIRST_FALL * own, own)
        self.falls[..., a] = fall.reshape(shape)
        self.fatal[..., a] = own.reshape(shape)

    def _usual(self) -> Floats:
        """[A] the share of falls, at most one half: what the places say where they say nothing."""
        falls, stays = self.recorded.sum(axis=1)
        return np.asarray(np.minimum((falls + 0.25) / (falls + stays + 1.0), HALF))

    def _own(self, a: int, fatal: Floats, fall: Floats, most: float) -> Floats:
        """Beliefs [R] about one action, in which a pair that survived may be an exception to the rules.

        Where falls always happen, it is one.
        """
        fell, stays = self.recorded[:, :, a]
        prior = np.minimum(fatal, most)
        hidden = prior * (1.0 - fall / np.maximum(fatal, TIE)) ** stays
        own = np.where(stays >= MOST_STAYS, 0.0, hidden / (hidden + 1.0 - prior))
        return np.where((stays > 0) & (fell == 0), own, fatal)

    def heaviest(self, a: int) -> int:
        """The rule that is believed in most."""
        return int(np.argmax(np.logaddexp.reduce(self.weights[a], axis=0)))


# --------------------------------------------------------------------------------------------------------------------

OFTEN = 8  # one of so many plans is that of the counts
FIRMER = 0.999  # the largest belief about a pair before it is tried: slips are rare
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
    prior = np.minimum(fatal[survived], FIRMER)
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
