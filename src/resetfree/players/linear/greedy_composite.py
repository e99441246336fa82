"""Greedy LSVI-UCB on the composite r - lam c: one regression, one value, no softmax.

Legend: phi features of pairs [S*A, d]; width = |phi| in the norm of Lam^-1; beta_r, beta_c the bonuses' constants; lam
the multiplier; V = max_a Q in [-lam, H-h+1]; R = H + B the range of the targets; p failure probability.
"""

from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from resetfree.core import Bound, Floats, NonNegative, Positive, Probability, require
from resetfree.game.capabilities import Partner, Suited
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Proof, Round, Statement, check_multiplier
from resetfree.players import (
    Build,
    Method,
    TakesEpisodes,
    against,
    bound_of,
    covered_unless,
    dyadic,
    features_words,
    pooled_lacks,
    written_in,
)
from resetfree.players.linear.continuum import ContinuumState, no_states, on_continuum
from resetfree.players.linear.regression import (
    HasRidge,
    Samples,
    Switching,
    add,
    dimension_of,
    doubled,
    longer_than_one,
    no_samples,
)
from resetfree.problems import Problem, State
from resetfree.theory.proved_widths import (
    CORNERS,
    COVER,
    CoverWidth,
    DeterminantWidth,
    cover_betas,
    cover_width,
    determinant_betas,
    determinant_width,
)

Width: TypeAlias = Literal["tuned", "theory", "proved"]
NO_NOISE = np.empty((0, 0))


@dataclass
class Kept:
    """The plan that is played until the next switch (empty arrays where every episode is planned)."""

    level: float  # its multiplier; -1 if no plan is kept or it is out of date
    log_det: Floats  # [L] the determinants when it was made
    policy: Floats  # [H, S, A]
    v: Floats  # [S] at step 1
    v_r: Floats  # [S]
    v_c: Floats  # [S]

    def check_loaded(self) -> None:
        """A multiplier has a plan."""
        require(self.level < 0 or self.policy.size, "'level' must be negative where no plan is kept")


@dataclass
class GreedyState:
    """What has been learned, and the plan that is kept."""

    data: Samples
    kept: Kept
    passes: int  # backward passes for plans that were played
    beta_r: float = field(metadata={"saved": False})
    beta_c: float = field(metadata={"saved": False})
    width: DeterminantWidth | None = field(metadata={"saved": False})  # of the width "proved"


AnyState: TypeAlias = GreedyState | ContinuumState


@dataclass(frozen=True)
class GreedyComposite(TakesEpisodes, HasRidge, PrimalPlayer[AnyState]):
    """Q = clip(w.phi + (beta_r + lam beta_c) width, -lam, H-h+1), greedy, with w the regression of r + V(s').

    The optimistic value is of the composite alone, so the dual should get the realised resets: v_r and v_c are
    the same regression's estimates for the greedy policy without any bonus, biased neither up nor down.

    With width "theory" (one regression per step, ridge 1, |phi| <= 1, measures of total variation at most sqrt(d),
    multipliers at most B, a linear MDP with rewards in [0, 1]) V(s_1) is above V_r - lam V_c of every policy
    with probability 1 - p, and the primal regret is at most 2 beta H sqrt(2 d K log(1 + K/d)) and a martingale.
    "tuned" widths, and everything that only they have (`variance_aware`), are chosen by experiment.

    B: bound on the multipliers (enters the proved width and the levels of rare switching).
    width: "tuned" (beta_r = scale H, beta_c = scale), "theory" (`composite_beta` for both together) or "proved": the
      smallest that we can prove, with the determinants of the data and corners in place of a cover, for any multipliers
      and any K (`theory.proved_widths`: values lie in [-lam, H - h], an interval of length R = H - h + lam, so that its
      width is beta_r + lam beta_c; the largest over the steps is used).
    pooled: one regression for all steps (only for stationary problems), not one per step.
    reg: the ridge; None for 1 (theory) or scale^2 (tuned): then the bonus of an untried pair just reaches the caps.
    variance_aware: with tuned widths, x = beta_c width becomes min(x, 2 sqrt(q (1 - q)) x + x^2), q the estimated cost.
    switching: "every" plans in every episode; "rare" only after some determinant has doubled, after a reset, or when
      the multiplier, rounded up to one of 0, 1, 2, 4, ... B, is another than in the last plan. It keeps one plan: a
      multiplier that moves to and fro between levels is planned for each time. None is "every" on finite states, and
      "rare" on a continuum of them: there transitions are stored, a reset alone is no reason to plan, and a plan is
      kept for each level (`continuum`), so that the cost of an episode does not grow with their number.
    Among actions whose Q is equal (to 1e-9) the one of smallest width is played: the one that was tried most.

    >>> import resetfree as rf
    >>> player = GreedyComposite(B=5.0, width="theory")
    >>> player.statement(rf.make("random-linear-v0").problem(), 10_000).covered
    True
    """

    name: ClassVar[str] = "greedy-composite"
    suited_states = ("features",)
    prediction: ClassVar[Prediction] = "low"
    B: Bound | None = None
    width: Width = "tuned"
    scale: NonNegative = 0.05
    pooled: bool = False
    reg: Positive | None = None
    variance_aware: bool = True
    switching: Switching | None = None
    p: Probability = 0.05

    def init(self, problem: Problem, episodes: int, seed: int) -> AnyState:
        """No data yet; refuses states that are neither finite nor have features, and layered problems if pooled."""
        if on_continuum(problem):
            return no_states(self, problem, episodes, self.cover(problem) if self.width == "proved" else None)
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.ridge())
        shape = data.shape if self.switching == "rare" else (0, 0, 0)
        kept = Kept(-1.0, np.zeros(len(data.log_det)), np.zeros(shape), *(np.zeros(shape[1]) for _ in range(3)))
        return GreedyState(data, kept, 0, *self.betas(problem, episodes), self.determinants(problem))

    def plan(self, state: AnyState, s1: State, lam: float) -> Plan:
        """The plan that is kept, if it may still be played; else a backward pass for this multiplier."""
        if isinstance(state, ContinuumState):
            level = dyadic(check_multiplier(lam), inf if self.B is None else self.B) if state.rare else lam
            kept_plan = state.greedy(level, aware=self.variance_aware and self.width == "tuned")
            here, v_here, cost_here = kept_plan.values(1, state.start(s1))[1][:, 0].tolist()
            return Plan(kept_plan, v_here, cost_here, here)
        level, kept = self.level(check_multiplier(lam)), state.kept
        if kept.level == level:
            return Plan(kept.policy, float(kept.v_r[s1]), float(kept.v_c[s1]), float(kept.v[s1]))
        policy, v, v_r, v_c, _ = self.backward(state, level)
        return Plan(policy, float(v_r[s1]), float(v_c[s1]), float(v[s1]))

    def backward(self, state: GreedyState, lam: float) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole pass: policy [H, S, A]; V, V_r and V_c [S] at step 1; Q [H, S*A]."""
        aware, (beta_r, beta_c) = self.variance_aware and self.width == "tuned", (state.beta_r, state.beta_c)
        if state.width is not None:
            beta_r, beta_c = largest_betas(state.width, state.data.log_det[state.data.layer_of_step])
        return state.data.greedy(lam, (beta_r, beta_c, aware, NO_NOISE))

    def update(self, state: AnyState, round: Round) -> AnyState:
        """Keep the plan that was played, if plans are kept; add the steps that were taken."""
        if isinstance(state, ContinuumState):
            state.k += 1
            state.learn(round)
            return state
        data, kept = state.data, state.kept
        if self.switching != "rare":
            state.passes += 1
            add(data, round.episode)
            return state
        level = self.level(round.lam)
        if kept.level != level:
            kept.policy, kept.v, kept.v_r, kept.v_c, _ = self.backward(state, level)
            kept.level, kept.log_det = level, data.log_det.copy()
            state.passes += 1
        add(data, round.episode)
        if round.episode.reset or doubled(data, kept.log_det):
            kept.level = -1.0
        return state

    def level(self, lam: float) -> float:
        """The multiplier that is planned for: `lam`, or with rare switching the next of 0, 1, 2, 4, ... and B."""
        if self.switching != "rare":
            return lam
        return dyadic(lam, bound_of(self))

    def betas(self, problem: Problem, episodes: int) -> tuple[float, float]:
        """Widths for reward and cost."""
        if self.width == "tuned":
            return self.scale * problem.horizon, self.scale
        if self.width == "proved" and on_continuum(problem):
            nothing = np.zeros(problem.horizon)
            return largest(cover_betas(self.cover(problem), nothing, nothing))
        if proved := self.determinants(problem):
            return largest_betas(proved, np.zeros(problem.horizon))
        return composite_beta(dimension_of(problem), problem.horizon, max(episodes, 1), bound_of(self), self.p), 0.0

    def cover(self, problem: Problem) -> CoverWidth:
        """The constants of the width "proved" on a continuum, whose betas grow with the data."""
        return cover_width(problem, dimension_of(problem), self.p, bound_of(self), inf, reg=self.ridge())

    def determinants(self, problem: Problem) -> DeterminantWidth | None:
        """The constants of the width "proved", whose betas grow with the data; None for the others."""
        if self.width != "proved":
            return None
        d, noise = dimension_of(problem), problem.reward_noise
        return determinant_width(problem, d, self.pooled, self.p, noise, reg=self.ridge())

    @classmethod
    def suits(cls, problem: Problem, *, bound_known: bool) -> Suited | None:
        """Given features of pairs, where no bound B is known: the multiplier may grow as it has to."""
        if problem.phi is None or bound_known:
            return None
        words = features_words(problem.phi.shape[2], problem.stationary)
        why = f"{words}; no bound B is known: resets are counted"
        return Suited(1, why, Partner("counting", "realised"), {"pooled": problem.stationary})

    def proof(self, problem: Problem) -> Proof:
        """Linearity, and a B only with the width "theory"; its V_r and V_c are estimates."""
        bounded = self.width == "theory" or (self.width == "proved" and on_continuum(problem))
        limit = bound_of(self) if bounded else None
        noise = problem.reward_noise if self.width == "proved" else None
        return Proof(failure=self.p, largest_multiplier=limit, linear=True, noise=noise)

    batched_form = written_in("linear.batched:greedy_form")

    @staticmethod
    def methods() -> list[Method]:
        """Against projected gradient, and against a constant multiplier B."""

        def build(dual: str, **own: Any) -> Build:
            return lambda s: against(GreedyComposite(s.B, **s.own, **own), dual, B=s.B)

        first, penalty = build("projected-gradient"), build("constant-penalty")
        text = "Greedy LSVI-UCB on r - lam c against projected gradient."
        rare = build("constant-penalty", switching="rare")
        lines = [
            ("greedy composite", text, first),
            ("greedy composite, penalty B", "The same against a constant multiplier B.", penalty),
            ("greedy composite, rare", "The same, planning only when a determinant has doubled.", rare),
        ]
        return [Method(name, "ours", summary, one, rank=20) for name, summary, one in lines]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run, and what is proved with them."""
        beta_r, beta_c = self.betas(problem, episodes)
        # Without the proved width no multiplier is too large, and B may be none.
        limit = {"B": bound_of(self)} if self.width == "theory" else {}
        constants: dict[str, Any] = {**limit, "beta_r": beta_r, "beta_c": beta_c, "reg": self.ridge(), "p": self.p}
        rare = self.switching == "rare" or (self.switching is None and on_continuum(problem))
        constants |= {"width": self.width, "switching": "rare" if rare else "every", "d": dimension_of(problem)}
        proved = self.width == "proved"
        bound = COVER if on_continuum(problem) else CORNERS
        if proved:
            constants["bound"] = bound
        lacks = {
            "the width is tuned, not proved": self.width == "tuned",
            "data are pooled over the steps": self.pooled and not proved,
            **pooled_lacks(problem, self.pooled and proved),
            "the proved width is for ridge 1": self.ridge() != 1.0 and not proved,
            "a feature is longer than 1": longer_than_one(problem),
        }
        why = "its primal regret on the composite is bounded in linear MDPs, for multipliers up to B and realised costs"
        if proved:
            up_to = "multipliers up to B" if on_continuum(problem) else "any multipliers"
            why = f"with probability 1 - p, 'upper' >= V* in all rounds, for {up_to}; width by {bound}"
        return covered_unless(lacks, constants, why)


def largest_betas(width: DeterminantWidth, growth: Floats) -> tuple[float, float]:
    """beta_r and beta_c, each of the step where it is largest."""
    return largest(determinant_betas(width, growth))


def largest(betas: Floats) -> tuple[float, float]:
    """Of [2, H] the largest of each row."""
    beta_r, beta_c = betas.max(axis=1)
    return float(beta_r), float(beta_c)


def composite_beta(d: int, horizon: int, episodes: int, bound: float, p: float) -> float:
    """The width for which optimism of the greedy composite is proved, for all multipliers up to B at once.

    As `widths.theory_beta`, with R = H + B, the length of an interval around r + V (r may be random within [0, 1]: only
    this length enters), and one w and one Lambda in place of the softmax of two. Over
    (w, beta^2 Lam^-1, lam) the values V = max_a clip(.., -lam, H-h+1), with -lam in reset states, are 1-Lipschitz in
    each part, and clipping takes the larger of the two errors, so an eps-cover has the log-size
        log N = d log(1 + 4 W / eps) + d^2 log(1 + 8 sqrt(d) beta^2 / eps^2) + log(1 + 2 B / eps),
    with eps = d R / K and W = 2 R sqrt(d K), and beta solves
        beta = sqrt(4 R^2 [(d/2) log(1 + K) + log N + log(4 H K / p)] + 8 K^2 eps^2) + sqrt(d) (1 + R).
    For ridge 1, features of norm at most 1 and measures of total variation at most sqrt(d).

    >>> round(composite_beta(4, 5, 10_000, 5.0, 0.05))
    493
    """
    reach = horizon + bound
    eps = d * reach / episodes
    weights = 2.0 * reach * sqrt(d * episodes)
    beta, last = 1.0, 0.0
    while abs(beta - last) > 1e-10 * beta:  # a contraction: beta enters through its logarithm
        last = beta
        cover = (
            d * log(1 + 4 * weights / eps)
            + d * d * log(1 + 8 * sqrt(d) * beta * beta / (eps * eps))
            + log(1 + 2 * bound / eps)
        )
        inside = d / 2 * log(1 + episodes) + cover + log(4 * horizon * episodes / p)
        beta = reach * sqrt(4 * inside + 8 * d * d) + sqrt(d) * (1 + reach)  # K eps = d R, and R^2 may be too large
    return beta
