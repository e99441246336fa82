"""Exploration by noise: least-squares values of the composite r - lam c, perturbed once per episode (RLSVI).

Legend: phi features of pairs [S*A, d]; Lam their regularised second moments; lam the multiplier; z ~ N(0, I_d).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import NonNegative, Positive, PositiveInt
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.linear.regression import HasRidge, Samples, add, dimension_of, no_samples
from resetfree.players.method import Method, penalised
from resetfree.players.requirements import TakesEpisodes
from resetfree.problems.contract import Problem, State


@dataclass
class PerturbedState:
    """The samples, and the seed of the noise."""

    data: Samples
    seed: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class PerturbedHistory(TakesEpisodes, HasRidge, PrimalPlayer[PerturbedState]):
    """Q = clip(w.phi + scale (H-h+1 + lam) max_m phi.Lam^-1/2 z_m, -lam, H-h+1), greedy, w the regression of r + V(s').

    Noise of this law is what perturbing every target of the history, and the ridge, with independent normal numbers
    gives. For one-hot features it is tabular RLSVI, with noise scale (H-h+1 + lam) / sqrt(n) on a pair tried n times.
    The composite is perturbed as a whole. Each layer of data has its own noise, so pooled data share theirs.

    The noise of episode k comes from the run's seed and k alone: planning is repeatable, and plans for different
    multipliers share it. v_r and v_c are the regression's estimates for the greedy policy without noise.
    Its width is tuned; no theorem is claimed (known bounds take other constants and a known reward range), and none is
    known for the cost alone, so the dual's feedback should be the realised resets.

    scale: size of the noise.  draws: M, the largest of M draws is used per pair (1: plain sampling).
    pooled: one regression for all steps (only for stationary problems).  reg: the ridge; None for scale^2.
    """

    name: ClassVar[str] = "perturbed-history"
    prediction: ClassVar[Prediction] = "low"
    scale: NonNegative = 0.05
    draws: PositiveInt = 4
    pooled: bool = False
    reg: Positive | None = None

    def init(self, problem: Problem, episodes: int, seed: int) -> PerturbedState:
        """No data yet; refuses problems that are not finite and layered problems if pooled."""
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.ridge(), by_features=True)
        return PerturbedState(data, seed)

    def plan(self, state: PerturbedState, s1: State, lam: float) -> Plan:
        """Draw the noise of this episode, and run the backward pass for this multiplier."""
        policy, _, v_r, v_c, _ = self.backward(state, check_multiplier(lam), self.noise(state))
        return Plan(policy, float(v_r[s1]), float(v_c[s1]))

    def noise(self, state: PerturbedState) -> Floats:
        """[L, S*A] the largest of M draws of phi.Lam^-1/2 z, for the coming episode."""
        regression, phi = state.data.regression, state.data.phi
        rng = np.random.default_rng([state.seed, state.data.k])
        if phi.size == 0:  # one-hot: the entries are independent
            z = rng.standard_normal((self.draws, *regression.width2.shape)).max(axis=0)
            return np.asarray(np.sqrt(regression.width2) * z)
        root = np.linalg.cholesky(regression.gram)  # [L, d, d]
        z = rng.standard_normal((*root.shape[:2], self.draws))
        return np.ascontiguousarray((phi @ (root @ z)).max(axis=2))

    def backward(
        self, state: PerturbedState, lam: float, noise: Floats
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """The whole pass: policy [H, S, A]; V, V_r and V_c [S] at step 1; Q [H, S*A]."""
        return state.data.greedy(lam, (self.scale, 0.0, False, noise))

    def update(self, state: PerturbedState, round: Round) -> PerturbedState:
        """Add the steps that were taken; remember which states turned out to be reset states."""
        add(state.data, round.episode)
        return state

    @staticmethod
    def methods() -> list[Method]:
        """Against a constant multiplier B."""
        build = penalised(lambda s: PerturbedHistory(**s.own))
        return [Method("perturbed history", "ours", "RLSVI on r - B c, the largest of four draws.", build, rank=22)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run; no theorem."""
        constants: dict[str, Any] = {"scale": self.scale, "draws": self.draws, "reg": self.ridge(), "width": "tuned"}
        constants["d"] = dimension_of(problem)
        return Statement(constants, False, "no theorem covers this run: the size of the noise is tuned, not proved")
