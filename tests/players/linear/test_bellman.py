"""The Bellman inequalities of Algorithm 1 where they bite: most values are neither at their cap nor at zero.

At the proved width and the K of a test every Q_r is at its cap and every Q_c at zero, where the inequalities hold for
any learner whatever. In a problem whose next states and rewards are certain, one-hot features and ridge 1 have an error
that is known exactly: after N visits the estimate is N/(N+1) of the target T, so it is T/(N+1) too small, and
beta_r = H and beta_c = 1 are wide enough on every path, with no probability at all. There

  T_r <= Q_r <= T_r + 2 H / sqrt(N+1)  and  T_c - 2 / sqrt(N+1) <= Q_c <= T_c

for every (h, s, a), with N counted here and not by the learner: one that learns nothing, or something else, fails.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.linear.linear_ucb import LinearState, LinearUCB
from resetfree.problems.finite.tabular_policy import uniform

Floats = NDArray[np.float64]
EPISODES = 4000
MDP = rf.make("grid-v0", slip=0.0, horizon=4)


def reversed_states(this: rf.Round) -> rf.Round:
    """The round as a learner sees it that numbers the states from the other end."""
    last = MDP.n_states - 1
    states = last - np.asarray(this.episode.states)
    return this._replace(episode=dataclasses.replace(this.episode, states=states))


def inverted_rewards(this: rf.Round) -> rf.Round:
    """The round as a learner sees it that takes every reward for what it lacks to 1."""
    rewards = 1.0 - np.asarray(this.episode.rewards)
    return this._replace(episode=dataclasses.replace(this.episode, rewards=rewards))


def honest(this: rf.Round) -> rf.Round:
    return this


def nothing(this: rf.Round) -> None:
    """Learning switched off."""


def least_slack(seen: Callable[[rf.Round], rf.Round | None]) -> tuple[float, float, float]:
    """Least slack over all (h, s, a) at all times; the shares of Q_r below the cap and of Q_c above zero."""
    problem, primal = MDP.problem(), LinearUCB(B=40.0, scale=1.0, reg=1.0)
    state = primal.init(problem, EPISODES, 0)
    assert isinstance(state, LinearState)
    assert (state.beta_r, state.beta_c) == (MDP.horizon, 1.0)
    rng, policy, s1 = np.random.default_rng(5), uniform(MDP), 0
    visits = np.zeros((MDP.horizon, MDP.n_states, MDP.n_actions))
    slack = np.inf
    for k in range(1, EPISODES + 1):
        lam = float(rng.uniform(0, 5))
        plan = primal.plan(state, s1, lam)
        episode = problem.rollout(policy, s1, rng.random(problem.n_uniforms))
        for h, (s, a) in enumerate(zip(episode.states, episode.actions, strict=False)):
            visits[h, s, a] += 1
        told = seen(rf.Round(k, s1, lam, plan, episode, 0.0, None))
        state = state if told is None else primal.update(state, told)
        s1 = int(rng.choice(np.flatnonzero(~MDP.reset)))
        if k % 250 == 0:
            assert isinstance(state, LinearState)
            pi, _, _, q_r, q_c = primal.backward(state, lam)
            slack = min(slack, bellman(pi, q_r.reshape(visits.shape), q_c.reshape(visits.shape), visits))
    live = ~MDP.reset
    caps = np.arange(MDP.horizon, 0, -1.0)[:, None, None]
    q_r, q_c = (q.reshape(visits.shape)[:, live] for q in (q_r, q_c))
    return slack, float((q_r < caps - 1e-6).mean()), float((q_c > 1e-6).mean())


def bellman(policy: Floats, q_r: Floats, q_c: Floats, visits: Floats) -> float:
    live, width = ~MDP.reset, 1 / np.sqrt(visits + 1)
    v_r, v_c, least = np.zeros(MDP.n_states), np.zeros(MDP.n_states), np.inf
    for h in reversed(range(MDP.horizon)):
        dead = MDP.last_reset if h == MDP.n_transitions - 1 else MDP.reset
        layer, shape = MDP.transition.matrix(0), (MDP.n_states, MDP.n_actions)
        target_r = MDP.reward[MDP.model.reward_of_step[h]] + (layer @ np.where(dead, 0.0, v_r)).reshape(shape)
        target_c = (layer @ np.where(dead, 1.0, v_c)).reshape(shape)
        for gap in (
            q_r[h] - target_r,
            target_r + 2 * MDP.horizon * width[h] - q_r[h],
            target_c - q_c[h],
            q_c[h] + 2 * width[h] - target_c,
        ):
            least = min(least, float(gap[live].min()))
        v_r, v_c = (policy[h] * q_r[h]).sum(axis=1), (policy[h] * q_c[h]).sum(axis=1)
    return least


def test_the_inequalities_hold_where_most_values_are_learned() -> None:
    slack, below_cap, above_zero = least_slack(honest)
    assert slack >= -1e-9
    assert below_cap > 0.9
    assert above_zero > 0.1  # what leads into a pit; elsewhere the learned policy's V_c is zero


@pytest.mark.parametrize("broken", [nothing, reversed_states, inverted_rewards])
def test_a_broken_learner_fails_them(broken: Callable[[rf.Round], rf.Round | None]) -> None:
    assert least_slack(broken)[0] < -0.1
