"""What Algorithm 1 keeps where its widths grow with the determinants of its data (see `proved_widths`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from resetfree.game.contract import Round
from resetfree.players.linear.lazy_softmax import Widths
from resetfree.players.linear.ridge import softmax_plan
from resetfree.players.linear.ridge_players import Regressed, Samples, add, no_samples
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.transitions import Floats
from resetfree.theory.proved_widths import DeterminantWidth, determinant_betas

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
