"""The paper's remark on the tabular setting: its rates are those of linear MDPs with d = |S| |A|."""

from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.players.linear.regression import dimension_of
from resetfree.theory.certificates import RATES, certify, primal_bound

B, K = 40.0, 100


def a_run(mdp: rf.FiniteMDP) -> rf.Run:
    settings: dict[str, dict[str, Any]] = {"primal": {"width": "theory", "B": B}, "dual": {"B": B}}
    return rf.learn(
        mdp, "linear-ucb", "projected-gradient", episodes=K, seed=1, feedback="optimistic", settings=settings
    )


def test_a_tabular_run_is_certified_with_the_rate_of_its_one_hot_features() -> None:
    """The three rates are proved on a table, with d = |S| |A| in their formula; a smaller d makes a smaller rate."""
    mdp = rf.make("grid-v0")
    run = a_run(mdp)
    H, A, d, player = mdp.horizon, mdp.n_actions, mdp.n_states * mdp.n_actions, run.player_again("primal")
    assert dimension_of(run.problem_again()) == d
    beta_r, beta_c = player.betas(run.problem_again(), K)
    alpha, p = player.temperature(run.problem_again(), K), player.p

    def rate(d: int) -> float:
        widths = 2 * (beta_r + B * beta_c) * H * sqrt(2 * d * K * log(1 + K / d))
        return float(K * H * log(A) / alpha + widths + 2 * (H + B) * sqrt(K * H * log(2 / p)))

    found = {c.claim: c for c in certify(run)}
    assert [found[claim].status for claim in RATES] == ["proved"] * 3
    assert all(found[claim].holds for claim in RATES)
    assert primal_bound(run).most == pytest.approx(rate(d), rel=1e-12)
    assert found[RATES[0]].rhs <= rate(d)  # or by Regret and what the resets cost, whichever is less
    assert rate(mdp.n_states) < 0.9 * rate(d)


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
