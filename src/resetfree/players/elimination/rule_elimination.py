"""Support elimination that generalises: one fall counts against every state that the simplest rules cannot tell apart.

Legend: a state is a tuple of named factors (`problem.factors`); a rule says which of them, or of their relations, the
danger of an action depends on (`rule_class`). The player believes in a mixture of all rules (`danger_beliefs`), holds
back what it believes to be fatal, and tries such a pair only when nothing else is left to gain, ever more rarely.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log2
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats
from resetfree.game.capabilities import DangerMap, Decision, Suited
from resetfree.game.contract import Plan, Round
from resetfree.players import NeedsNoPenalty, TakesEpisodes
from resetfree.players.elimination import (
    SAFE_FOR_GOOD,
    EliminationPlayer,
    EliminationState,
    LargeEliminationState,
    doubled,
)
from resetfree.players.elimination.danger_beliefs import DOUBT, HALF, Beliefs, LargeRuleState
from resetfree.players.elimination.landings import Edges, Landings, all_alike, filled, mean_pay
from resetfree.players.elimination.rule_class import cautious_sets, in_words, least_suspect, rows_of, rules_of
from resetfree.players.tabular.count_players import TIE, Bonus
from resetfree.problems import Factors, Problem, State, has_factors

Moves: TypeAlias = Literal["pairs", "relative"]
LARGEST = 2_000_000  # pairs up to which `auto` takes it: beliefs are kept about each
LOOKED_AT = 4  # from when a test is due, one plan of so many looks whether it has something to gain
LIVING = 0.2  # share of the most that an episode could earn from which on tests can wait longer
FEARED, TRUSTED = 2, 5  # states in which an action fell, and in which another was tried and never fell
TOLL = 5.0  # episodes that it may cost to try another pair before one that is believed to be fatal
PATIENCE = 16  # a test of what is nearly certain waits at most so many times longer than one of what is not


@dataclass
class RuleState(EliminationState):
    """Elimination, and what is held back beyond it."""

    idle: int  # episodes in a row that tried no pair for the first time
    confirmed: int  # m: tests that fell, less those that refuted a belief
    begun: Bools  # [S] where episodes began
    forecasts: Floats  # [A] logarithms of what the places gave to all that was seen of each action
    doomed: NDArray[np.int64]  # [2] episodes whose end was a reset; those that passed such a place, and were not reset
    named: str  # the factors as text, and their values: a run file alone shows the rules that were learned
    values: NDArray[np.int64] = field(metadata={"grows": (0, 1), "least": -1})  # [S, F]
    relative: bool = field(metadata={"saved": False})  # whether danger may belong to where one lands
    cautious: Bools = field(metadata={"saved": False})  # [1 or H, S, A]
    beliefs: Beliefs | None = field(metadata={"saved": False})  # computed from the counts
    factors: Factors | None = field(metadata={"saved": False})  # the problem's, which may come to know more
    known_factors: int = field(metadata={"saved": False})  # states with factors for which the rules were made
    looked_at: tuple[int, ...] = field(default=(), metadata={"saved": False})  # how much was seen then
    alike: bool = field(default=True, metadata={"saved": False})  # whether all rewards were the same so far

    def check_loaded(self) -> None:
        """Beliefs follow from the counts."""
        self.known_factors = -1
        if self.factors is None and self.values.size:  # a run file alone
            self.factors = Factors.from_text(self.named, self.values, len(self.begun))

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
        if self.factors is not None:
            self.named, self.values = self.factors.text(), self.factors.values
        parts, _ = found
        ordered = self.relative and shape[0] == 1 and any(part.ordered for part in parts)
        landings, self.looked_at = Landings(*found, shape[2]) if ordered else None, ()
        self.beliefs = Beliefs.none(rules_of(*found), shape, landings)
        layer, states, actions = np.nonzero(self.data.tried)
        self.beliefs.take(self.data, layer, states, actions)
        self._look()

    def _look(self, news: bool = True) -> None:
        """Take the news into account: edges, places, and what follows for every pair.

        news: whether something about a pair was taken into account since.
        """
        assert self.beliefs is not None
        data, landings = self.data, self.beliefs.landings
        if landings is not None:
            marks = (data.seen, data.known, data.known_last, self.begun)
            version = (*map(np.count_nonzero, marks), *self.doomed.tolist())
            if version != self.looked_at:
                self.looked_at = version
                landings.learn(self._edges(), *self._survived_and_deadly())
            elif not news:
                return
            self.beliefs.with_landings(self.forecasts)
        cautious_sets(self.allowed, self.beliefs.fatal, DOUBT, self.cautious)
        self._beware_of_strangers(self.beliefs)

    def _beware_of_strangers(self, beliefs: Beliefs) -> None:
        """In states that were never seen, leave aside what fell in several others, if something else never did.

        A policy is made before the episode, so that no rule can tell such a state from others while it is played.
        """
        if self.factors is None or not self.factors.known:
            return
        strange = ~has_factors(self.factors.values)
        fell = (beliefs.recorded[0] > 0).sum(axis=0)
        tried = (beliefs.recorded > 0).any(axis=0).sum(axis=0)
        if strange.any() and ((fell == 0) & (tried >= TRUSTED)).any():
            self.cautious[:, strange[:, None] & (fell >= FEARED)] = False

    def _edges(self) -> Edges:
        """All edges that were seen."""
        _, states, actions, slot = np.nonzero(self.data.seen)
        return Edges(states, actions, self.data.successor[0, states, actions, slot].astype(np.int64))

    def _survived_and_deadly(self) -> tuple[Bools, Bools]:
        """[S] the places that were survived, and those that are deadly.

        Where the end of an episode can be a reset by itself, to pass a place says nothing, and one in which it was is
        taken to be doomed, until more episodes passed such places unharmed.
        """
        data = self.data
        if data.end_resets:
            ends = data.known_last if self.doomed[0] >= self.doomed[1] else data.known
            return self.begun & ~ends, data.known | ends
        return self._visited() & ~data.known, data.known

    def _visited(self) -> Bools:
        """[S] where the agent was."""
        found = self.data.tried[0].any(axis=1)
        found[self._edges().after] = True
        return np.asarray(found)

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside the cautious actions; if a test is due and has something to gain, a test.

        Where all that was tried pays alike, and new states are within reach, the way to those comes first.
        """
        self.refresh()
        data = self.data
        landings = None if self.beliefs is None else self.beliefs.landings
        self.alike = self.alike and (landings is None or all_alike(data))
        if landings is not None and self.alike and (news := self._search(s1, bonus, landings)) is not None:
            return news
        plan = data.plan(s1, bonus, self.cautious, ahead=self.ahead)
        # Where moves are relative, a test waits for 4^(m + 1) episodes as long as there is a reward to live on.
        urgent = self.alike or (landings is not None and self._usual(plan) < self._living())
        if self.long_run:
            return self._test(s1, bonus, plan, urgent)
        opened = self._opened(s1, urgent)
        test = plan if opened is None else data.plan(s1, bonus, opened)
        return test if test.upper > plan.upper + TIE else plan

    def _test(self, s1: State, bonus: Bonus, plan: Plan, urgent: bool) -> Plan:
        """The plan with the least suspect that has something to gain, if a test is due; else `plan`.

        The least suspect of all may gain nothing, for ever, and would keep the others from being tested.
        """
        wait, found = self._wait(urgent), self.beliefs
        if found is None or self.idle < wait or (self.idle - wait) % LOOKED_AT:
            return plan
        patience = PATIENCE if urgent else self.idle // wait
        held = np.broadcast_to(found.fatal, self.allowed.shape)[self.allowed & ~self.cautious]
        due = np.unique(held[(held <= patience * (1.0 - held)) | (patience >= PATIENCE)])

        def opened(i: int) -> Plan:
            return self.data.plan(s1, bonus, self.cautious | (self.allowed & (found.fatal <= due[i])), ahead=self.ahead)

        low, high = 0, len(due) - 1
        if high < 0 or (test := opened(high)).upper <= plan.upper + TIE:
            return plan
        while low < high:
            middle = (low + high) // 2
            if (less := opened(middle)).upper > plan.upper + TIE:
                high, test = middle, less
            else:
                low = middle + 1
        return test

    def _wait(self, urgent: bool) -> int:
        """How many episodes in a row must have tried no pair for the first time."""
        return doubled(self.confirmed if urgent else 2 * self.confirmed + 2)

    def _search(self, s1: State, bonus: Bonus, landings: Landings) -> Plan | None:
        """The way to a new state, None if there is none."""
        found = filled(self.data, landings, self._visited())
        if found is None:
            return None
        counts, nothing = found
        plain = bonus._replace(log_term=0.0, noise=0.0)  # only a new state has a value
        opened = self._opened(s1, urgent=True)
        for sets in (self.cautious,) if opened is None else (self.cautious, opened):
            if (news := self.data.plan(s1, plain, sets, counts=counts)).upper > nothing + TIE:
                return news
        return None

    def within(self) -> Bools:
        """See `EliminationState`: the cautious ones."""
        return self.cautious

    def toll(self) -> Floats:
        """See `EliminationState`: what is suspected is tried later than what is not, and from farther away."""
        usual = super().toll()
        return usual if self.beliefs is None else usual + TOLL * self.data.horizon * self.beliefs.fatal

    def _usual(self, plan: Plan) -> float:
        """The value that a plan promises for an episode; where it looks beyond, on average."""
        H = self.data.horizon
        return plan.upper * H / (H + self.ahead.beyond)

    def _living(self) -> float:
        """What an episode must promise to be lived on: a share of one that always earns the most that was seen."""
        return LIVING * self.data.horizon * float(mean_pay(self.data).max())

    def _opened(self, s1: State, urgent: bool) -> Bools | None:
        """The cautious actions and the least suspect within reach of the others; None if no test is due, or none is.

        It waits as many times longer as its odds say, at most PATIENCE times, unless it is urgent.
        """
        data, found = self.data, self.beliefs
        wait = self._wait(urgent)
        if found is None or self.idle < wait or (self.idle - wait) % LOOKED_AT:
            return None
        where = (int(s1), data.n_transitions, data.horizon, data.successor, data.seen, data.known)
        least = least_suspect(*where, self.allowed, self.cautious, found.fatal)
        if least > 1.0 + TIE:
            return None
        odds = least / max(1.0 - least, TIE)
        if not urgent and self.idle < wait * min(max(odds, 1.0), PATIENCE):
            return None
        return np.asarray(self.cautious | (self.allowed & (found.fatal <= least)))

    def learn(self, round: Round) -> bool:
        """Count the round; what was tried in spite of a belief makes the next such try later, or sooner."""
        self.refresh()
        data, episode = self.data, round.episode
        n = min(len(episode.actions), len(episode.states) - 1)
        steps = np.arange(n)
        layer = steps if len(data.tried) > 1 else np.zeros(n, dtype=np.int64)
        pairs = (layer, np.asarray(episode.states[:n], dtype=np.int64), np.asarray(episode.actions[:n], dtype=np.int64))
        new = self._new(pairs)
        tested = self._tested(steps, pairs)
        ends = self._note_ends(round)
        news = super().learn(round)
        self.idle = 0 if new or episode.reset else self.idle + 1
        found = self.beliefs
        if found is None:
            self.cautious[:] = self.allowed
            return news
        if episode.reset:
            self.confirmed += bool(n and tested[-1])
        elif (tested & (found.falls[pairs] >= HALF)).any():  # one an episode: the proof counts halvings
            self.confirmed = max(0, self.confirmed - 1)
        if news or ends or episode.reset or not found.settled(data.tried.shape[1], *pairs):
            self._look(found.take(data, *pairs, self.forecasts))
        return news

    def _new(self, pairs: tuple[NDArray[Any], ...]) -> bool:
        """Whether an episode tried some pair for the first time; where moves are relative, acted in a new state."""
        tried = self.data.tried
        if self.beliefs is None or self.beliefs.landings is None:
            return bool((tried[pairs] == 0).any())
        return not tried[0, pairs[1]].any(axis=1).all()

    def _note_ends(self, round: Round) -> bool:
        """Remember where the episode began, and what it showed about places where the end of one was a reset.

        Returns whether that is news.
        """
        episode, found = round.episode, self.beliefs
        before = (bool(self.begun[int(round.s1)]), *self.doomed.tolist())
        self.begun[int(round.s1)] = True
        if self.data.end_resets:
            if episode.reset:
                self.doomed[0] += len(episode.actions) == self.data.n_transitions
            elif found is not None and found.landings is not None:
                self.doomed[1] += bool((found.landings.label[episode.states[1:-1]] > 0).any())
        return before != (True, *self.doomed.tolist())

    def _tested(self, steps: NDArray[Any], pairs: tuple[NDArray[Any], ...]) -> Bools:
        """Which steps were taken in spite of a belief, where others could have been."""
        if self.beliefs is None:
            return np.zeros(len(steps), dtype=np.bool_)
        sets = steps if len(self.cautious) > 1 else np.zeros(len(steps), dtype=np.int64)
        return np.asarray((self.beliefs.fatal[pairs] > DOUBT) & ~self.cautious[(sets, *pairs[1:])])


@dataclass(frozen=True)
class RuleElimination(NeedsNoPenalty, TakesEpisodes, EliminationPlayer):
    """Elimination over a class of rules: what one fall teaches about all the others.

    It plays inside what support elimination allows, so on every path resets never exceed the number of unsafe pairs.
    Where a pair that can fall always does, and some action never falls, they are at most the sum over actions of
    bits(a), plus log2(K) + 1: bits(a) = log2(1 / weight) of the lightest description of where the action is fatal, by
    a rule and its cells. The proof is in the docstring of `rule_class`; docs/rules.md has the rules.

    Without factors (`problem.factors` None, counts pooled), and with moves "pairs" on problems that are too large for
    tables, it is support elimination.

    moves: "pairs": danger is that of an action in a state. "relative": what actions do to the factors of a state in one
      place is used in others, and danger may belong to where they lead; the second bound is larger.
    scale, width, pooled, ties, noise, p, objective: see `support-elimination`.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "rule-elimination", episodes=200)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "rule-elimination"
    suited_states = ("counted",)
    moves: Moves = "relative"

    def init(self, problem: Problem, episodes: int, seed: int) -> RuleState | LargeEliminationState:
        """No data yet: every action can be safe, and nothing is believed."""
        plain = super().init(problem, episodes, seed)
        if isinstance(plain, LargeEliminationState):
            return self._large(plain, problem)
        return RuleState(
            plain.data,
            plain.allowed,
            plain.endless,
            long_run=plain.long_run,
            idle=0,
            confirmed=0,
            begun=np.zeros(plain.data.tried.shape[1], dtype=np.bool_),
            forecasts=np.zeros(plain.data.tried.shape[2]),
            doomed=np.zeros(2, dtype=np.int64),
            named="",
            values=np.zeros((0, 0), dtype=np.int64),
            relative=self.moves == "relative",
            cautious=plain.allowed.copy(),
            beliefs=None,
            factors=problem.factors,
            known_factors=-1,
        )

    def _large(self, plain: LargeEliminationState, problem: Problem) -> LargeEliminationState:
        """Where tables would be too large, danger belongs to places, or pairs say nothing about each other."""
        if self.moves != "relative":
            return plain
        return LargeRuleState(
            plain.data,
            plain.sets,
            idle=0,
            confirmed=0,
            begun=np.zeros(problem.n_states or 0, dtype=np.bool_),
            doomed=np.zeros(2, dtype=np.int64),
            factors=problem.factors,
            known_factors=-1,
            landings=None,
            belief=np.empty((0, 0)),
        )

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states with named coordinates and without features, whose steps and tasks do not differ."""
        if problem.factors is None or (problem.n_states or 0) * problem.n_actions > LARGEST:
            return None
        why = f"the states are finite, with named coordinates: {SAFE_FOR_GOOD}, and what the simplest rules that fit "
        why += "call fatal is held back"
        return Suited(1.25, why, cls.partner(), {"objective": "long-run"})

    def rule_bound(self, problem: Problem, fatal: Bools, episodes: int) -> float | None:
        """Bits of the rules that describe which pairs fall [L, S, A], and the tests of a run; None without rules."""
        found = rows_of(problem.factors, fatal.shape[1], len(fatal))
        if found is None:
            return None
        rules, rows = rules_of(*found), fatal.reshape(-1, fatal.shape[2])
        falling = np.asarray(rows.any(axis=0))
        # Places may be all that matters for all actions or for each: one bit, one for each action, and all have rules.
        counted = range(rows.shape[1]) if self.moves == "relative" else np.flatnonzero(falling).tolist()
        bits = sum(rules.bits(rows[:, a])[0] for a in counted)
        more = 1.0 + len(falling) + falling.sum() if self.moves == "relative" else 0.0
        return float(bits + more + log2(episodes) + 1.0)

    def decisions(self, state: RuleState | LargeEliminationState) -> list[Decision]:
        """The rules that it has learned, in words."""
        if isinstance(state, LargeEliminationState):
            landings = state.refresh() if isinstance(state, LargeRuleState) else None
            return (
                [] if landings is None or not (landings.label > 0).any() else [Decision(state.data.k, landings.words())]
            )
        state.refresh()
        found = state.beliefs
        if found is None:
            return []
        name: Callable[[int], str] = (lambda a: f"action {a}") if state.factors is None else state.factors.action
        fell = [a for a in range(len(found.n_falls)) if found.recorded[0, :, a].any()]
        said = [
            in_words(found.rules, found.heaviest(a), name(a), found.n_falls[a] > 0, found.n_stays[a] > 0)
            for a in fell
            if found.shares[a] <= HALF
        ]
        if found.landings is not None and any(found.shares[a] > HALF for a in fell):
            said.insert(0, found.landings.words())
        return [Decision(state.data.k, sentence) for sentence in said]

    def danger(self, state: RuleState | LargeEliminationState) -> DangerMap | None:
        """What it believes about every pair."""
        if isinstance(state, LargeEliminationState):
            return None
        state.refresh()
        found = state.beliefs
        if found is None or state.factors is None or len(found.fatal) > 1:
            return None
        return DangerMap(np.where(state.allowed.any(axis=0), found.fatal[0], 1.0), state.factors, DOUBT)
