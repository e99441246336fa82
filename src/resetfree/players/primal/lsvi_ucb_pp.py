"""Variance-weighted LSVI-UCB++ on the composite r - lam c, its running bounds valid for a multiplier that only grows.

Legend: phi features of pairs [S*A, d]; Lam = reg I + sum x phi phi^T with x one over a sample's relative variance; Q
above and Qcheck below the best composite value Q*_lam; R = H + lam its range; top the largest multiplier so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from resetfree.core.settings import NonNegative, Positive
from resetfree.game.contract import Plan, PrimalPlayer, Round, Statement
from resetfree.players.primal.lsvi_ucb_pp_kernel import learn_by_variance, monotone_plan
from resetfree.players.shared.method import Build, Method, penalised
from resetfree.players.shared.pair_features import dimension_of
from resetfree.players.shared.requirements import check_multiplier
from resetfree.players.shared.ridge_players import HasRidge, Samples, Switching, doubled, no_samples, remember
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.transitions import Floats


class Pass(NamedTuple):
    """What a backward pass leaves."""

    policy: Floats  # [H, S, A]
    q: Floats  # [H, S*A]
    q_check: Floats  # [H, S*A]
    values: Floats  # [H, S] V on arrival from each step
    below: Floats  # [H, S] Vcheck on arrival
    v: Floats  # [S] at step 1
    v_r: Floats  # [S]
    v_c: Floats  # [S]


@dataclass
class WeightedState:
    """What has been learned, and the last pass, whose bounds the next one tightens."""

    data: Samples
    last: Pass
    top: float  # largest multiplier so far
    level: float  # multiplier that the last pass may still be played for, -1 if none
    log_det: Floats  # [L] the determinants at the last pass
    passes: int  # backward passes for plans that were played


@dataclass(frozen=True)
class WeightedLSVI(HasRidge, PrimalPlayer[WeightedState]):
    """Greedy for Q = clip(w.phi + scale R width, -lam, H-h+1), with Qcheck, less the width, below it.

    Both regressions weight a sample by one over its relative variance in [1/H, 1]: the estimated variance of V(s') plus
    R times the estimated V - Vcheck, over R^2, and no less than scale width. Pairs whose outcome is certain count up to
    H times as much, so their widths shrink sooner.

    running: take Q_k = min(new, Q_{k-1}) and Qcheck_k = max(new, Qcheck_{k-1}), as the original does. Why that holds
    with a multiplier: Q*_lam does not grow with lam, and falls by at most the growth of lam. So Q_{k-1} stays above,
    and Qcheck_{k-1} less that growth stays below, if lam never falls. It is kept from falling: the plan is made for the
    largest multiplier played so far, whatever the start; rounding a multiplier up does not increase the dual regret.
    It is off by default: a running minimum makes a failure of optimism permanent,
    and tuned widths do fail at times (with it, regret and resets on random-linear-v0 are over ten times as large).

    The structure follows LSVI-UCB++ (He et al. 2023), whose theorem has the rate d sqrt(H^3 K); it is written from
    memory of that structure, with its constants (of the width, of the variance's corrections, of the ridge) replaced by
    `scale`. So no theorem is claimed. v_r and v_c are the regression's values of the greedy policy without bonus; the
    dual's feedback should be the realised resets.

    scale: of the bonuses.  pooled: one regression for all steps (stationary problems).  reg: ridge; None for scale^2.
    switching: "every" plans in every episode, "rare" (as in the original) when a determinant has doubled, after a
      reset, and when the multiplier is another one.
    """

    name: ClassVar[str] = "lsvi-ucb++"
    scale: NonNegative = 0.05
    pooled: bool = False
    reg: Positive | None = None
    switching: Switching = "every"
    running: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> WeightedState:
        """No data yet: Q is at its cap and Qcheck at its floor."""
        data = no_samples(problem, self.name, pooled=self.pooled, reg=self.ridge())
        horizon, last = problem.horizon, _room(data.shape)
        for array in last:
            array[...] = 0.0
        last.q[...] = horizon - np.arange(horizon)[:, None]
        return WeightedState(data, last, top=0.0, level=-1.0, log_det=np.zeros(len(data.log_det)), passes=0)

    def plan(self, state: WeightedState, s1: State, lam: float) -> Plan:
        """The last pass, if it may still be played; else a new one."""
        level = self.level(state, check_multiplier(lam))
        made = state.last if state.level == level else self.backward(state, level)
        return Plan(made.policy, float(made.v_r[s1]), float(made.v_c[s1]), float(made.v[s1]))

    def backward(self, state: WeightedState, lam: float) -> Pass:
        """The whole pass; with running bounds for a multiplier that is not below the largest so far."""
        data, made = state.data, _room(state.data.shape)
        above, under = np.full_like(made.q, np.inf), np.full_like(made.q, -np.inf)
        if self.running:
            above, under = state.last.q, state.last.q_check - (lam - state.top)
        monotone_plan(*data.fitted, self.scale, lam, data.known, data.known_last, above, under, *made)
        return made

    def update(self, state: WeightedState, round: Round) -> WeightedState:
        """Keep the pass that was played; add the steps that were taken, weighted by its values."""
        data, episode = state.data, round.episode
        level = self.level(state, round.lam)
        if state.level != level:
            state.last = self.backward(state, level)
            state.level, state.top = level, max(level, state.top)
            state.log_det = data.log_det.copy()
            state.passes += 1
        fitted = (data.regression, data.phi, data.log_det, data.layer_of_step, state.last.values, state.last.below)
        constants = (self.scale, 1.0 / data.shape[0], level, data.shape[2])
        walk = (episode.states, episode.actions, episode.rewards)
        learn_by_variance(*fitted, *constants, *walk, np.empty(len(episode.actions)))
        remember(data, episode)
        if self.switching == "every" or episode.reset or doubled(data, state.log_det):
            state.level = -1.0
        return state

    def level(self, state: WeightedState, lam: float) -> float:
        """The multiplier that is planned for: with running bounds it never falls."""
        return max(lam, state.top) if self.running else lam

    @staticmethod
    def methods() -> list[Method]:
        """Against a constant multiplier B."""

        def build(running: bool) -> Build:
            return penalised(lambda s: WeightedLSVI(**s.own, switching="rare", running=running))

        text, same = "Variance-weighted LSVI-UCB on r - B c.", "The same with the running minimum of the original."
        return [
            Method("LSVI-UCB++", "ours", text, build(False), rank=21),
            Method("LSVI-UCB++, running bounds", "ours", same, build(True), rank=21),
        ]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Constants of this run; no theorem."""
        constants: dict[str, Any] = {"scale": self.scale, "reg": self.ridge(), "width": "tuned"}
        constants |= {"switching": self.switching, "d": dimension_of(problem)}
        return Statement(constants, False, "no theorem covers this run: its constants are tuned, not those of a proof")


def _room(shape: tuple[int, int, int]) -> Pass:
    """Arrays for a pass, not yet filled."""
    horizon, n_states, n_actions = shape
    pairs, arrivals = (horizon, n_states * n_actions), (horizon, n_states)
    arrays = (np.empty(size) for size in (shape, pairs, pairs, arrivals, arrivals, *[(n_states,)] * 3))
    return Pass(*arrays)
