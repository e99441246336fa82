"""The widths "proved" of Algorithm 1's primal player: which bound applies to a problem, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import log, sqrt
from typing import Any

import numpy as np

from resetfree.game.capabilities import Falls, PrimalRegretBound, Proof
from resetfree.players.shared.determinant_states import DeterminantState, no_determinants
from resetfree.players.shared.interval_states import IntervalState, no_intervals
from resetfree.players.shared.pair_features import dimension_of, longer_than_one
from resetfree.players.shared.requirements import pooled_lacks
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.transitions import Floats
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.cover_widths import COVER, CoverWidth, cover_betas, cover_width, most_growth
from resetfree.theory.delay import doubled_rounds
from resetfree.theory.first_falls import most_falls, penalised, unsafe_edges
from resetfree.theory.proved_widths import (
    CONCENTRATION,
    CORNERS,
    EACH_SUM,
    SETS,
    DeterminantWidth,
    IntervalWidth,
    determinant_betas,
    determinant_width,
    interval_width,
    overestimates,
)
from resetfree.theory.visit_sums import interval_distance, most_overestimated


@dataclass(frozen=True)
class Intervals:
    """Intervals of all sets of next states, for one-hot features: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float

    @cached_property
    def width(self) -> IntervalWidth:
        """Its constants."""
        return interval_width(self.problem, self.pooled, self.p, self.problem.reward_noise)

    def begin(self, name: str, alpha: float) -> IntervalState:
        """No data yet."""
        return no_intervals(self.problem, name, pooled=self.pooled, width=self.width, alpha=alpha)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and L."""
        return {"bound": SETS, "L": self.width.log_term, "noise": self.width.noise}

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        pooled = self.pooled and self.problem.end_resets
        return {"data are pooled over the steps, and the end of an episode can call for a reset": pooled}

    def proof(self) -> Proof:
        """No linearity, and rewards no noisier than the problem says."""
        noise = self.problem.reward_noise
        return Proof(failure=self.p, largest_multiplier=self.B, noise=noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """D + B sqrt(Y H Resets), what the widths add to the primal regret; late: the largest delay of a plan."""
        found = overestimates(self.problem, self.width, self.pooled, self.p, rounds=rounds, late=late)
        root, rewards = self.B * found.costs_per_root, found.rewards
        return PrimalRegretBound(rewards, any_weights=True, per_root_reset=root, regret=rewards)

    def regret_with_model(self, mdp: FiniteMDP, rounds: int) -> float:
        """D where the model is known: see `theory.visit_sums`."""
        width, noise = self.width, None
        if width.noise > 0:
            noise = partial(_both_sides, width)
        sums = interval_distance(width)
        return most_overestimated(mdp, sums, pooled=self.pooled, rounds=rounds, noise=noise, delta=EACH_SUM * self.p)

    def falls(self, mdp: FiniteMDP, lam: Floats, alpha: Floats, planned: Floats) -> Falls | None:
        """How many unsafe edges are tried before they are dear: see `theory.first_falls`.

        alpha: [K] inverse temperatures; planned: those of all episodes that were planned, which theta is chosen for.
        """
        edges = unsafe_edges(mdp, self.pooled)
        if edges is None or self.B <= 0:
            return None
        sizes = (mdp.horizon, mdp.n_transitions, mdp.n_actions)
        scale = penalised(edges._replace(longest=0), 1.0, np.full(len(planned), self.B), planned, *sizes)
        counted, theta = most_falls(edges, self.width, scale)
        return Falls(counted, penalised(edges, theta, lam, alpha, *sizes))


def _both_sides(width: IntervalWidth, n: float) -> float:
    """How far a mean reward and its upper end can be from the truth, together."""
    return 2 * width.noise * sqrt((n + 1) * (log(n + 1) + 2 * width.noise_log)) / n


@dataclass(frozen=True)
class Covers:
    """Self-normalised widths with a cover of the values, on a continuum of states: see `theory.cover_widths`."""

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
