"""MEDAL: a forward agent that earns, and a backward agent that returns to where an expert would be.

After Sharma, Ahmad and Finn (2022, "A state-distribution matching approach to non-episodic reinforcement learning").
Kept: a few demonstrations of the task; a backward agent whose reward is -log(1 - D(s)), D telling the states of the
demonstrations from those that the backward agent meets; the two agents take turns; the forward agent has learned from
the demonstrations before it begins. Adapted: demonstrations are trajectories of pi* from the first starts, made through
the oracle; tables in place of deep networks, D(s) = rho*(s) / (rho*(s) + rho_b(s)) from counts with one pseudo-count
per state in rho_b; a turn is an episode of the protocol; both agents learn by Q-learning from all steps, backwards
through each episode; nothing is earned in or after a reset state, and resets are not penalised otherwise. From memory:
that the forward agent's replay begins with the demonstrations; the original's turns of 300 steps and discount 0.99.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from resetfree.core.settings import Fraction, Range
from resetfree.game.contract import Plan, Prediction, PrimalPlayer, Round, Statement
from resetfree.players.method import Method, penalised
from resetfree.players.requirements import check_restarts, sizes
from resetfree.players.tabular.reset_free import epsilon_greedy, learn_backwards, successors
from resetfree.problems.contract import Episode, Problem, State
from resetfree.problems.finite.backward import Floats, Ints
from resetfree.problems.finite.mdp import model_behind
from resetfree.theory.oracle.dynamic_programming import solve


@dataclass
class MedalState:
    """Both agents' tables and the states that the backward agent visited."""

    q: Floats  # [L, S, A] forward
    n: Ints  # [L, S, A]
    back: Floats  # [L, S, A] backward
    n_back: Ints  # [L, S, A]
    visits: Ints  # [S] of the backward agent
    k: int  # episodes seen; the forward agent has the even ones, counted from 0
    expert: Floats = field(metadata={"saved": False})  # [S] rho*
    horizon: int = field(metadata={"saved": False})


@dataclass(frozen=True)
class Medal(PrimalPlayer[MedalState]):
    """Forward and backward episodes in turn, both epsilon-greedy on their tables.

    demonstrations: trajectories of pi*.  epsilon: share of random actions.  discount: of both agents (None:
    1 - 1 / (2 H)).  rate: least learning rate.  pooled: one table for all steps (stationary problems).

    >>> import resetfree as rf
    >>> state = Medal().init(rf.make("grid-v0").problem(), 10, 0)
    >>> round(float(state.expert.sum()), 12)
    1.0
    """

    name: ClassVar[str] = "medal"
    baseline: ClassVar[bool] = True
    prediction: ClassVar[Prediction] = "none"
    demonstrations: Annotated[int, Range(1, 10**6)] = 10
    epsilon: Fraction = 0.1
    discount: Fraction | None = None
    rate: Fraction = 0.1
    pooled: bool = False

    def init(self, problem: Problem, episodes: int, seed: int) -> MedalState:
        """Learn from demonstrations of the optimal policy."""
        check_restarts(problem, self.name)
        shape = sizes(problem, self.pooled, self.name)
        solution = solve(model_behind(problem), starts=[])
        rng = np.random.default_rng([seed, 0])
        state = MedalState(
            q=np.zeros(shape),
            n=np.zeros(shape, dtype=np.int64),
            back=np.zeros(shape),
            n_back=np.zeros(shape, dtype=np.int64),
            visits=np.zeros(shape[1], dtype=np.int64),
            k=0,
            expert=np.zeros(shape[1]),
            horizon=problem.horizon,
        )
        for _ in range(self.demonstrations):
            shown = problem.rollout(solution.policy, problem.first_start(rng.random()), rng.random(problem.n_uniforms))
            np.add.at(state.expert, shown.states, 1.0)
            self._learn(state, shown, state.q, state.n, shown.rewards)
        state.expert /= state.expert.sum()
        return state

    def plan(self, state: MedalState, s1: State, lam: float) -> Plan:
        """The policy of the agent whose turn it is; no estimate of V_c, and v_c = 0 promises nothing.

        The multiplier does not enter.
        """
        rows = epsilon_greedy(state.q if state.k % 2 == 0 else state.back, self.epsilon)
        policy = np.ascontiguousarray(np.broadcast_to(rows, (state.horizon, *rows.shape[1:])))
        return Plan(policy, min(max(float(state.q[0, s1].max()), 0.0), float(state.horizon)), 0.0)

    def update(self, state: MedalState, round: Round) -> MedalState:
        """Both agents learn from every step; the backward agent's visits count against its reward."""
        episode = round.episode
        if round.rests_on % 2 == 1:  # whose plan it was
            np.add.at(state.visits, episode.states, 1)
        self._learn(state, episode, state.q, state.n, episode.rewards)
        gains = matching_reward(state.expert, state.visits)[successors(episode)]
        if episode.reset:
            gains[-1] = 0.0
        self._learn(state, episode, state.back, state.n_back, gains)
        state.k += 1
        return state

    def _learn(self, state: MedalState, episode: Episode, q: Floats, n: Ints, gains: Floats) -> None:
        m = len(episode.actions)
        dead = np.zeros(m, dtype=np.bool_)
        dead[-1] = episode.reset
        discount = 1.0 - 0.5 / state.horizon if self.discount is None else self.discount
        walk = (episode.states[:m].astype(np.int64), episode.actions, successors(episode))
        learn_backwards(q, n, *walk, gains, dead, np.ones(m, dtype=np.bool_), discount, self.rate)

    @staticmethod
    def methods() -> list[Method]:
        """Its width is epsilon."""
        build = penalised(lambda s: Medal(epsilon=s.width, pooled=s.pooled), 0.0)
        text = "Forward and backward Q-learners, given ten trajectories of pi*."
        return [Method("medal", "oracle", text, build, rank=51)]

    def statement(self, problem: Problem, episodes: int) -> Statement:
        """Nothing is proved."""
        why = "no theorem: the original is empirical, and its tables here are tuned (given trajectories of pi*)"
        return Statement({"demonstrations": self.demonstrations, "epsilon": self.epsilon, "oracle": True}, False, why)


def matching_reward(expert: Floats, visits: Ints) -> Floats:
    """[S] -log(1 - D) with D = rho* / (rho* + rho_b), that is log(1 + rho* / rho_b)."""
    met = (visits + 1.0) / (visits.sum() + len(visits))
    return np.asarray(np.log1p(expert / met))
