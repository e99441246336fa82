"""Support elimination, a learned shield: what was seen to lead where a reset cannot be avoided is never done again.

Legend: W the states that can still be safe given the observed edges and reset states; allowed the actions whose
observed successors all lie in W. The true safe sets lie inside the learned ones on every path: nothing safe is lost.

**Where steps or tasks differ** (`SharedElimination`): what fell at one step is suspected at every other, what fell in
one task in every other. State s = c n + q is place q of n in task c (one task: s = q); rows (layer, s) of counts with
one place are twins. A pair is suspected if a twin fell and it has not survived often enough itself. W: the states that
can still be safe if suspects fall, and if an untried pair leads where its twins led. Places are fatal as a whole, as
far as the data say so, if where one action fell the others did, too: then what was not tried there is suspected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from resetfree.core import Bools, Ints
from resetfree.game.capabilities import PrimalRegretBound, Suited, always
from resetfree.game.contract import Plan, Round
from resetfree.players import NO_PENALTY, Method, NeedsNoPenalty, TakesEpisodes, penalised, written_in
from resetfree.players.elimination import (
    SAFE_FOR_GOOD,
    EliminationPlayer,
    EliminationState,
    LargeEliminationState,
    doubled,
)
from resetfree.players.tabular.count_players import TIE, Bonus, CountState, noise_of
from resetfree.problems import FiniteMDP, Problem, State
from resetfree.theory.certificates.anytime import DELTA
from resetfree.theory.proved_widths import log_corners
from resetfree.theory.visit_sums import CellKinds, bonus_distance, cells_of, sum_over_steps

WITHOUT_FEATURES = "the states are finite and no features are given"


@dataclass(frozen=True)
class SupportElimination(TakesEpisodes, EliminationPlayer):
    """An optimistic reward learner (UCBVI) that only takes actions which can still be safe; it needs no multiplier.

    On every path, whatever the constants: each reset removes at least one unsafe pair for good, so resets never exceed
    the number of unsafe pairs (s, a) (of triples (h, s, a) where dynamics, contexts or ends of episodes differ, or data
    are not pooled), for every K. Proof: an episode that is reset took, at its first step out of W or at its last, an
    allowed action whose observed successor is now known to be bad; that pair is truly unsafe, and is not allowed again.
    Plans are inside the allowed actions at every step that moves. The last action of the literal boundary leads
    nowhere, so all are free there: none can be reset, and pi* may take one that is unsafe at every other step.

    Large problems: the sets follow the news of each episode (new edges, a new reset state, and the predecessors of what
    turned bad), and the plan goes only where the episode can be (`large_problems`): both equal those of passes over
    everything, so both guarantees are kept. Planning only when some pair was tried twice as often would keep them
    too, since the sets do not wait for a plan, but it saves nothing here: as long as there is much to see, every
    episode tries some pair for the first time, and afterwards a plan costs less than the episode.

    width: of the reward bonus. "tuned": the smaller of scale rest / sqrt(n) and its variance-aware form, rest = H-h.
      "theory": rest sqrt(L / 2n) + noise sqrt(2 L / n) with L = log(m S A H K / p) (pooled: H K samples per pair, so K
      becomes H K), optimistic for pi* with probability 1 - p: pi* is among the allowed actions, and only its value must
      concentrate (m = 1), and the mean of the rewards where these are random (m = 2).
    noise: see `ucbvi`; with width "theory" it is never less than what the problem declares for its rewards.
    objective: "episode", the paper's: what an episode earns; or "long-run", which `auto` takes: also what all that
      follow can earn. Which of the allowed actions is taken plays no part in the proof above, so the bound
      on resets is the same; the regret bound of width "theory" is about episodes, and is not claimed for the other.
    pooled: one set of counts for all steps where the dynamics are stationary; None for "where that is so".
    ties: see `ucbvi`: among untried actions, which is risked first.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "support-elimination", episodes=2000)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "support-elimination"
    suited_states = ("counted", "changing")

    # Planning is for the episode: where goals lead elsewhere, plans beyond it were seen to stop finding them.
    suits = always(Suited(1, f"{WITHOUT_FEATURES}: {SAFE_FOR_GOOD}, and no bound on multipliers is needed", NO_PENALTY))

    batched_form = written_in("elimination.batched:support_form")

    @staticmethod
    def methods() -> list[Method]:
        """With a tuned and with the proved width of the reward bonus; it needs no multiplier."""
        tuned = penalised(lambda s: SupportElimination(**s.own), 0.0)
        proved = penalised(lambda s: SupportElimination(width="theory", pooled=s.pooled), 0.0)
        text = "What was seen to lead to a reset is never done again; tuned reward bonus."
        same, name = "The same with the reward bonus of its regret bound.", "support elimination, proved width"
        return [
            Method("support elimination", "ours", text, tuned, rank=31, guaranteed=True),
            Method(name, "ours", same, proved, rank=31, widths=(), guaranteed=True),
        ]

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound | None:
        """Regret <= D with probability 1 - p - delta, by sums over visits; only with the width of its proof.

        V* <= V^k, as pi* is among the allowed actions, and V^k - V^{pi^k} is the expected sum of what a step adds: the
        bonus, and how far Phat V^k is from P V^k. V^k depends on the data, so that is for all sets of next states at
        once, with delta/2; delta/2 is for the sums (`theory.visit_sums`). R_p is Regret and lam times Resets.
        """
        assert problem.n_states is not None
        pairs, M = problem.n_states * problem.n_actions, log_corners(problem.n_states)
        alike = CellKinds([np.empty(0)], np.array([pairs]), M + log(pairs))
        return self._bound(problem, episodes, rounds, [alike] * problem.horizon)

    def regret_with_model(self, mdp: FiniteMDP, problem: Problem, episodes: int, rounds: int) -> float:
        """The same with what the model says of each pair: sets of outcomes that are possible, and their probability."""
        steps = range(1, mdp.horizon + 1)
        cells = [cells_of(mdp, 1)] * mdp.horizon if mdp.stationary else [cells_of(mdp, h) for h in steps]
        found = self._bound(problem, episodes, rounds, cells)
        assert found is not None
        assert found.regret is not None
        return found.regret

    def _bound(self, problem: Problem, episodes: int, rounds: int, cells: list[CellKinds]) -> PrimalRegretBound | None:
        if self.width != "theory" or self.objective != "episode":
            return None
        pooled = problem.stationary if self.pooled is None else self.pooled
        L, noise = self._log_term(problem, episodes, pooled), noise_of(problem, self.noise, self.width)
        layers = cells[:1] if pooled else cells
        log_term = max(one.log_sets for one in layers) + log(len(layers) / (DELTA / 2))
        extra = None if noise == 0 else lambda n: 2 * noise * sqrt(2 * L / n)  # of the mean, and of the bonus
        distance = bonus_distance(log_term, L)
        sums = sum_over_steps(cells, distance, pooled=pooled, rounds=rounds, noise=extra, delta=DELTA / 2)
        D = sums + rounds * problem.horizon * TIE  # of equally good actions it takes any
        above = self.p / 2 if noise > 0 else 0.0  # that mean rewards are above their width; p has the other side
        return PrimalRegretBound(D, regret=D, pays_resets=True, chance=DELTA + above)

    def _claim(self) -> tuple[bool, str]:
        """Optimism is proved with the proved width only, and for the paper's comparator, which has one episode."""
        if self.width != "theory":
            return super()._claim()
        if self.objective != "episode":
            return False, "its optimism is about the long run, and nothing is claimed about Regret"
        return True, "optimistic with probability 1 - p"


# --------------------------------------------------------------------------------------------------------------------

DOUBT = 0.05  # a pair is no longer suspected if a pair like the twins that fell would have survived so with this chance
PATIENCE = 2  # a test waits 2 to the power of this times 1 + m
WHOLE = 0.7  # places are fatal as a whole if the estimated share of actions that fall where another one fell is larger
OWN = 4  # steps of a pair after which only its own successors count


class TwinEdges(NamedTuple):
    """Which place follows a pair of place and action at some step, in some task."""

    pair: Ints  # [E]
    place: Ints  # [E]


def twin_edges(data: CountState, n_places: int) -> TwinEdges:
    """All that were seen, each once."""
    layer, state, action, j = np.nonzero(data.seen)
    after = data.successor[layer, state, action, j] % n_places
    code = (state % n_places * data.tried.shape[2] + action) * n_places + after
    return TwinEdges(*np.divmod(np.unique(code), n_places))


class Falls(NamedTuple):
    """What was seen of falls: of each row of counts, and of pairs of place and action at all steps, in all tasks."""

    counted: Ints  # [L, S, A]
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
class SharedElimination(NeedsNoPenalty, TakesEpisodes, EliminationPlayer):
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
    suited_states = ("changing",)

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
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features, whose steps or tasks differ."""
        twins = "steps" if problem.n_contexts == 1 else "tasks"
        held = f"what fell is held back at other {twins} until a test refutes it"
        return Suited(1.5, f"{WITHOUT_FEATURES}: {SAFE_FOR_GOOD}, and {held}", NO_PENALTY, {"objective": "long-run"})
