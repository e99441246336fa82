"""Value iteration on counts: optimistic by a bonus where the comparator needs it, or by noise.

**`UCBVI`.**
Legend: n how often a pair was tried; rest = H - h the reward that can follow step h (h from 1); L the logarithm of the
union bound; lam the multiplier of this episode; m how many inequalities the union bound needs of each cell.

**`RLSVI`.**
Legend: n how often a pair was tried; rest = H - h the reward that can follow step h (h from 1); lam the multiplier.
"""

from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from resetfree.core import InvalidInput, NonNegative, Probability
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement
from resetfree.players import Build, Method, TakesEpisodes, check_episodes, penalised, sizes, written_in
from resetfree.players.tabular.count_players import (
    BERNSTEIN,
    HOEFFDING,
    TWO_SIDED,
    Bonus,
    CountData,
    CountState,
    Ties,
    begin,
    fresh,
    multiplier,
    noise_of,
)
from resetfree.players.tabular.counts import union_bound
from resetfree.players.tabular.large_problems import LargeCounts
from resetfree.problems import Problem, State

Form: TypeAlias = Literal["hoeffding", "bernstein"]
Width: TypeAlias = Literal["tuned", "theory"]


@dataclass(frozen=True)
class UCBVI(TakesEpisodes, PrimalPlayer[CountData]):
    """Optimistic value iteration on counts, for r - lam c, with optimism only where the comparator needs it.

    Q = min(H - h + 1, rhat + Phat V + b), V = max_a Q, V(known reset) = -lam, never tried: Q = H - h + 1.

    Greedy; composite values within 1e-9 of each other are ties, which go to the pair tried more often: among untried
    and tried actions that are equally good nothing is risked.

    bonus "hoeffding": b = (rest + lam) sqrt(L / 2n). Optimism is needed only for pi*, so only two fixed functions must
      concentrate, f_r = V_r^{pi*} in [0, rest] and f_c = V_c^{pi*} in [0, 1]: by induction V >= f_r - lam f_c, since
      rhat + Phat V + b >= r + Phat (f_r - lam f_c) + b >= r + P (f_r - lam f_c). No S enters, no cover over lam.
    cost_part=False: b = rest sqrt(L / 2n). From a start that admits a reset-free policy, pi* stays where f_c = 0, and
      so does every sample of its pairs: (Phat - P) f_c = 0 there exactly, and the induction along pi* needs no width
      for the cost. This is proved where every start is feasible, and far less risk is taken.
    bonus "bernstein", tuned: b_r = sqrt(2 Varhat(V_r) L / n) + 7 rest L / (3 (n - 1)) and, with cost_part, lam times
      sqrt(2 qhat (1 - qhat) L / n) + 7 L / (3 (n - 1)), with V_r and qhat those of the player's own policy on the
      counts; never above Hoeffding's.
    bonus "bernstein", theory: variances of unknown functions need bounds from both sides, so V*_lam is enclosed,
      low <= V*_lam <= V, and std(V*_lam) <= std(V) + sqrt(Phat (V - low)^2) goes into the empirical Bernstein
      inequality with range rest + lam. V*_lam is a fixed function only if the multiplier is the same all the time.

    width: "theory": L = log(m S A H K / p) (pooled: H K samples per pair, so K becomes H K), and then with probability
      1 - p `upper` >= V*(s_1^k) in all K rounds; then R_p is at most the sum of b + (Phat - P) V over the steps taken,
      of order (H + B) H S sqrt(A K L). "tuned": L = 2 scale^2, so Hoeffding's width is scale rest / sqrt(n).
    noise: sub-Gaussian constant of the noise in rewards, which adds noise sqrt(2 L / n): the mean of n rewards is
      farther below its expectation than that with probability at most exp(-L), for each cell and n (one more in m). 0
      where they are deterministic, 0.5 is right for anything within [0, 1] (Hoeffding's lemma: Bernoulli rewards too).
      With width "theory" it is never less than what the problem declares for its rewards (`Problem.reward_noise`).
    pooled: one set of counts for all steps; only for stationary problems.
    monotone: plan with the largest multiplier named so far.
    ties: among actions that are equally good and were tried equally often: "first" the first, "random" one drawn once
      per pair, "learned" the one that elsewhere found more new states and was reset less often, per pair tried. This
      changes no bound, but what is untried always ties, so it decides what is risked first. "learned" helps where an
      action means the same everywhere (moves on a map); where it does not, it is as good as "random".

    Large problems: the same pass, exactly, over the states seen that can matter (`large_problems`). Each episode is
    planned again, since `upper` and the policy belong to the multiplier that the dual player names for it.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> [UCBVI(width=width).statement(problem, 1000).covered for width in ("theory", "tuned")]
    [True, False]
    """

    name: ClassVar[str] = "ucbvi"
    prediction: ClassVar[Prediction] = "low"
    bonus: Form = "hoeffding"
    width: Width = "tuned"
    scale: NonNegative = 0.05
    cost_part: bool = False
    pooled: bool = False
    noise: NonNegative = 0.0
    monotone: bool = False
    ties: Ties = "learned"
    p: Probability = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == TWO_SIDED and not self.cost_part:
            raise InvalidInput(
                "The 'cost_part' of ucbvi must be true for the proved Bernstein width. Got False instead."
            )

    @property
    def form(self) -> int:
        """Which width the backward pass uses."""
        if self.bonus == "hoeffding":
            return HOEFFDING
        return BERNSTEIN if self.width == "tuned" else TWO_SIDED

    def init(self, problem: Problem, episodes: int, seed: int) -> CountData:
        """No data yet: every value is at its cap."""
        check_episodes(episodes, self.name)
        sizes(problem, self.pooled, self.name)
        log_term, noise = self.log_term(problem, episodes), noise_of(problem, self.noise, self.width)
        return begin(
            LargeCounts.nothing, problem, self.name, self.pooled, self.ties, log_term=log_term, noise=noise, seed=seed
        )

    def plan(self, state: CountData, s1: State, lam: float) -> Plan:
        """One backward pass; `upper` is V(s1), `v_r` and `v_c` are the policy's values on the counts alone."""
        lam = multiplier(state, lam, self.monotone)
        return state.plan(s1, Bonus(self.form, state.log_term, state.noise, float(self.cost_part), lam))

    def update(self, state: CountData, round: Round) -> CountData:
        """Count the episode."""
        state.learn(round)
        return state

    def log_term(self, problem: Problem, episodes: int) -> float:
        """L: of the union bound over cells (h, s, a), sample sizes and m inequalities; or 2 scale^2 if tuned."""
        if self.width == "tuned":
            return 2.0 * self.scale**2
        noisy = noise_of(problem, self.noise, self.width) > 0
        # Hoeffding: one side of f_r, of f_c, of the noise. Two-sided: both sides of Hoeffding, of the noise, and of the
        # empirical Bernstein inequality, each side of which fails with probability 2 exp(-L).
        m = 1 + self.cost_part + noisy if self.form == HOEFFDING else 6 + 2 * noisy
        return union_bound(problem, episodes, self.pooled, m, self.p)

    def proof(self, problem: Problem) -> Proof:
        """Rewards no noisier than the width counts on; where it needs both sides, a multiplier that never changes."""
        one = self.width == "theory" and self.form == TWO_SIDED
        return Proof(failure=self.p, one_multiplier=one, noise=noise_of(problem, self.noise, self.width))

    batched_form = written_in("tabular.batched:ucbvi_form")

    @staticmethod
    def methods() -> list[Method]:
        """Against the fixed penalty C = B, with no width for the cost, which a comparator without resets does not need.

        The realised dual and the fixed penalty then play nearly the same games (the first reset throws the multiplier
        close to B); the penalty has the better bound.
        """

        def build(**own: Any) -> Build:
            return penalised(lambda s: UCBVI(**s.own, **own))

        proved = penalised(lambda s: UCBVI(width="theory", pooled=s.pooled))
        with_cost, text = build(bonus="bernstein", cost_part=True), "Hoeffding's width with the proved L."
        lines = [
            ("hoeffding", "Optimistic value iteration on counts, no width for the cost.", build()),
            ("bernstein", "The same with variance-aware widths.", build(bonus="bernstein")),
            ("bernstein, cost width", "The same with a variance-aware width for the cost.", with_cost),
        ]
        return [
            *(Method(f"ucbvi, {name}", "ours", summary, one, rank=60) for name, summary, one in lines),
            Method("ucbvi, proved width", "ours", text, proved, rank=60, widths=(), guaranteed=True),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run, and what is proved with them."""
        check_episodes(episodes, self.name)
        noise = noise_of(problem, self.noise, self.width)
        log_term = self.log_term(problem, episodes)
        constants: dict[str, Any] = {"bonus": self.bonus, "width": self.width, "L": log_term, "p": self.p}
        constants |= {"noise": noise, "cost_part": self.cost_part, "pooled": self.pooled}
        if self.width == "tuned":
            return Statement(constants | {"scale": self.scale}, False, "no theorem covers this run: the width is tuned")
        where = "for any multipliers" if self.cost_part else "for any multipliers where every start is feasible"
        if self.form == TWO_SIDED:
            where = "for a multiplier that never changes"
            constants["one_multiplier"] = True
        rewards = "deterministic" if noise == 0 else f"{noise:g}-sub-Gaussian"
        why = f"with probability 1 - p, 'upper' >= V* in all rounds, {where}, with {rewards} rewards"
        return Statement(constants, True, why)


@dataclass(frozen=True)
class RLSVI(TakesEpisodes, PrimalPlayer[CountState]):
    """Randomised value iteration on counts: optimism by one draw of Gaussian noise per episode instead of a bonus.

    Q = clip(rhat + Phat V + sigma z, -lam, H - h + 1), z ~ N(0, 1), sigma = scale (rest + lam) / sqrt(n); greedy.

    One z per pair and layer of the counts (per step unless pooled), drawn for each episode from (seed, k) alone, so
    that planning twice gives the same policy. The composite is perturbed, not reward and cost apart. What was never
    tried has Q = H - h + 1, and a known reset state has V = -lam on arrival.

    scale: of the noise.  cost_part: whether sigma has its part lam; without, sigma = scale rest / sqrt(n).
    noise: sub-Gaussian constant of the noise in rewards, which adds 2 noise scale / sqrt(n) to sigma.
    pooled: one set of counts for all steps; only for stationary problems.
    monotone: plan with the largest multiplier named so far.
    ties: how to choose among equally good actions, as in `ucbvi`; here mostly among untried ones.

    The regret bounds known for this family need a scale that grows with log(SAHK); with this one nothing is proved.
    `upper` is left open: a draw is above V* with constant probability only.

    >>> import resetfree as rf
    >>> problem = rf.make("grid-v0").problem()
    >>> player = RLSVI()
    >>> state = player.init(problem, 10, 0)
    >>> bool((player.plan(state, 0, 1.0).policy == player.plan(state, 0, 1.0).policy).all())
    True
    """

    name: ClassVar[str] = "rlsvi"
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.02
    cost_part: bool = False
    pooled: bool = False
    noise: NonNegative = 0.0
    monotone: bool = False
    ties: Ties = "learned"

    def init(self, problem: Problem, episodes: int, seed: int) -> CountState:
        """No data yet: every value is at its cap."""
        check_episodes(episodes, self.name)
        return fresh(problem, self.name, self.pooled, self.ties, 2.0 * self.scale**2, noise=self.noise, seed=seed)

    def plan(self, state: CountState, s1: State, lam: float) -> Plan:
        """One draw and one backward pass; `v_r` and `v_c` are the policy's values on the counts alone."""
        lam = multiplier(state, lam, self.monotone)
        draw = np.random.default_rng([state.seed, state.k]).standard_normal(state.tried.shape)
        bonus = Bonus(HOEFFDING, state.log_term, state.noise, float(self.cost_part), lam)
        return state.plan(s1, bonus, draw=draw)._replace(upper=nan)  # a draw is above V* only now and then

    def update(self, state: CountState, round: Round) -> CountState:
        """Count the episode."""
        state.learn(round)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Against the fixed penalty C = B."""
        text = "Randomised value iteration on counts, no noise for the cost."
        build = penalised(lambda s: RLSVI(**s.own))
        return [Method("rlsvi", "ours", text, build, rank=61)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """The constants of this run; the noise is tuned, so no theorem covers it."""
        check_episodes(episodes, self.name)
        why = "no theorem covers this run: the noise is tuned, and a draw is optimistic only now and then"
        constants: dict[str, float | str | bool] = {"scale": self.scale, "cost_part": self.cost_part}
        return Statement(constants | {"noise": self.noise, "pooled": self.pooled}, False, why)
