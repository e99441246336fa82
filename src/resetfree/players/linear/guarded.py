"""Linear players inside what elimination allows: `guarded-linear` and `algorithm1-safe`.

**`GuardedLinear`.**
Legend: phi features of pairs [S, A, d]; danger of a pair: the chance that it is reset, which is linear in phi where
dynamics are, at every step; Lam = reg I + sum phi phi^T over the steps taken, whatever their place in an episode;
lam the charge for a reset.

**`Algorithm1Safe`.**
Legend: as in `theory.proved_widths` and `support_elimination`: W the states that can still be safe given what was seen,
U the number of unsafe pairs; V_r^k, V_c^k the player's values; lam the multiplier of this episode.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log
from typing import Annotated, Any, ClassVar

import numpy as np

from resetfree.core import Bools, Floats, InvalidInput, NotCertifiable, Positive, Probability, Range
from resetfree.game.capabilities import Partner, PrimalRegretBound, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement, check_multiplier
from resetfree.players import (
    NeedsNoPenalty,
    TakesEpisodes,
    check_episodes,
    covered_unless,
    features_words,
    finite_states,
    make_player,
    sizes,
)
from resetfree.players.elimination import (
    EliminationState,
    LargeEliminationState,
    endless_sets,
    episode_sets,
    is_endless,
)
from resetfree.players.linear.intervals import Intervals, IntervalState, no_intervals
from resetfree.players.linear.pair_values import Widths
from resetfree.players.linear.regression import Samples, add, no_samples
from resetfree.players.linear.ridge import plan_among
from resetfree.players.tabular.count_players import whole_size
from resetfree.players.tabular.sparse_counts import SMALL
from resetfree.problems import FiniteMDP, Problem, State
from resetfree.theory.widths import softmax_alpha

RIDGE = 0.01
WIDTH = 0.1  # of the lower bound on danger
RISK = 0.02  # a pair with a larger lower bound is held back


@dataclass
class GuardedState:
    """The regression of values, what elimination allows, and the regression of danger, one for all steps."""

    data: Samples
    sets: EliminationState
    precision: Floats  # [d, d] Lam
    fell: Floats  # [d] sum of phi over the steps that were reset
    phi: Floats = field(metadata={"saved": False})  # [S, A, d]

    def dangerous(self) -> Bools:
        """[S, A] pairs whose danger is above RISK even by its lower bound."""
        inverse = np.linalg.inv(self.precision)
        width = np.sqrt(np.maximum(((self.phi @ inverse) * self.phi).sum(axis=2), 0.0))
        return np.asarray(self.phi @ (inverse @ self.fell) - WIDTH * width > RISK)

    def may(self) -> Bools:
        """[1 or H, S, A] what is allowed and not dangerous; where nothing is, what is allowed."""
        allowed = self.sets.allowed
        if not self.fell.any():
            return allowed
        fine = allowed & ~self.dangerous()
        return np.asarray(np.where(fine.any(axis=2, keepdims=True), fine, allowed))


@dataclass(frozen=True)
class GuardedLinear(TakesEpisodes, PrimalPlayer[GuardedState]):
    """Greedy least squares inside what elimination allows and features do not call dangerous.

    Greedy LSVI-UCB that plans only with actions which can still be safe and do not look dangerous.

    Danger is learned once for all steps, by ridge regression of resets on features: few resets, of the order of d, show
    where it lies, where each step's own regression needs as many at every step. What elimination has ruled out is
    never played either, so on every path resets never exceed the number of unsafe pairs (s, a), or triples (h, s, a)
    where steps differ: which of the allowed actions is taken plays no part in that proof.

    Q = clip(w.phi + scale H width, -lam, H-h+1) with w the regression of r + V(s'), and V = -lam after a reset; ties go
    to the action of largest width, which was tried least.

    Where danger is not linear in the features, something safe may be held back for good; the bound holds all the same.

    scale: of the bonus; the ridge is its square, so that the bonus of an untried pair just reaches H.
    pooled: one regression of values for all steps, and one set of counts; only for stationary problems.

    >>> import resetfree as rf
    >>> run = rf.learn("drifting-v0", "guarded-linear", episodes=300)
    >>> int(run.realised_resets[-1]) <= 6
    True
    """

    name: ClassVar[str] = "guarded-linear"
    suited_states = ("features",)
    prediction: ClassVar[Prediction] = "none"
    scale: Positive = 0.05
    pooled: bool = False

    @cached_property
    def elimination(self) -> Any:
        """The player whose sets guard the plans."""
        return make_player("primal", "support-elimination", {"pooled": self.pooled})

    def init(self, problem: Problem, episodes: int, seed: int) -> GuardedState:
        """No data yet; without features of pairs only elimination guards. Refuses what is too large for tables."""
        sizes(problem, self.pooled, self.name)
        sets = self.elimination.init(problem, episodes, seed)
        if isinstance(sets, LargeEliminationState):
            raise InvalidInput(
                f"The player '{self.name}' needs a problem that is small enough for tables of all pairs. Got "
                f"'{problem.name}' with {problem.n_states} states instead: play linear-ucb or support-elimination."
            )
        shape = (len(sets.data.known), problem.n_actions, 0)
        phi = np.zeros(shape) if problem.phi is None else np.asarray(problem.phi, dtype=np.float64)
        d = phi.shape[2]
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.scale**2)
        return GuardedState(data, sets, RIDGE * np.eye(d), np.zeros(d), phi)

    def plan(self, state: GuardedState, s1: State, lam: float) -> Plan:
        """One backward pass inside what may be played; its value holds no promise, and v_c = 0 neither."""
        lam, data = check_multiplier(lam), state.data
        horizon, n_states, _ = data.shape
        policy, v = np.empty((horizon, n_states), dtype=np.int16), np.empty(n_states)
        plan_among(*data.fitted, self.scale * horizon, lam, data.known, data.known_last, state.may(), policy, v)
        return Plan(policy, min(max(float(v[s1]), 0.0), float(horizon)), 0.0)

    def update(self, state: GuardedState, round: Round) -> GuardedState:
        """All three learn from the episode."""
        episode = round.episode
        add(state.data, episode)
        state.sets.learn(round)
        n = min(len(episode.actions), len(episode.states) - 1)
        if n:
            seen = state.phi[episode.states[:n], episode.actions[:n]]
            state.precision += seen.T @ seen
            state.fell += seen[-1] * bool(episode.reset)
        return state

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Given features of pairs and a bound B, on problems that are small enough for tables."""
        if problem.n_states is None or problem.phi is None or not bound_known:
            return None
        rows = (1 if problem.stationary else problem.horizon, problem.n_states, problem.n_actions)
        if whole_size(problem, rows) > SMALL:
            return None
        why = (
            f"{features_words(problem.phi.shape[2], problem.stationary)}; a reset is charged B, danger is "
            "learned once for all steps, and what was seen to lead to a reset is never done again"
        )
        partner = Partner("constant-penalty", "realised", {"factor": 1.0})
        return Suited(2.5, why, partner, {"pooled": problem.stationary})

    @classmethod
    def named(cls, problem: Problem) -> Suited | None:
        """As `auto` plays it."""
        return cls.suits(problem, bound_known=True)

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return bool(self.elimination.keeps_steps_apart(problem))

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The bound on resets holds with any constants; nothing is claimed about regret."""
        guard = self.elimination.statement(problem, episodes)
        constants: dict[str, Any] = {"scale": self.scale, "reg": self.scale**2, "pooled": self.pooled}
        constants |= {"eliminates": guard.constants["eliminates"]}
        return Statement(constants, False, guard.why, guard.most_resets)


@dataclass
class SafeIntervalState(IntervalState):
    """The counts of all cells, and which actions they leave possible."""

    allowed: Bools  # [1 or H, S, A]: one for a life without end, or one per step of an episode
    endless: bool = field(metadata={"saved": False})  # not visible from the number of layers if H = 1

    @property
    def among(self) -> Bools:
        """The actions that can still be safe."""
        return self.allowed

    def learn(self, round: Round) -> None:
        """Count the steps of an episode, and compute again which actions can be safe."""
        before = self._known(round)
        self.absorb(round.episode)
        if self._known(round) == before:
            return
        if self.endless:
            endless_sets(self.counts, self.allowed)
        else:
            episode_sets(self.counts, self.n_transitions, self.allowed)

    def _known(self, round: Round) -> tuple[int, bool, bool]:
        """What an episode can change about safety: edges of the pairs it took, and whether its last state is known."""
        episode = round.episode
        n, last = len(episode.actions), episode.states[-1]
        layer = np.arange(n) if len(self.tried) > 1 else 0
        edges = int(np.count_nonzero(self.seen[layer, episode.states[:n], episode.actions]))
        return edges, bool(self.known[last]), bool(self.known_last[last])


@dataclass(frozen=True)
class Algorithm1Safe(NeedsNoPenalty, TakesEpisodes, PrimalPlayer[SafeIntervalState]):
    """Algorithm 1 with elimination inside: its softmax chooses among the actions that can still be safe.

    The primal player of Algorithm 1 with proved widths, whose softmax is over the actions that can still be safe.

    Both theorems hold, for every dual player: the paper's rate and the bound of elimination on every path.
    1. On every path resets are at most the unsafe pairs, U, at any K: what was seen to lead where a reset cannot be
       avoided is not done again (`theory.reset_limits`); no constant enters.
    2. With probability 1 - p, Regret <= sum of H log|A| / alpha_k + D, of order sqrt(K): pi* is never excluded, so that
       the softmax of the allowed actions is as optimistic as that of all, and values of any policy are overestimated by
       at most D (`theory.proved_widths`). Inside W no allowed pair was seen to leave it, so V_c^k is 0 there, the
       multiplier plays no part in what is done, and R_p(pi*) <= Regret + (largest lam) Resets.
    The last action of a literal episode moves nothing: it is never excluded, as pi* may take an unsafe pair there.

    alpha: inverse temperature; None for the paper's formula with B = 0, which knows K; `anytime` uses k in place of K.
    pooled: one set of counts for all steps where the dynamics are stationary; None for "where that is so".

    >>> import resetfree as rf
    >>> run = rf.learn("grid-v0", "algorithm1-safe", episodes=300)
    >>> int(run.realised_resets[-1]) <= 18
    True
    """

    name: ClassVar[str] = "algorithm1-safe"
    prediction: ClassVar[Prediction] = "low"
    alpha: Annotated[float, Range(0, unbounded=True)] | None = None
    anytime: bool = False
    pooled: bool | None = None
    p: Probability = 0.05

    def init(self, problem: Problem, episodes: int, seed: int) -> SafeIntervalState:
        """No data yet: every action can be safe."""
        check_episodes(episodes, self.name)
        finite_states(problem, self.name)
        proved, endless = self.proved(problem), is_endless(problem, self.pooled)
        alpha = self.temperature(problem, episodes)
        empty = no_intervals(problem, self.name, pooled=proved.pooled, width=proved.width, alpha=alpha)
        allowed = np.ones((1 if endless else problem.horizon, *empty.shape[1:]), dtype=np.bool_)
        return SafeIntervalState(**vars(empty), allowed=allowed, endless=endless)

    def plan(self, state: SafeIntervalState, s1: State, lam: float) -> Plan:
        """Run the backward pass inside the allowed actions."""
        alpha, lam = self.alpha_now(state), check_multiplier(lam)
        widths = Widths(1.0, state.beta_r, state.beta_c, alpha, lam)
        policy, v_r, v_c = state.plan(s1, widths, np.arange(state.shape[0], 0, -1.0))
        entropy = state.shape[0] * log(state.shape[2])
        slack = entropy / alpha if alpha > 0 else (inf if entropy > 0 else 0.0)
        return Plan(policy, v_r, v_c, v_r - lam * v_c + slack)

    def update(self, state: SafeIntervalState, round: Round) -> SafeIntervalState:
        """Count the steps that were taken, and what they leave possible."""
        state.k += 1
        state.learn(round)
        return state

    def proved(self, problem: Problem) -> Intervals:
        """The intervals of all sets of next states."""
        pooled = problem.stationary if self.pooled is None else self.pooled
        return Intervals(problem, pooled, self.p, 0.0)

    def alpha_now(self, state: SafeIntervalState) -> float:
        """The inverse temperature of the coming episode."""
        return state.alpha * (state.k + 1) if self.anytime else state.alpha

    def temperature(self, problem: Problem, episodes: int) -> float:
        """alpha, or its factor before k if `anytime`."""
        if self.alpha is not None:
            return self.alpha
        return softmax_alpha(1 if self.anytime else episodes, problem.horizon, problem.n_actions, 0.0)

    def keeps_steps_apart(self, problem: Problem) -> bool:
        """Whether what is unsafe at one step may be safe at another."""
        return not is_endless(problem, self.pooled)

    def proof(self, problem: Problem) -> Proof:
        """Rewards no noisier than the problem says, and any multipliers."""
        return Proof(failure=self.p, noise=problem.reward_noise, values_are_bounds=True)

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound:
        """Regret <= sum of H log|A| / alpha_k + D, and Resets times the largest multiplier more for R_p(pi*)."""
        widths, softmax = self.proved(problem).regret(rounds, 0).most, self._softmax(problem, episodes, rounds)
        return PrimalRegretBound(softmax + widths, regret=softmax + widths, pays_resets=True)

    def regret_with_model(self, mdp: FiniteMDP, problem: Problem, episodes: int, rounds: int) -> float:
        """The same with what the model says of each pair."""
        return self._softmax(problem, episodes, rounds) + self.proved(problem).regret_with_model(mdp, rounds)

    def _softmax(self, problem: Problem, episodes: int, rounds: int) -> float:
        alpha, entropy = self.temperature(problem, episodes), problem.horizon * log(problem.n_actions)
        if entropy > 0 and alpha <= 0:
            raise NotCertifiable("The rate is for a positive inverse temperature alpha.")
        times = float((1.0 / np.arange(1, rounds + 1)).sum()) if self.anytime else float(rounds)
        return times * entropy / alpha if entropy > 0 else 0.0

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Both theorems; the bound on resets holds with any constants."""
        proved, endless = self.proved(problem), is_endless(problem, self.pooled)
        eliminates, what = ("(s, a)", "pair") if endless else ("(h, s, a)", "triple")
        most = float((problem.n_states or 0) * problem.n_actions * (1 if endless else problem.horizon))
        constants: dict[str, Any] = {**proved.constants(), "alpha": self.temperature(problem, episodes), "p": self.p}
        constants["eliminates"] = eliminates
        path = f"on every path at most one reset for each unsafe {what} {eliminates}, where Assumption 1 holds"
        said = covered_unless(proved.lacks(), constants, "its regret is within the rate of Algorithm 1")
        return Statement(constants, said.covered, f"{path}; {said.why}", most)
