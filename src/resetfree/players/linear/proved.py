"""The widths "proved" of Algorithm 1's primal player: which bound applies to a problem, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from typing import Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.game.capabilities import PrimalRegretBound, Proof
from resetfree.game.contract import Round
from resetfree.players.linear.regression import Regressed, Samples, add, dimension_of, longer_than_one, no_samples
from resetfree.players.linear.ridge import softmax_plan
from resetfree.players.requirements import pooled_lacks
from resetfree.players.tabular.lazy_passes import Widths
from resetfree.problems.contract import Problem, State
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.delay import doubled_rounds
from resetfree.theory.proved_widths import (
    CONCENTRATION,
    CORNERS,
    COVER,
    CoverWidth,
    DeterminantWidth,
    cover_betas,
    cover_width,
    determinant_betas,
    determinant_width,
    most_growth,
)

NO_OLD = np.empty((0, 0, 0))


def whole_pass(
    data: Regressed, betas: Floats, misfit: Floats, widths: Widths, caps: Floats, old: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The pass of Algorithm 1: policy [H, S, A], V_r and V_c [S] at step 1, Q's [H, S*A].

    betas: [2, H] times the width of a pair, for rewards and costs.  misfit: [2, H] what is added besides.
    """
    horizon, n_states, n_actions = data.shape
    policy = np.empty(data.shape)
    q_r, q_c = np.empty((horizon, n_states * n_actions)), np.empty((horizon, n_states * n_actions))
    v_r, v_c = np.empty(n_states), np.empty(n_states)
    made = (policy, q_r, q_c, v_r, v_c)
    (beta_r, beta_c), (z_r, z_c), x = betas, misfit, widths
    bonus = (beta_r, beta_c, z_r, z_c)
    softmax_plan(*data.fitted, *bonus, x.alpha, x.lam, data.known, data.known_last, caps, old, *made)
    return policy, v_r, v_c, q_r, q_c


@dataclass
class DeterminantState:
    """The regression with its determinants, and the constants of this run."""

    k: int  # episodes seen
    data: Samples
    width: DeterminantWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths grow with the data
    beta_c: float = field(metadata={"saved": False})

    @property
    def shape(self) -> tuple[int, int, int]:
        """H, S, A."""
        return self.data.shape

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[Floats, float, float]:
        """The policy [H, S, A], and its estimated V_r and V_c at s1."""
        policy, v_r, v_c, _, _ = self.backward(widths, caps)
        return policy, float(v_r[s1]), float(v_c[s1])

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        layers, width = len(self.data.log_det), self.width
        samples = self.k * self.shape[0] // layers  # of each regression, at most
        betas = determinant_betas(width, self.data.log_det[self.data.layer_of_step], samples)
        return whole_pass(self.data, betas, np.stack([width.z_r, width.z_c]), widths, caps, NO_OLD)

    def learn(self, round: Round) -> None:
        """Add the steps of an episode to the regression."""
        add(self.data, round.episode)


def no_determinants(
    problem: Problem, name: str, *, pooled: bool, reg: float, width: DeterminantWidth, alpha: float
) -> DeterminantState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    nan = float("nan")
    return DeterminantState(0, no_samples(problem, name, pooled=pooled, reg=reg), width, alpha, beta_r=nan, beta_c=nan)


# --------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Covers:
    """Self-normalised widths with a cover of the values, on a continuum of states: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    alpha: float
    rare: bool  # whether plans are kept until a determinant has doubled

    @cached_property
    def width(self) -> CoverWidth:
        """Its constants."""
        return cover_width(self.problem, dimension_of(self.problem), self.p, self.B, self.alpha, reg=self.reg)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = self.largest(0.0).max(axis=1).tolist()
        return {"bound": COVER, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}

    def largest(self, samples: float) -> Floats:
        """[2, H] the largest widths after so many samples of a regression."""
        H = self.problem.horizon
        return cover_betas(self.width, np.full(H, most_growth(self.width, samples)), np.full(H, samples))

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        return {"a feature is longer than 1": longer_than_one(self.problem)}

    def proof(self) -> Proof:
        """Linearity, multipliers up to B, and rewards no noisier than the problem says."""
        noise = self.problem.reward_noise
        return Proof(failure=self.p, largest_multiplier=self.B, linear=True, noise=noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret, as in `Determinants.regret`; sqrt(2) times that for kept plans."""
        H, B, d = self.problem.horizon, self.B, dimension_of(self.problem)
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = self.largest(float(samples))
        kept, rewards = 2 * (sqrt(2.0) if self.rare else 1.0), H * (H + 1) / 2
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": self.reg, "d": d, "rounds": rounds}
        once["chance"] = (1 - CONCENTRATION) * self.p
        most = summed_widths(kept * (beta_r + B * beta_c), samples, regressions, largest=rewards + B * H, **once)
        return most._replace(regret=summed_widths(kept * beta_r, samples, regressions, largest=rewards, **once).most)


def summed_widths(
    weights: Floats,  # [H] of the width of each step
    samples: int,  # of a regression
    regressions: int,
    *,
    missed: int,  # rounds that plans may not know
    reg: float,
    d: int,
    largest: float,  # of what a round can add
    rounds: int,
    chance: float,
    misfit: float = 0.0,  # what is added to it
) -> PrimalRegretBound:
    """The expected sum of weights times |phi| in the norm of Lam^-1: see `Determinants.regret`."""
    growth = d * log(1 + samples / (d * reg))
    factor = 2.0 if reg >= 1 else 1 / (reg * log(1 + 1 / reg))
    widths = float(weights.max() if regressions == 1 else weights.sum()) * sqrt(samples * factor * growth)
    if missed:
        widths = sqrt(2.0) * widths + largest * doubled_rounds(missed, regressions * growth)
    most = largest * float(resets_upper(widths / largest, chance)) + misfit
    return PrimalRegretBound(min(most, largest * rounds), any_weights=True)


@dataclass(frozen=True)
class Determinants:
    """Self-normalised widths with the determinants of the data, for features of pairs: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    misfit: tuple[float, float] = (0.0, 0.0)  # how far P and r may be from linear

    @cached_property
    def width(self) -> DeterminantWidth:
        """Its constants."""
        problem, d = self.problem, dimension_of(self.problem)
        return determinant_width(
            problem, d, self.pooled, self.p, problem.reward_noise, reg=self.reg, misfit=self.misfit
        )

    def begin(self, name: str, alpha: float) -> DeterminantState:
        """No data yet."""
        return no_determinants(self.problem, name, pooled=self.pooled, reg=self.reg, width=self.width, alpha=alpha)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = determinant_betas(self.width, np.zeros(self.problem.horizon)).max(axis=1).tolist()
        found = {"bound": CORNERS, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}
        return found | ({"misfit": list(self.misfit)} if any(self.misfit) else {})

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        long = {"a feature is longer than 1": longer_than_one(self.problem)}
        return pooled_lacks(self.problem, self.pooled) | long

    def proof(self) -> Proof:
        """Linearity up to the misfit, and rewards no noisier than the problem says."""
        needs = Proof(failure=self.p, largest_multiplier=self.B, linear=True, misfit=self.misfit)
        return needs._replace(noise=self.problem.reward_noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret: 2 (beta_r + B beta_c) times the sum of |phi|, over the steps.

        |phi|^2 in the norm of Lam^-1 add up to at most factor d log(1 + n / (d reg)) over n samples of a regression,
        factor such that x <= factor log(1 + x) up to 1/reg. Plans do not know the latest `late` rounds, and if data are
        pooled the steps of their own: sqrt(2) times the widths, and H + B for the rounds of `doubled_rounds`. What is
        expected exceeds what was realised by no more than `anytime.resets_upper` says. Where the problem is only nearly
        linear, z sqrt(n) is in the betas, and 2 (z_r + B z_c) is added in every step of every round.
        """
        H, B, d, reg = self.problem.horizon, self.B, dimension_of(self.problem), self.reg
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = determinant_betas(self.width, np.full(H, d * log(1 + samples / (d * reg))), samples)
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": reg, "d": d, "rounds": rounds}
        once["chance"], rewards, z_r = (1 - CONCENTRATION) * self.p, H * (H + 1) / 2, self.width.z_r
        misfit = 2 * rounds * float((z_r + B * self.width.z_c).sum())
        weights = (2 * (beta_r + B * beta_c), samples, regressions)
        most = summed_widths(*weights, largest=rewards + B * H, misfit=misfit, **once)
        weights, misfit = (2 * beta_r, samples, regressions), 2 * rounds * float(z_r.sum())
        return most._replace(regret=summed_widths(*weights, largest=rewards, misfit=misfit, **once).most)
