"""The paper's remark on the tabular setting: its rates are those of linear MDPs with d = |S| |A|."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.certificates import primal_bound

B, K = 40.0, 100


def a_run(mdp: rf.FiniteMDP) -> rf.Run:
    settings: dict[str, dict[str, Any]] = {"primal": {"width": "theory", "B": B}, "dual": {"B": B}}
    return rf.learn(
        mdp, "linear-ucb", "projected-gradient", episodes=K, seed=1, feedback="optimistic", settings=settings
    )


def test_the_same_run_on_one_hot_features_has_the_same_rate() -> None:
    mdp = rf.make("grid-v0")
    linear = mdp.replace(phi=np.eye(mdp.n_states * mdp.n_actions).reshape(mdp.n_states, mdp.n_actions, -1))
    assert primal_bound(a_run(linear)).most == pytest.approx(primal_bound(a_run(mdp)).most, rel=1e-12)


def test_the_rate_grows_as_the_root_of_the_cube_of_pairs() -> None:
    """sqrt(S^3 A^3) up to logarithms: four times the pairs make 8 times the rate, and no power more or less."""
    bounds = []
    for n_states in (50, 200, 800):
        transition = np.zeros((n_states, 2, n_states))
        transition[:, :, 0] = 1.0
        reset = np.arange(n_states) == n_states - 1
        problem = rf.FiniteMDP(transition, np.zeros((n_states, 2)), reset, 2).problem()
        player = LinearUCB(width="theory", B=1.0)
        bounds.append(player.primal_regret_bound(problem, 10**6, 10**6).most)
    assert all(7.0 < more / less < 9.0 for less, more in pairwise(bounds))
