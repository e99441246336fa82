"""Support elimination, a learned shield: what was seen to lead where a reset cannot be avoided is never done again.

Legend: W the states that can still be safe given the observed edges and reset states; allowed the actions whose
observed successors all lie in W. The true safe sets lie inside the learned ones on every path: nothing safe is lost.

Legend of the compiled code: an edge (s, a, s') is observed or not; bad states are those whose entering was a reset; one
layer of the allowed actions for all steps (a life without end: greatest fixpoint), or one per step of an episode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

import numpy as np

from resetfree.core.compiled import jit
from resetfree.core.settings import NonNegative, Probability
from resetfree.core.state import require, within
from resetfree.game.capabilities import Partner, Proof, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.shared.batched.form import BatchedForm
from resetfree.players.shared.count_players import CountState, Ties, multiplier, noise_of, union_bound
from resetfree.players.shared.given_episodes import TakesEpisodes
from resetfree.players.shared.kernels.action_values import Counts
from resetfree.players.shared.kernels.count_planning import BERNSTEIN, HOEFFDING, Bonus
from resetfree.players.shared.kernels.visited import STATES
from resetfree.players.shared.large_problems import Bad, LargeCounts, begin
from resetfree.players.shared.method import Method, penalised
from resetfree.players.shared.requirements import check_episodes
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.transitions import Bools


@dataclass
class EliminationState:
    """Counts, and which actions they leave possible."""

    data: CountState
    allowed: Bools  # [1 or H, S, A]: one for a life without end, or one per step of an episode
    endless: bool = field(metadata={"saved": False})  # not visible from the number of layers if H = 1

    def plan(self, s1: State, bonus: Bonus) -> Plan:
        """The optimistic plan inside the allowed actions."""
        return self.data.plan(s1, bonus, self.allowed)

    def learn(self, round: Round) -> None:
        """Count the round; the sets change only with a new edge or a new reset state."""
        before = self._news(round)
        self.data.learn(round)
        if self._news(round) == before:
            return
        if self.endless:
            endless_sets(self.data.counts, self.allowed)
        else:
            episode_sets(self.data.counts, self.data.n_transitions, self.allowed)

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


@dataclass(frozen=True)
class SupportElimination(TakesEpisodes, PrimalPlayer[EliminationState | LargeEliminationState]):
    """An optimistic reward learner (UCBVI) that only takes actions which can still be safe; it needs no multiplier.

    On every path, whatever the constants: each reset removes at least one unsafe pair for good, so resets never exceed
    the number of unsafe pairs (s, a) (of triples (h, s, a) where dynamics, contexts or ends of episodes differ, or data
    are not pooled), for every K. Proof: an episode that is reset took, at its first step out of W or at its last, an
    allowed action whose observed successor is now known to be bad; that pair is truly unsafe, and is not allowed again.

    Large problems: the sets follow the news of each episode (new edges, a new reset state, and the predecessors of what
    turned bad), and the plan goes only where the episode can be (`lazy_plans`): both equal those of passes over
    everything, so both guarantees are kept. Planning only when some pair was tried twice as often would keep them
    too, since the sets do not wait for a plan, but it saves nothing here: as long as there is much to see, every
    episode tries some pair for the first time, and afterwards a plan costs less than the episode.

    width: of the reward bonus. "tuned": the smaller of scale rest / sqrt(n) and its variance-aware form, rest = H-h.
      "theory": rest sqrt(L / 2n) + noise sqrt(2 L / n) with L = log(m S A H K / p) (pooled: H K samples per pair, so K
      becomes H K), optimistic for pi* with probability 1 - p: pi* is among the allowed actions, and only its value must
      concentrate (m = 1), and the mean of the rewards where these are random (m = 2).
    noise: see `ucbvi`; with width "theory" it is never less than what the problem declares for its rewards.
    pooled: one set of counts for all steps where the dynamics are stationary; None for "where that is so".
    ties: see `ucbvi`: among untried actions, which is risked first.

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "support-elimination", episodes=2000)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "support-elimination"
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    width: Literal["tuned", "theory"] = "tuned"
    pooled: bool | None = None
    ties: Ties = "learned"
    noise: NonNegative = 0.0
    p: Probability = 0.05

    def init(self, problem: Problem, episodes: int, seed: int) -> EliminationState | LargeEliminationState:
        """No data yet: every action can be safe."""
        check_episodes(episodes, self.name)
        pooled = problem.stationary if self.pooled is None else self.pooled
        log_term, noise = self._log_term(problem, episodes, pooled), noise_of(problem, self.noise, self.width)
        data = begin(problem, self.name, pooled, self.ties, log_term, noise=noise, seed=seed)
        endless = self._endless(problem)
        n_sets = 1 if endless else problem.horizon
        if isinstance(data, LargeCounts):
            return LargeEliminationState(data, Bad.nothing(n_sets, endless))
        return EliminationState(data, np.ones((n_sets, *data.tried.shape[1:]), dtype=np.bool_), endless)

    def plan(self, state: EliminationState | LargeEliminationState, s1: State, lam: float) -> Plan:
        """The optimistic plan inside the allowed actions, whose estimated cost is zero under any multiplier."""
        multiplier(state.data, lam, False)
        form = BERNSTEIN if self.width == "tuned" else HOEFFDING
        return state.plan(s1, Bonus(form, state.data.log_term, state.data.noise, 0.0, 0.0))

    def update(
        self, state: EliminationState | LargeEliminationState, round: Round
    ) -> EliminationState | LargeEliminationState:
        """Count the steps; after a new edge or a new reset state compute again which actions can be safe."""
        state.learn(round)
        return state

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Finitely many states without features: nothing else bounds resets on every path."""
        if problem.actions.n is None or problem.n_states is None or problem.phi is not None:
            return None
        why = (
            "the states are finite and no features are given: what was seen to lead to a reset is never done again, so "
            "resets are bounded on every path, and no bound on multipliers is needed"
        )
        return Suited(1, why, Partner("constant-penalty", "realised", {"C": 0.0}))

    def proof(self, problem: Problem) -> Proof:
        """Of its optimism: rewards no noisier than the width counts on."""
        return Proof(failure=self.p, noise=noise_of(problem, self.noise, self.width))

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return not self._endless(problem)

    def batched_form(self, problem: Problem, episodes: int) -> BatchedForm:
        """The same counts and sets in every row."""
        from resetfree.players.shared.batched.batched_optimistic import Optimistic, learned_ties

        ties, fresh = learned_ties(self.name, self.ties), cast(EliminationState, self.init(problem, episodes, 0))
        form, data = BERNSTEIN if self.width == "tuned" else HOEFFDING, fresh.data
        noisy, layers = data.noise > 0, len(fresh.allowed)
        program = Optimistic(len(data.tried), form, ties, noisy, allowed_layers=layers, endless=fresh.endless)
        return BatchedForm(program, {"log_term": data.log_term, "noise": data.noise, "cost_part": 0.0})

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

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; optimism only with the proved width."""
        endless, pairs = self._endless(problem), (problem.n_states or 0) * problem.n_actions
        most = float(pairs * (1 if endless else problem.horizon))
        eliminates, what = ("(s, a)", "pair") if endless else ("(h, s, a)", "triple")
        noise = noise_of(problem, self.noise, self.width)
        constants: dict[str, float | str | bool] = {"scale": self.scale, "width": self.width, "p": self.p}
        constants |= {"eliminates": eliminates, "noise": noise}
        path = f"on every path at most one reset for each unsafe {what} {eliminates}, where Assumption 1 holds"
        if self.width == "theory":
            return Statement(constants, True, f"{path}; optimistic with probability 1 - p", most)
        return Statement(constants, False, f"{path}; its regret is tuned", most)

    def _endless(self, problem: Problem) -> bool:
        """Whether safety may mean a life without end: nothing changes with the step, the context or at the end."""
        pooled = problem.stationary if self.pooled is None else self.pooled
        return pooled and problem.n_contexts == 1 and not problem.end_resets

    def _log_term(self, problem: Problem, episodes: int, pooled: bool) -> float:
        """L, the logarithm in the widths."""
        if self.width == "tuned":
            return 2.0 * self.scale**2
        m = 2 if noise_of(problem, self.noise, self.width) > 0 else 1
        return union_bound(problem, episodes, pooled, m, self.p)


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
