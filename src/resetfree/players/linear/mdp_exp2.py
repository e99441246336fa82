"""MDP-EXP2: exponential weights on action values that are estimated in each epoch, for a life without episodes.

After Wei, Jafarnia-Jahromi, Luo and Jain (2021, "Learning infinite-horizon average-reward MDPs with linear function
approximation"). Kept: a policy is held for an epoch; of every 2N steps the first N are waited for, then one pair is
taken with the sum of the next N rewards; least squares of those sums on the features give w_k, and the next policy is
proportional to exp(eta sum_j phi.w_j). Adapted: the ridge 1 replaces the test of the smallest eigenvalue (which no
one-hot features pass unless every pair is met in every epoch); epochs are whole numbers of real episodes; a reset is
one more transition and takes lam off the reward of its step (lam = 0: resets are free, as in the original); layered
problems have a regression per step; eta is tuned. From memory: the 2N scheme; in the original N is of the order of the
mixing time times log T and the epoch of the order of N / sigma with sigma the excitation, here N = H and the epoch is
about sqrt(K) episodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Annotated, Any, ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import NonNegative, Range
from resetfree.core.state import require
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement, check_multiplier
from resetfree.players.linear.regression import features_of
from resetfree.players.method import Method, free_and_penalised
from resetfree.players.requirements import sizes
from resetfree.problems.contract import Problem, State
from resetfree.problems.finite.backward import exponential_weights


@dataclass
class Exp2State:
    """Summed estimates, the samples of this epoch, and the window that is open."""

    total: Floats  # [L, S, A] sum of phi.w_j
    times: Floats  # [L, S*A] samples of the epoch
    sums: Floats  # [L, S*A] their sums of rewards
    k: int  # episodes seen
    step: int  # of the current 2N, counted from 0
    layer: int  # of the pair whose rewards are being summed
    pair: int
    earned: float
    phi: Floats = field(metadata={"saved": False})  # [S*A, d], empty if one-hot
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    window: int = field(metadata={"saved": False})  # N
    epoch: int = field(metadata={"saved": False})  # episodes per epoch

    def check_loaded(self) -> None:
        """Check that the pair and the step exist."""
        require(self.layer < len(self.times) and self.pair < self.times.shape[1], "pair must be among those there are")
        require(self.step < 2 * self.window, "'step' must lie within the window")


@dataclass(frozen=True)
class MdpExp2(PrimalPlayer[Exp2State]):
    """pi ~ exp(eta sum_j phi.w_j), one policy per epoch, whatever the start and the multiplier.

    eta: step size.  window: N (None: H).  epoch: episodes per epoch (None: sqrt(K)).
    pooled: one regression for all steps, as in the original (stationary problems).

    >>> import resetfree as rf
    >>> state = MdpExp2().init(rf.make("grid-v0").problem(), 2000, 0)
    >>> state.window, state.epoch
    (8, 44)
    """

    name: ClassVar[str] = "mdp-exp2"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    eta: NonNegative = 0.1
    window: Annotated[int, Range(1, 10**9)] | None = None
    epoch: Annotated[int, Range(1, 10**9)] | None = None
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> Exp2State:
        """Nothing summed: every action equally likely."""
        layers, n, n_actions = sizes(problem, self.pooled, self.name)
        total, rows = np.zeros((layers, n, n_actions)), (layers, n * n_actions)
        fixed: dict[str, Any] = {
            "phi": np.empty((0, 0)) if problem.phi is None else features_of(problem),
            "shape": (problem.horizon, n, n_actions),
            "window": self.window or problem.horizon,
            "epoch": self.epoch or max(1, isqrt(max(episodes, 1))),
        }
        return Exp2State(total, np.zeros(rows), np.zeros(rows), k=0, step=0, layer=0, pair=0, earned=0.0, **fixed)

    def plan(self, state: Exp2State, s1: State, lam: float) -> Plan:
        """The epoch's policy; it has no estimates for a start, and v_r = v_c = 0 promise nothing."""
        check_multiplier(lam)
        policy = np.empty(state.shape)
        total = np.ascontiguousarray(np.broadcast_to(state.total, state.shape))
        exponential_weights(total, self.eta, policy)
        return Plan(policy, 0.0, 0.0)

    def update(self, state: Exp2State, round: Round) -> Exp2State:
        """Move the window along; at the end of an epoch fit and add."""
        episode, n_layers = round.episode, len(state.total)
        for i, a in enumerate(episode.actions):
            last = episode.reset and i == len(episode.actions) - 1
            pair = int(episode.states[i]) * state.shape[2] + int(a)
            self._step(state, i % n_layers, pair, float(episode.rewards[i]) - (round.lam if last else 0.0))
        state.k += 1
        if state.k % state.epoch == 0:
            state.total += estimates(state.phi, state.times, state.sums).reshape(state.total.shape)
            state.times[:], state.sums[:] = 0.0, 0.0
            state.step = 0
        return state

    def _step(self, state: Exp2State, layer: int, pair: int, reward: float) -> None:
        """One step of the 2N: wait, open, sum, close."""
        if state.step == state.window:
            state.layer, state.pair, state.earned = layer, pair, 0.0
        if state.step >= state.window:
            state.earned += reward
        state.step += 1
        if state.step == 2 * state.window:
            state.times[state.layer, state.pair] += 1.0
            state.sums[state.layer, state.pair] += state.earned
            state.step = 0

    @staticmethod
    def methods() -> list[Method]:
        """Without and with a penalty for a reset; its width is eta."""
        text = "Exponential weights of values fitted per epoch"
        return free_and_penalised("mdp-exp2", text, lambda s: MdpExp2(eta=s.width, pooled=s.pooled), 53)

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Its theorem is about another criterion."""
        why = "its sqrt(T) theorem needs uniform mixing and excitation under every policy, and no resets"
        window = self.window or problem.horizon
        return Statement({"eta": self.eta, "window": window, "pooled": self.pooled}, False, why)


def estimates(phi: Floats, times: Floats, sums: Floats) -> Floats:
    """[L, S*A] phi.w with w = (I + sum phi phi^T)^-1 sum phi R per layer; one-hot if `phi` is empty."""
    if phi.size == 0:
        return np.asarray(sums / (times + 1.0))
    fitted = [
        phi @ np.linalg.solve(np.eye(phi.shape[1]) + (phi * n[:, None]).T @ phi, phi.T @ total)
        for n, total in zip(times, sums, strict=True)
    ]
    return np.stack(fitted)
