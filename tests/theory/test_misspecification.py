"""What is left where assumptions hold only nearly: measured distances, and the bounds with them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.theory.assumptions import linearity
from resetfree.theory.assumptions.misspecification import misspecification, nearest_multipliers, ridge_bias
from resetfree.theory.certificates import certify
from resetfree.theory.certificates.claims_misspecified import NEARLY

DISTANCES = (0.0, 0.02, 0.1, 0.4)


def test_the_family_turns_its_distance_to_linear_problems_up() -> None:
    made = [rf.make("random-linear-v0", epsilon=eps, n_states=12, d=4) for eps in DISTANCES]
    found = [misspecification(mdp) for mdp in made]
    for eps, mdp, far in zip(DISTANCES, made, found, strict=True):
        assert far.transition <= 2 * eps + 1e-9
        assert far.reward <= eps + 1e-9
        assert linearity(mdp).holds == (eps == 0)
        assert rf.check(mdp).findings[0].holds  # what is safe stays safe
        assert np.array_equal(rf.solve(mdp).safe_actions, rf.solve(made[0]).safe_actions)
    assert all(low.transition < high.transition and low.reward < high.reward for low, high in pairwise(found))
    assert misspecification(rf.make("grid-v0")) == (0.0, 0.0)


def test_the_distance_of_rewards_is_the_least() -> None:
    """Three rewards on a line of one feature and a constant: the Chebyshev fit is known."""
    transition = np.zeros((2, 3, 2))
    transition[:, :, 0] = 1.0
    phi = np.zeros((2, 3, 2))
    phi[:] = np.array([[0.0, 0.5], [0.5, 0.5], [0.8, 0.5]])
    reward = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    mdp = rf.FiniteMDP(transition, reward, [False, True], 2, phi=phi)
    assert misspecification(mdp).reward == pytest.approx(0.5)


def test_biased_data_move_a_regression_by_no_more_than_the_lemma_says() -> None:
    rng = np.random.default_rng(0)
    tight = 0.0
    for _ in range(200):
        k, d = int(rng.integers(1, 30)), int(rng.integers(1, 5))
        data, phi = rng.normal(size=(k, d)), rng.normal(size=d)
        inverse = np.linalg.inv(np.eye(d) + data.T @ data)
        for bias in (rng.uniform(-1, 1, k), np.sign(data @ inverse @ phi)):  # the second is the worst there is
            found = ridge_bias(data, bias, phi)
            assert found.holds
            tight = max(tight, found.lhs / found.rhs)
    assert tight > 0.8


def run(B: float, xi: Any = None, **asked: Any) -> rf.Run:
    mdp = rf.make("grid-v0") if xi is None else rf.make("grid-v0").replace(xi=xi, name="few features")
    settings = {"dual": {"B": B}}
    return rf.learn(mdp, "uniform", "projected-gradient", episodes=120, seed=1, settings=settings, **asked)


def claims(found: rf.Run) -> list[Any]:
    return [c for c in certify(found) if c.claim in NEARLY]


@pytest.mark.parametrize("feedback", ["realised", "exact"])
def test_a_bound_that_is_a_little_too_small_costs_a_factor(feedback: str) -> None:
    found = claims(run(38.5, feedback=feedback))
    assert [(c.status, c.holds) for c in found] == [("proved", True)] * 2
    assert "eps = 0.366463" in found[0].why
    assert claims(run(39.0, feedback=feedback)) == []  # lambda* is in the class
    assert {c.status for c in claims(run(20.0, feedback=feedback))} == {"not applicable"}


def test_a_class_without_the_multipliers_is_measured() -> None:
    """A feature that leaves one state a little short: eps is what it lacks, and B is large enough."""
    theta, wanted = nearest_multipliers(rf.make("grid-v0"), np.ones((12, 1)), 100.0)
    assert theta[0] >= np.nanmax(wanted) - 1e-6
    short = np.ones((12, 1))
    top = int(np.nanargmax(wanted))
    short[top] = (np.nanmax(wanted) - 0.25) / 60.0  # with |theta| at most 60
    found = claims(run(60.0, short, feedback="realised"))
    assert "eps = 0.25" in found[0].why
    assert all(c.holds for c in found)


def test_the_factor_is_needed() -> None:
    """Without it the bound fails: a policy that is reset where it pays, and lambda_c just below lambda_hat + 1."""
    transition = np.zeros((2, 2, 2))
    transition[0, 0, 0] = transition[0, 1, 1] = transition[1, :, 1] = 1.0
    mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0]], [False, True], 1)  # lambda_hat = 1
    settings = {"dual": {"B": 1.5}}
    found = rf.learn(mdp, "uniform", "projected-gradient", episodes=50, seed=1, settings=settings, feedback="exact")
    claim = claims(found)[0]
    resets = float(found.resets[-1])
    assert claim.holds
    assert claim.lhs == pytest.approx(0.5 * resets)
    assert claim.rhs == pytest.approx(0.5 * resets)  # attained: no smaller factor would do
