"""The widths "proved" of Algorithm 1's primal player: which bound applies to a problem, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import Any

import numpy as np

from resetfree.game.capabilities import PrimalRegretBound, Proof
from resetfree.players.shared.determinant_states import DeterminantState, no_determinants
from resetfree.players.shared.interval_states import IntervalState, no_intervals
from resetfree.players.shared.pair_features import dimension_of, longer_than_one
from resetfree.problems.contract import Problem
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.delay import doubled_rounds
from resetfree.theory.proved_widths import (
    CONCENTRATION,
    CORNERS,
    SETS,
    DeterminantWidth,
    IntervalWidth,
    determinant_betas,
    determinant_width,
    interval_width,
    overestimates,
)


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
        return PrimalRegretBound(found.rewards, any_weights=True, per_root_reset=self.B * found.costs_per_root)


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
        pooled = self.pooled and self.problem.end_resets
        return {
            "data are pooled over the steps, and the end of an episode can call for a reset": pooled,
            "a feature is longer than 1": longer_than_one(self.problem),
        }

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
        growth = d * log(1 + samples / (d * reg))
        factor = 2.0 if reg >= 1 else 1 / (reg * log(1 + 1 / reg))
        beta_r, beta_c = determinant_betas(self.width, np.full(H, growth), samples)
        weights = 2 * (beta_r + B * beta_c)
        weight = float(weights.max() if self.pooled else weights.sum())
        widths = weight * sqrt(samples * factor * growth)
        largest, missed = H * (H + 1) / 2 + B * H, late + self.pooled
        if missed:
            widths = sqrt(2.0) * widths + largest * doubled_rounds(missed, regressions * growth)
        chance = (1 - CONCENTRATION) * self.p
        most = largest * float(resets_upper(widths / largest, chance))
        most += 2 * rounds * float((self.width.z_r + B * self.width.z_c).sum())
        return PrimalRegretBound(min(most, largest * rounds), any_weights=True)
