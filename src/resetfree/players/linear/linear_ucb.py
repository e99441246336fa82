"""The primal player of Algorithm 1: softmax of optimistic least-squares values for reward and cost.

Legend: phi features of pairs [S*A, d]; reg the ridge constant; beta_r, beta_c widths of the bonuses; alpha inverse
temperature; lam the multiplier of this episode; Q_r in [0, H-h+1] from above, Q_c in [0, 1] from below.
"""

from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np

from resetfree.core import (
    Bound,
    Floats,
    Ints,
    InvalidInput,
    NonNegative,
    NotCertifiable,
    Positive,
    Probability,
    Range,
    expect,
)
from resetfree.game.capabilities import FallsBound, Partner, PlanAges, PrimalRegretBound, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement, check_multiplier
from resetfree.players import (
    Build,
    Kind,
    Method,
    against,
    bound_of,
    covered_unless,
    dyadic,
    features_words,
    given_round,
    penalised,
    sizes,
    written_in,
)
from resetfree.players.linear.continuum import ContinuumState, no_states, on_continuum, plans_rarely
from resetfree.players.linear.intervals import Intervals, IntervalState
from resetfree.players.linear.pair_values import SoftmaxPass, Widths
from resetfree.players.linear.regression import (
    Covers,
    Determinants,
    DeterminantState,
    HasRidge,
    Regressed,
    Switching,
    WholePass,
    dimension_of,
    is_one_hot,
    longer_than_one,
    no_regression,
    regression_size,
    whole_pass,
)
from resetfree.players.linear.ridge import learn_episode
from resetfree.players.tabular.counts import mark_reset
from resetfree.players.tabular.sparse_counts import SMALL, SeenCounts
from resetfree.problems import Episode, FiniteMDP, Problem, State
from resetfree.theory.delay import delays, doubled_rounds
from resetfree.theory.widths import paper_beta, softmax_alpha, theory_beta

Width: TypeAlias = Literal["tuned", "theory", "paper", "proved"]


@dataclass
class LinearState(WholePass, Regressed):
    """What has been learned, and the constants of this run."""

    old: Floats  # [H, S, A] last policy if lagged, else empty
    beta_r: float = field(metadata={"saved": False})
    beta_c: float = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    betas: Floats = field(init=False, metadata={"saved": False})  # [2, H] beta_r and beta_c of each step

    def __post_init__(self) -> None:
        self.betas = np.outer([self.beta_r, self.beta_c], np.ones(self.shape[0]))

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        return whole_pass(self, self.betas, np.zeros((2, self.shape[0])), widths, caps, old=self.old)

    def learn(self, round: Round) -> None:
        """Add the steps of an episode to the regression."""
        episode = round.episode
        learn_episode(*self.fitted[:3], self.shape[2], episode.states, episode.actions, episode.rewards)
        if episode.reset:
            mark_reset(self, episode, episode.states[-1])
        if self.old.size:
            self.old = np.asarray(round.plan.policy)


@dataclass
class LargeLinearState:
    """The same for one-hot features of many pairs: counts of what was seen."""

    k: int  # episodes seen
    seen: SeenCounts
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    beta_r: float = field(metadata={"saved": False})
    beta_c: float = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[SoftmaxPass, float, float]:
        """The policy, computed on request, and its estimated V_r and V_c at s1."""
        policy = SoftmaxPass(self.seen, self.shape, widths, caps)
        return policy, *policy.values(s1)

    def learn(self, round: Round) -> None:
        """Count the steps of an episode."""
        self.seen.learn(round.episode)


AnyState: TypeAlias = LinearState | LargeLinearState | IntervalState | DeterminantState | ContinuumState


@dataclass(frozen=True)
class LinearUCB(HasRidge, PrimalPlayer[AnyState]):
    """Softmax LSVI-UCB for reward and cost, as analysed: plan at the start, V under the softmax of the same Q.

    Paper: primal player of Algorithm 1 (optimistic values, softmax policy).

    B: bound on the multipliers (enters alpha and the proved width).
    width: "tuned" (beta_r = scale H, beta_c = scale), "theory" (proved, see `widths.theory_beta`), "paper" (its
      formula with `constant` for its unspecified C) or "proved": the smallest that we can prove, which needs no K, no
      temperature and no bound on the multipliers (`theory.proved_widths`; the statement says which bound it is).
    split: separate widths for reward and cost; joint ones (False) use the reward's for both.
    alpha: inverse temperature; None for the paper's formula, which knows K; `anytime` uses k in place of K.
    lagged: average the new Q with the old policy, as printed (readings.md, A1).
    pooled: one regression for all steps (only for stationary problems), not one per step.
    epsilon_p, epsilon_r: for the width "proved" and features: how far P (sum over s') and r may be from linear in phi;
      its widths and its rate then hold with that much (`theory.proved_widths`, nearly linear).
    reg: the ridge; None for 1 (proved and paper) or scale^2 (tuned). With ridge 1 and a small width an untried action
      has a smaller value than a tried worthless one, and is never tried; with scale^2 its bonus just reaches the cap H.

    switching: "rare" keeps plans until some determinant has doubled, for the multiplier rounded up to one of 0, 1, 2,
      4, ... B; "every" plans in every episode; None for "rare" on a continuum of states, and "every" elsewhere.

    On a continuum of states the problem has features of pairs (`Problem.pairs`): transitions are stored, and a pass
    reads all of them (`continuum`), so that "every" costs O(k) in episode k and "rare" the same in all.

    Large problems without features: one-hot features make the regression a matter of counts, and the pass goes only
    where the episode can be (`large_problems`): exactly the same algorithm, in time and memory of what was seen. Each
    episode is planned: its multiplier and data enter its policy, and the theorem is about that policy, so
    switching rarely is not used here (`greedy-composite` and `lsvi-ucb-pp` have proofs for it). `lagged` is not for
    large problems: it needs the old policy everywhere.

    >>> import resetfree as rf
    >>> player = LinearUCB(B=5.0, width="theory")
    >>> player.statement(rf.make("random-linear-v0").problem(), 10_000).covered
    True
    """

    name: ClassVar[str] = "linear-ucb"
    suited_states: ClassVar[tuple[str, ...]] = ("features",)
    prediction: ClassVar[Prediction] = "low"
    B: Bound | None = None
    width: Width = "tuned"
    scale: NonNegative = 0.1
    constant: NonNegative = 1.0
    split: bool = True
    alpha: Annotated[float, Range(0, unbounded=True)] | None = None
    anytime: bool = False
    lagged: bool = False
    pooled: bool = False
    reg: Positive | None = None
    p: Probability = 0.05
    epsilon_p: NonNegative = 0.0
    epsilon_r: NonNegative = 0.0
    switching: Switching | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width != "proved" and (self.epsilon_p > 0 or self.epsilon_r > 0):
            raise InvalidInput(
                "The 'width' of linear-ucb must be proved where epsilon_p or epsilon_r is positive. "
                f"Got {self.width!r} instead."
            )
        for name, kept in (("lagged", False), ("split", True)):
            if self.width == "proved" and getattr(self, name) != kept:
                raise InvalidInput(
                    f"The '{name}' of linear-ucb must be {kept} for the width 'proved'. Got {not kept} instead."
                )

    def init(self, problem: Problem, episodes: int, seed: int) -> AnyState:
        """No data yet; refuses problems that are not finite and layered problems if pooled."""
        plans_rarely(self.switching, problem, self.name)  # refuses what finite states cannot have
        if on_continuum(problem):
            return self._on_continuum(problem, episodes)
        rows = sizes(problem, self.pooled, self.name)
        if self.width == "proved":
            proved = self.proved(problem, episodes)
            assert not isinstance(proved, Covers)
            return proved.begin(self.name, self.temperature(problem, episodes))
        shape, (beta_r, beta_c) = (problem.horizon, *rows[1:]), self.betas(problem, episodes)
        widths: dict[str, Any] = {"beta_r": beta_r, "beta_c": beta_c, "alpha": self.temperature(problem, episodes)}
        if regression_size(problem, rows) > SMALL and problem.phi is None and not self.lagged:
            return LargeLinearState(0, SeenCounts.nothing(problem, self.pooled), shape, **widths)
        old = np.full(shape, 1.0 / shape[2]) if self.lagged else np.empty((0, 0, 0))
        fields = no_regression(problem, self.name, pooled=self.pooled, reg=self.ridge())
        return LinearState(**fields, old=old, **widths)

    def _on_continuum(self, problem: Problem, episodes: int) -> ContinuumState:
        expect(not self.lagged, "'lagged' of linear-ucb", "be false on a continuum of states", got="True")
        proved = self.proved(problem, episodes) if self.width == "proved" else None
        width = proved.width if isinstance(proved, Covers) else None
        return no_states(self, problem, episodes, width, self.temperature(problem, episodes))

    def plan(self, state: AnyState, s1: State, lam: float) -> Plan:
        """Run the backward pass for this multiplier, or take the plan that is kept for its level."""
        lam = check_multiplier(lam)
        if isinstance(state, ContinuumState) and state.rare:
            lam = dyadic(lam, bound_of(self))
        widths = self.widths(state, lam)
        alpha = widths.alpha
        policy, estimate_r, estimate_c = state.plan(s1, widths, self.caps(state.shape[0]))
        entropy = state.shape[0] * log(state.shape[2])
        slack = entropy / alpha if alpha > 0 else (inf if entropy > 0 else 0.0)
        return Plan(policy, estimate_r, estimate_c, estimate_r - lam * estimate_c + slack)

    def backward(
        self, state: LinearState | IntervalState | DeterminantState, lam: float
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole pass where the regression is kept: policy [H, S, A], V_r and V_c [S] at step 1, Q's [H, S*A]."""
        return state.backward(self.widths(state, lam), self.caps(state.shape[0]))

    def widths(self, state: AnyState, lam: float) -> Widths:
        """The constants of the pass of the coming episode."""
        return Widths(self.ridge(), state.beta_r, state.beta_c, self.alpha_now(state), float(lam))

    def update(self, state: AnyState, round: Round) -> AnyState:
        """Add the steps that were taken; remember which states turned out to be reset states."""
        state.k += 1
        state.learn(round)
        return state

    def absorb(self, state: AnyState, episode: Episode) -> AnyState:
        """Add the steps of an episode of data; the old policy, where it is kept, stays."""
        return self.update(state, given_round(episode, getattr(state, "old", None)))

    def caps(self, horizon: int) -> Floats:
        """[H] what can still be earned from each step on, H - h + 1."""
        return np.arange(horizon, 0, -1.0)

    def alpha_now(self, state: AnyState) -> float:
        """The inverse temperature of the coming episode."""
        return state.alpha * (state.k + 1) if self.anytime else state.alpha

    def temperature(self, problem: Problem, episodes: int) -> float:
        """alpha, or its factor before k if `anytime`."""
        if self.alpha is not None:
            return self.alpha
        return softmax_alpha(1 if self.anytime else episodes, problem.horizon, problem.n_actions, bound_of(self))

    def proved(self, problem: Problem, episodes: int) -> Intervals | Determinants | Covers:
        """The widths "proved": intervals where each pair has its own feature, else determinants, or covers."""
        if on_continuum(problem):
            alpha, rare = self.temperature(problem, episodes), plans_rarely(self.switching, problem, self.name)
            return Covers(problem, self.pooled, self.p, bound_of(self), self.ridge(), alpha=alpha, rare=rare)
        if is_one_hot(problem):
            return Intervals(problem, self.pooled, self.p, bound_of(self))
        misfit = (self.epsilon_p, self.epsilon_r)
        return Determinants(problem, self.pooled, self.p, bound_of(self), reg=self.ridge(), misfit=misfit)

    def betas(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """Widths for reward and cost."""
        horizon, n_actions, d = problem.horizon, problem.n_actions, dimension_of(problem)
        if self.width == "tuned":
            beta_r, beta_c = self.scale * horizon, self.scale
        elif self.width == "paper":
            beta_r = beta_c = paper_beta(self.constant, d, horizon, episodes, n_actions, p=self.p)
        else:
            alpha = self.temperature(problem, episodes) * (episodes if self.anytime else 1)
            beta_r, beta_c = (
                theory_beta(d, horizon, episodes, bound_of(self), self.p, alpha=alpha, target_range=r)
                for r in (float(horizon), 1.0)
            )
        return beta_r, beta_c if self.split else beta_r

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Given features of pairs and a bound B, from which the penalty for a reset is made.

        The factors were chosen on random-linear-v0 and drifting-v0 with seeds 101..105, none of which is reported:
        pooled data afford a larger penalty (1.5 resets in place of 2.7, at a regret of 20 in place of 13), data per
        step do not.
        """
        if problem.phi is None or not bound_known:
            return None
        factor = 4.0 if problem.stationary else 1.0
        why = f"{features_words(problem.phi.shape[2], problem.stationary)}; a reset is charged {factor:g} B"
        partner = Partner("constant-penalty", "realised", {"factor": factor})
        return Suited(2, why, partner, {"pooled": problem.stationary})

    def proof(self, problem: Problem) -> Proof:
        """Linearity; reward and cost have each a value on its own side of the truth."""
        if self.width == "proved":
            return self.proved(problem, 1).proof()  # which does not depend on the number of episodes
        return Proof(failure=self.p, largest_multiplier=bound_of(self), linear=True, values_are_bounds=True)

    def primal_regret_bound(self, problem: Problem, episodes: int, rounds: int) -> PrimalRegretBound:
        """The primal part of the rates for linear MDPs, with the widths, temperature and ridge of this run.

        P = K H ln|A| / alpha + 2 (beta_r + B beta_c) H sqrt(2 d K ln(1 + K/d)) + 2 (H + B) sqrt(K H ln(2/p)).
        With the width "proved" P = K H ln|A| / alpha + D + B sqrt(Y H Resets), see `theory.proved_widths`.

        It bounds the overestimates with any weights in [0, B]. Of a run that was interrupted the martingale's term is
        that of all K rounds, which bounds it before K as well.
        """
        return self._regret_bound(problem, episodes, np.arange(rounds))

    def delayed_regret_bound(self, problem: Problem, episodes: int, ages: PlanAges) -> PrimalRegretBound:
        """The same for plans that are old: sqrt(2) times the widths, and H + B for each round that has doubled.

        P = ... + sqrt(2) (widths) + (H + B) D H d log2(1 + K/d), D the largest delay.

        Widths and optimism hold in all rounds at once and from every start, and the policy of S_j is optimistic for
        pi* under its multiplier whenever it is played. Where no determinant of the H regressions has doubled since S_j,
        its widths are at most sqrt(2) times the newest; there are at most `doubled_rounds` others, and a round costs
        at most H + B.
        """
        return self._regret_bound(problem, episodes, ages.based_on)

    def _regret_bound(self, problem: Problem, episodes: int, based_on: Ints) -> PrimalRegretBound:
        H, A, d, B, reg = problem.horizon, problem.n_actions, dimension_of(problem), bound_of(self), self.ridge()
        rounds, late = len(based_on), int(delays(based_on).max(initial=0))
        alpha = self.temperature(problem, episodes)
        if A > 1 and alpha <= 0:
            raise NotCertifiable("The rate is for a positive inverse temperature alpha.")
        # alpha_k is alpha k if `anytime`.
        tempered = float((1.0 / (based_on + 1)).sum()) if self.anytime else float(rounds)
        softmax = tempered * H * log(A) / alpha if A > 1 else 0.0
        if self.width == "proved":
            widths = self.proved(problem, episodes).regret(rounds, late)
            assert widths.regret is not None
            return widths._replace(most=float(softmax + widths.most), regret=float(softmax + widths.regret))
        beta_r, beta_c = self.betas(problem, episodes)
        # sum |phi|^2_{Lam^-1} <= factor d ln(1 + K / (d reg)), since x <= factor ln(1 + x) up to 1/reg (theorem: 1).
        factor = 2.0 if reg >= 1 else 1 / (reg * log(1 + 1 / reg))
        grown = log(1 + rounds / (d * reg))
        kept = 2.0 if plans_rarely(self.switching, problem, self.name) else 1.0  # how far a determinant may have grown

        def over(beta: float, most: float) -> float:
            bonuses = 2 * beta * H * sqrt(kept * factor * d * rounds * grown)
            if late:
                bonuses = sqrt(2.0) * bonuses + most * doubled_rounds(late, H * d * grown)
            return float(softmax + bonuses + 2 * most * sqrt(max(rounds, episodes) * H * log(2 / self.p)))

        return PrimalRegretBound(over(beta_r + B * beta_c, H + B), any_weights=True, regret=over(beta_r, H))

    def regret_with_model(self, mdp: FiniteMDP, problem: Problem, episodes: int, rounds: int) -> float:
        """The softmax's part, and D with what the model says of each pair (width "proved", one-hot features)."""
        found, proved = self.primal_regret_bound(problem, episodes, rounds), self.width == "proved"
        assert found.regret is not None
        intervals = self.proved(problem, episodes) if proved else None
        if not isinstance(intervals, Intervals):
            return found.regret
        return found.regret - intervals.regret(rounds, 0).most + intervals.regret_with_model(mdp, rounds)

    def falls(self, mdp: FiniteMDP, problem: Problem, episodes: int, lam: Floats) -> FallsBound | None:
        """By unsafe edges, for intervals of all sets: see `theory.visit_sums`."""
        proved = self.proved(problem, episodes) if self.width == "proved" else None
        alpha = self.temperature(problem, episodes)
        if not isinstance(proved, Intervals) or alpha <= 0:
            return None
        of_round = alpha * (np.arange(1.0, max(len(lam), episodes) + 1) if self.anytime else np.ones(len(lam)))
        planned = of_round[:episodes] if self.anytime else np.full(episodes, alpha)
        return proved.falls(mdp, lam, of_round[: len(lam)], planned)

    batched_form = written_in("linear.batched:softmax_form")

    @staticmethod
    def methods() -> list[Method]:
        """The paper's Algorithm 1, and its primal player against fixed penalties, and against none."""

        def gradient(feedback: str, **own: Any) -> Build:
            return lambda s: against(LinearUCB(s.B, **s.own, **own), "projected-gradient", feedback, B=s.B)

        def penalty(factor: float) -> Build:
            return penalised(lambda s: LinearUCB(max(factor, 1.0) * s.B, **s.own), factor)

        text, its = "Softmax LSVI-UCB against projected gradient, ridge 1, tuned width.", "Its primal player"
        ridge = "The same with the ridge of our tuned default."
        lines: list[tuple[str, Kind, str, Build]] = [
            ("algorithm 1", "paper", text, gradient("optimistic", reg=1.0)),
            ("algorithm 1, ridge b^2", "paper", ridge, gradient("optimistic")),
            ("algorithm 1, realised", "paper", "The same, on realised resets.", gradient("realised")),
            ("fixed penalty B/4", "baseline", f"{its} against a constant multiplier B/4.", penalty(0.25)),
            ("fixed penalty B", "baseline", f"{its} against a constant multiplier B.", penalty(1.0)),
            ("fixed penalty 4B", "baseline", f"{its} against a constant multiplier 4B.", penalty(4.0)),
            ("no constraint", "baseline", f"{its} with multiplier zero: resets are free.", penalty(0.0)),
        ]
        return [Method(*line, rank=40) for line in lines]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run, and what is proved with them."""
        alpha = self.temperature(problem, episodes)
        if self.width == "proved":
            proved = self.proved(problem, episodes)
            used = {**proved.constants(), "alpha": alpha, "p": self.p, "width": self.width, "B": bound_of(self)}
            why = f"the smallest width that is proved, {used['bound']}, where every start is feasible"
            grows = isinstance(proved, Covers) and (self.anytime or alpha == inf)
            lacks = {**proved.lacks(), "the cover is for one finite inverse temperature": grows}
            return covered_unless(lacks, used, why)
        beta_r, beta_c = self.betas(problem, episodes)
        constants: dict[str, Any] = {"beta_r": beta_r, "beta_c": beta_c, "alpha": alpha, "reg": self.ridge()}
        constants |= {"p": self.p, "width": self.width, "B": bound_of(self), "d": dimension_of(problem)}
        lacks = {
            f"the width is {self.width}, not proved": self.width != "theory",
            "the values are averaged with the old policy (lagged)": self.lagged,
            "the temperature is not the theorem's": self.alpha is not None,
            "data are pooled over the steps": self.pooled,
            "the proved width is for ridge 1": self.ridge() != 1.0,
            "a feature is longer than 1": longer_than_one(problem),
        }
        why = "the rate theorem covers it where the paper's three assumptions hold"
        return covered_unless(lacks, constants, why)
