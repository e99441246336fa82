"""Players that eliminate: an action that was seen to lead to an unavoidable reset is never taken again.

Read first: `support_elimination`, the rule for single pairs, with a bound on resets that holds on every path, and its
form that also holds back what fell at another step or task. `rule_elimination` generalises over states: `rule_class`,
`landings` and `danger_beliefs` are its beliefs, the last with their form for large problems. What the family shares
is here: which actions can still be safe, plans beyond the episode, and the common base with settings and statement.

Legend: W the states that can still be safe; an edge (s, a, s') is observed or not; bad states are those whose entering
was a reset; one layer of the allowed actions for all steps (a life without end: greatest fixpoint), or one per step of
an episode.

**Beyond the episode.** W(s) the optimistic value of what follows an episode that ends in s, T the plan of one episode
on the counts (`count_players.composite_plan`) with W behind it, gamma = 1 - 1 / EPISODES the discount between two
episodes. W decides which of the allowed actions is taken, and no more: the sets follow from edges and reset states that
were seen, so each reset still removes an unsafe pair, and the bound on resets is untouched:

Let A be the sets of allowed actions when an episode begins, and
let Assumption 1 hold.
  Proof. (1) A is computed from the edges and reset states that were seen, and from nothing else: neither W nor the
  objective enters. (2) Every plan takes allowed actions only, wherever there is one and the step moves: Q is maximised
  over them, whatever W is (`composite_step`). (3) What is truly safe is in A on every path, since the observed edges
  are a part of the true ones; so from a start with a safe action there is an allowed one. (4) An episode that is reset
  took, at its first step out of the states that can still be safe, or at its last, an allowed action with an observed
  successor that is now known to be bad: that pair is truly unsafe, was in A, and is not allowed again. So each reset
  removes one unsafe pair from A for good, and no path has more resets than there are unsafe pairs; the same for
  triples.  []
The bound by rules holds too: tests wait as long as before, and an episode that tries again what survived tries nothing
that is held back. With `width="theory"` the regret bound is that of `objective="episode"` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from resetfree.core import Bools, Floats, Ints, NonNegative, Probability, jit, require, within
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement
from resetfree.players import check_episodes
from resetfree.players.tabular.count_players import (
    BERNSTEIN,
    HOEFFDING,
    NOTHING_AHEAD,
    Ahead,
    Bonus,
    CountState,
    Ties,
    begin,
    multiplier,
    noise_of,
)
from resetfree.players.tabular.counts import Counts, union_bound
from resetfree.players.tabular.large_problems import Bad, LargeCounts
from resetfree.players.tabular.sparse_counts import STATES
from resetfree.problems import Problem, State

Objective: TypeAlias = Literal["episode", "long-run"]
SAFE_FOR_GOOD = "what was seen to lead to a reset is never done again, so resets are bounded on every path"
EPISODES = 100.0  # how many are looked ahead, on average
GAMMA = 1.0 - 1.0 / EPISODES
QUIET = 64  # episodes without news after which what was tried once is tried again
CONTENT = 0.1  # share of the most that can be earned that no unknown place is sought for
SPAN = 1e-6  # of what changed, per step: then W differs from the fixed point by a constant


@dataclass
class LongRun:
    """W, which follows the fixed point W = gamma T(W), one pass for each episode as long as it moves."""

    after: Floats  # [S] W
    counted: Ints  # [L, S, A] how often pairs were tried when W was last due
    n_allowed: int  # how many actions were allowed then
    moving: bool
    quiet: int  # episodes in a row that tried no pair for the first time, and were not reset
    links: Ints  # [m, m] how often a context followed another
    most: float = field(metadata={"saved": False})

    @classmethod
    def nothing(cls, problem: Problem, data: CountState) -> LongRun:
        """No data yet: what an unknown place promises may follow everywhere."""
        most, m = GAMMA * problem.horizon / (1.0 - GAMMA), problem.n_contexts
        return cls(
            after=np.full(data.tried.shape[1], (1.0 - CONTENT) * most),
            counted=np.zeros_like(data.tried),
            n_allowed=0,
            moving=False,
            quiet=0,
            links=np.zeros((m, m), dtype=np.int64),
            most=most,
        )

    def learn(self, data: CountState, allowed: Bools, bonus: Bonus, ahead: Ahead, round: Round) -> None:
        """After the counts have learned the round and the sets have followed: one pass, if there is news.

        There is when a pair was tried twice as often as before, or the allowed actions are others.
        """
        episode = round.episode
        n = len(episode.actions)
        self._link(round)
        layer = np.arange(n) if len(data.tried) > 1 else np.zeros(n, dtype=np.int64)
        pairs = (layer, episode.states[:n], episode.actions)
        again = self.again
        self.quiet = 0 if episode.reset or (self.counted[pairs] == 0).any() else self.quiet + 1
        n_allowed = int(np.count_nonzero(allowed))
        if n_allowed != self.n_allowed or again != self.again or (data.tried[pairs] >= 2 * self.counted[pairs]).any():
            self.n_allowed, self.moving = n_allowed, True
            self.counted[:] = data.tried
        if not self.moving:
            return
        _, v, _, _ = data.values(bonus, allowed, ahead=ahead)
        now = GAMMA * self._following(v)
        here = data.tried.any(axis=(0, 2)) & ~(data.known | data.known_last)
        change = now[here] - self.after[here]
        self.moving = bool(len(change)) and float(np.ptp(change)) > SPAN * data.horizon
        self.after = now

    @property
    def again(self) -> int:
        """How many tries say nothing yet: more after each time that was four times as quiet as the one before."""
        return int(np.log2(self.quiet / QUIET) / 2.0) + 1 if self.quiet >= QUIET else 0

    def _link(self, round: Round) -> None:
        """Count which context followed."""
        if len(self.links) > 1 and not round.episode.reset and round.episode.next_start is not None:
            n = len(self.after) // len(self.links)
            self.links[int(round.episode.states[-1]) // n, int(round.episode.next_start) // n] += 1

    def _following(self, v: Floats) -> Floats:
        """[S] the value of the next episode after one that ends in each state: contexts follow as often as they did."""
        m = len(self.links)
        if m == 1:
            return v
        times = self.links.sum(axis=1, keepdims=True)
        by_context = v.reshape(m, -1)
        mean = self.links @ by_context / np.maximum(times, 1)
        return np.asarray(np.where(times > 0, mean, by_context.max(axis=0))).ravel()


# --------------------------------------------------------------------------------------------------------------------


def no_sets(
    data: CountState | LargeCounts, problem: Problem, endless: bool
) -> EliminationState | LargeEliminationState:
    """No data yet: every action can be safe."""
    n_sets = 1 if endless else problem.horizon
    if isinstance(data, LargeCounts):
        return LargeEliminationState(data, Bad.nothing(n_sets, endless))
    return EliminationState(data, np.ones((n_sets, *data.tried.shape[1:]), dtype=np.bool_), endless)


def is_endless(problem: Problem, pooled: bool | None) -> bool:
    """Whether safety may mean a life without end: nothing changes with the step, the context or at the end."""
    pooled = problem.stationary if pooled is None else pooled
    return pooled and problem.n_contexts == 1 and not problem.end_resets


def doubled(times: int) -> int:
    """How many episodes a test waits that was put off so many times.

    Beyond 2^62 it is all the same: no run lasts so long, and a number in a file can be any.

    >>> doubled(3), doubled(2**62) == doubled(62)
    (8, True)
    """
    return 1 << min(times, 62)


@dataclass
class EliminationState:
    """Counts, and which actions they leave possible."""

    data: CountState
    allowed: Bools  # [1 or H, S, A]: one for a life without end, or one per step of an episode
    endless: bool = field(metadata={"saved": False})  # not visible from the number of layers if H = 1
    long_run: tuple[LongRun, ...] = field(default=(), kw_only=True)  # one, if plans look beyond the episode

    @property
    def ahead(self) -> Ahead:
        """What plans count of all that follows the episode."""
        if not self.long_run:
            return NOTHING_AHEAD
        (one,) = self.long_run
        return Ahead(one.after, one.most, self.toll(), one.again)

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside the allowed actions."""
        return self.data.plan(s1, bonus, self.allowed, ahead=self.ahead)

    def within(self) -> Bools:
        """The actions inside which plans usually are: all that are allowed."""
        return self.allowed

    def toll(self) -> Floats:
        """[L, S, A] what it costs to try a pair for the first time, or [0, 0, 0]: nothing."""
        return np.full(self.data.tried.shape, CONTENT * self.long_run[0].most)

    def learn(self, round: Round) -> bool:
        """Count the round; the sets change only with a new edge or a new reset state: returns whether there was one."""
        before = self._news(round)
        self.data.learn(round)
        if self._news(round) == before:
            return False
        if self.endless:
            endless_sets(self.data.counts, self.allowed)
        else:
            episode_sets(self.data.counts, self.data.n_transitions, self.allowed)
        return True

    def _news(self, round: Round) -> tuple[int, bool, bool]:
        """What an episode can change about safety: edges of the pairs it took, and whether its last state is known."""
        data, episode = self.data, round.episode
        n, last = len(episode.actions), episode.states[-1]
        layer = np.arange(n) if len(data.tried) > 1 else 0
        edges = int(np.count_nonzero(data.seen[layer, episode.states[:n], episode.actions]))
        return edges, bool(data.known[last]), bool(data.known_last[last])


@dataclass
class LargeEliminationState:
    """The same for a large problem: what was seen, and from where a reset can no longer be avoided."""

    data: LargeCounts
    sets: Bad

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """See `EliminationState`."""
        return self.data.plan(s1, bonus, self.sets.bad, self.sets.endless)

    def learn(self, round: Round) -> None:
        """Count the round, and follow its news."""
        self.data.learn(round)
        self.sets.learn(self.data.seen, round)

    def check_loaded(self) -> None:
        """The sets are about the states that were seen."""
        n = int(self.data.seen.size[STATES])
        require(n <= len(self.sets.head), "sets must have all states that were seen")
        require(within(self.sets.before[: self.sets.n_edges], 0, n), "predecessors must be states that were seen")


@jit
def _stays(c: Counts, layer: int, s: int, a: int, good: Bools) -> bool:
    for j in range(c.seen.shape[3]):
        if c.seen[layer, s, a, j] == 0:
            return True
        if not good[c.successor[layer, s, a, j]]:
            return False
    return True


@jit
def endless_sets(c: Counts, allowed: Bools) -> None:
    """Greatest fixpoint: s is inside iff it is not bad and some action has all its observed successors inside."""
    n_states, n_actions = allowed.shape[1:]
    good = np.empty(n_states, dtype=np.bool_)
    for s in range(n_states):
        good[s] = not (c.known[s] or c.known_last[s])
    changed = True
    while changed:
        changed = False
        for s in range(n_states):
            if good[s]:
                some = False
                for a in range(n_actions):
                    allowed[0, s, a] = _stays(c, 0, s, a, good)
                    some = some or allowed[0, s, a]
                if not some:
                    good[s] = False
                    changed = True
    for s in range(n_states):
        if not good[s]:
            allowed[0, s] = False


@jit
def episode_sets(c: Counts, n_transitions: int, allowed: Bools) -> None:
    """The sets of each step of an episode: successors at the end must not be bad there, before that be inside."""
    horizon, n_states, n_actions = allowed.shape
    good, after = np.empty(n_states, dtype=np.bool_), np.empty(n_states, dtype=np.bool_)
    for s in range(n_states):
        after[s] = not c.known_last[s]
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        for s in range(n_states):
            some = False
            for a in range(n_actions):
                allowed[h, s, a] = h >= n_transitions or _stays(c, layer, s, a, after)
                some = some or allowed[h, s, a]
            good[s] = some and not c.known[s]
            if not good[s]:
                allowed[h, s] = False
        if h < n_transitions:
            after[:] = good


@dataclass(frozen=True)
class EliminationPlayer(PrimalPlayer[EliminationState | LargeEliminationState]):
    """Optimism about rewards inside the actions that its state allows.  Settings: see `support-elimination`."""

    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    width: Literal["tuned", "theory"] = "tuned"
    pooled: bool | None = None
    ties: Ties = "learned"
    noise: NonNegative = 0.0
    p: Probability = 0.05
    objective: Objective = "episode"

    def init(self, problem: Problem, episodes: int, seed: int) -> EliminationState | LargeEliminationState:
        """No data yet: every action can be safe."""
        check_episodes(episodes, self.name)
        pooled = problem.stationary if self.pooled is None else self.pooled
        log_term, noise = self._log_term(problem, episodes, pooled), noise_of(problem, self.noise, self.width)
        data = begin(
            LargeCounts.nothing, problem, self.name, pooled, self.ties, log_term=log_term, noise=noise, seed=seed
        )
        state = no_sets(data, problem, is_endless(problem, self.pooled))
        if self.objective == "long-run" and isinstance(state, EliminationState):
            state.long_run = (LongRun.nothing(problem, state.data),)
        return state

    def plan(self, state: EliminationState | LargeEliminationState, s1: State, lam: float) -> Plan:
        """The optimistic plan inside the allowed actions, whose estimated cost is zero under any multiplier."""
        multiplier(state.data, lam, False)
        plan = state.plan(s1, self._bonus(state.data))
        return plan if self.objective == "episode" else plan._replace(upper=float("nan"))

    def update(
        self, state: EliminationState | LargeEliminationState, round: Round
    ) -> EliminationState | LargeEliminationState:
        """Count the steps; after a new edge or a new reset state compute again which actions can be safe."""
        state.learn(round)
        if isinstance(state, EliminationState):
            for one in state.long_run:
                one.learn(state.data, state.within(), self._bonus(state.data), state.ahead, round)
        return state

    def _bonus(self, data: CountState | LargeCounts) -> Bonus:
        return Bonus(self.form, data.log_term, data.noise, 0.0, 0.0)

    def proof(self, problem: Problem) -> Proof:
        """Of its optimism: rewards no noisier than the width counts on."""
        return Proof(failure=self.p, noise=noise_of(problem, self.noise, self.width))

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return not is_endless(problem, self.pooled)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; nothing is claimed about regret."""
        endless, pairs = is_endless(problem, self.pooled), (problem.n_states or 0) * problem.n_actions
        most = float(pairs * (1 if endless else problem.horizon))
        eliminates, what = ("(s, a)", "pair") if endless else ("(h, s, a)", "triple")
        constants: dict[str, float | str | bool] = {"scale": self.scale, "width": self.width, "p": self.p}
        constants |= {"eliminates": eliminates, "noise": noise_of(problem, self.noise, self.width)}
        path = f"on every path at most one reset for each unsafe {what} {eliminates}, where Assumption 1 holds"
        covered, regret = self._claim()
        return Statement(constants, covered, f"{path}; {regret}", most)

    def _claim(self) -> tuple[bool, str]:
        """Whether a theorem covers its regret, and the words for it."""
        return False, "its regret is tuned"

    @property
    def form(self) -> int:
        """Of the reward bonus."""
        return BERNSTEIN if self.width == "tuned" else HOEFFDING

    def _log_term(self, problem: Problem, episodes: int, pooled: bool) -> float:
        """L, the logarithm in the widths."""
        if self.width == "tuned":
            return 2.0 * self.scale**2
        m = 2 if noise_of(problem, self.noise, self.width) > 0 else 1
        return union_bound(problem, episodes, pooled, m, self.p)
