"""Randomised value iteration on counts: optimism by one draw of Gaussian noise per episode instead of a bonus.

Legend: n how often a pair was tried; rest = H - h the reward that can follow step h (h from 1); lam the multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import ClassVar

import numpy as np

from resetfree.core.settings import NonNegative
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Method, penalised
from resetfree.players.requirements import TakesEpisodes, check_episodes
from resetfree.players.tabular.count_players import HOEFFDING, Bonus, CountState, Ties, fresh, multiplier
from resetfree.problems.contract import Problem, State


@dataclass(frozen=True)
class RLSVI(TakesEpisodes, PrimalPlayer[CountState]):
    """Q = clip(rhat + Phat V + sigma z, -lam, H - h + 1), z ~ N(0, 1), sigma = scale (rest + lam) / sqrt(n); greedy.

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
