"""What is left where assumptions hold only nearly: measured distances, and the bounds with them."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.certificate import Certificate
from resetfree.core.errors import InvalidInput
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.theory.assumptions import linearity
from resetfree.theory.assumptions.linearity import (
    misspecification,
    nearest_linear,
    nearest_multipliers,
    ridge_bias,
)
from resetfree.theory.certificates import OPTIMISM, RATES, certify
from resetfree.theory.certificates.claims_dual import NEARLY

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


NEAR = {"n_states": 5, "n_actions": 3, "d": 3, "horizon": 2}


def test_distances_are_to_linear_problems_with_the_norms_of_the_assumption() -> None:
    """Shortening a fit that is too long costs distance: never below the least one, and 0 where nothing is wrong."""
    for epsilon in (0.0, 0.3, 0.9):
        mdp = rf.make("random-linear-v0", **NEAR, epsilon=epsilon)
        least, admissible = misspecification(mdp), nearest_linear(mdp)
        assert admissible.reward >= least.reward - 1e-9
        assert (max(admissible) < 1e-9) == (epsilon == 0.0)
    assert nearest_linear(rf.make("grid-v0")) == (0.0, 0.0)
    mdp = rf.make("random-linear-v0", **NEAR)
    assert mdp.phi is not None
    small = mdp.replace(phi=mdp.phi / 10)  # still linear, by measures that are ten times too long
    assert misspecification(small).transition < 1e-9
    assert nearest_linear(small).transition > 0.5


def near(epsilon: float, declared: tuple[float, float] | None = None) -> list[Certificate]:
    """Claims of optimism and rates of a run whose widths are for a declared distance, by default the measured one."""
    mdp = rf.make("random-linear-v0", **NEAR, epsilon=epsilon)
    p, r = nearest_linear(mdp) if declared is None else declared
    settings = {"primal": {"width": "proved", "epsilon_p": p, "epsilon_r": r}}
    algorithm = partial(rf.learn, mdp, "linear-ucb", "projected-gradient", feedback="optimistic")
    run = algorithm(episodes=3000, seed=1, settings=settings)
    return [c for c in certify(run) if c.claim in (*OPTIMISM, *RATES)]


def test_widths_with_the_measured_epsilon_are_proved_and_those_without_are_wrong() -> None:
    widened = near(0.9)
    assert all(c.status == "proved" and c.holds for c in widened)  # each by chance with probability at least 0.95
    assert all("measured" in c.why for c in widened)
    plain = near(0.9, declared=(0.0, 0.0))
    assert {c.status for c in plain} == {"tuned"}
    assert not plain[0].holds
    short = near(0.9, declared=(0.5, 0.5))
    assert {c.status for c in short} == {"tuned"}
    assert "the widths are for 0.5 and 0.5" in short[0].why


def test_the_rate_grows_by_the_terms_of_epsilon() -> None:
    """By hand, H = 1: z_r = eps_r, z_c = eps_P, in the widths with sqrt(K) and at each point once."""
    problem = rf.make("random-linear-v0", n_states=3, n_actions=3, d=2, horizon=1).problem()
    B, K, p, r = 1.5, 10**6, 0.001, 0.0005
    without, with_them = (
        LinearUCB(B=B, width="proved", epsilon_p=a, epsilon_r=b).primal_regret_bound(problem, K, K).most
        for a, b in ((0.0, 0.0), (p, r))
    )
    growth = 2 * log(1 + K / 2)
    in_widths = 2 * (r + B * p) * sqrt(K) * sqrt(2 * K * growth)
    at_points = 2 * (r + B * p) * K
    more = with_them - without
    assert in_widths + at_points <= more <= 1.01 * (in_widths + at_points)  # expected sums: a factor close to 1
    assert with_them < 0.2 * K  # and it says something


def test_epsilon_is_for_the_proved_width() -> None:
    with pytest.raises(InvalidInput, match="must be proved where epsilon_p or epsilon_r is positive"):
        LinearUCB(B=1.0, epsilon_p=0.1)
    grid = rf.make("grid-v0").problem()  # intervals need no linearity
    one, two = (LinearUCB(B=3.0, width="proved", epsilon_p=e).primal_regret_bound(grid, 99, 99) for e in (0.0, 0.5))
    assert one == two
