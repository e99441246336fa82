"""The bounds without a model hold as often as they say, at all rounds at once, whatever the process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import poisson

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.theory.certificates.anytime import (
    mixture_boundary,
    regret_lower,
    regret_upper,
    resets_lower,
    resets_upper,
    return_variance,
    upper_sum,
)

SEEDS, K, DELTA = 200, 1500, 0.1
MOST = 20  # of 200 seeds: what DELTA = 0.1 allows on average, and far more than these bounds need


def adaptive_resets(probability: Callable[[int, Floats], Floats | float]) -> tuple[Floats, Floats]:
    """[SEEDS, K] resets so far and the sum of their probabilities, which may depend on the resets before."""
    rng = np.random.default_rng(1)
    happened, expected = np.empty((SEEDS, K)), np.empty((SEEDS, K))
    n, total = np.zeros(SEEDS), np.zeros(SEEDS)
    for k in range(K):
        p = probability(k, n) * np.ones(SEEDS)
        n = n + (rng.random(SEEDS) < p)
        total = total + p
        happened[:, k], expected[:, k] = n, total
    return happened, expected


@pytest.mark.parametrize(
    "probability",
    [
        lambda k, n: 0.02,
        lambda k, n: 0.7,
        lambda k, n: 1.0 / (1.0 + n),  # fewer after each reset, as a learner has it
        lambda k, n: np.where(n * 10 < k, 0.3, 0.01),  # against the bound: rises where resets have been few
        lambda k, n: 0.0,
        lambda k, n: 1.0,
    ],
)
def test_resets_stay_between_the_bounds_at_all_rounds(probability: Callable[[int, Floats], Floats | float]) -> None:
    happened, expected = adaptive_resets(probability)
    above = (expected > resets_upper(happened, DELTA)).any(axis=1)
    below = (expected < resets_lower(happened, DELTA) - 1e-9).any(axis=1)
    assert above.sum() <= MOST
    assert below.sum() <= MOST


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_no_process_of_small_probabilities_beats_the_bound(delta: float) -> None:
    """Exactly, for resets that come one by one at random times (Poisson): Resets(k) is then time, and the bound fails
    if at some time U(n) no more than n resets have happened. Probabilities of each number, n by n."""
    n_most, time, failed = 120, 0.0, 0.0
    bound, alive = resets_upper(np.arange(n_most), delta), np.eye(1, 600)[0]
    for n, now in enumerate(bound):
        alive = np.convolve(alive, poisson.pmf(np.arange(200), now - time))[:600]
        failed, time = failed + float(alive[: n + 1].sum()), float(now)
        alive[: n + 1] = 0.0
    assert delta / 4 < failed <= delta  # and it is not far from failing


def test_a_smaller_bound_would_not_be_covered() -> None:
    """The count itself is no bound on its expectation: the tests above could fail."""
    happened, expected = adaptive_resets(lambda k, n: 0.02)
    assert (expected > happened + 1.0).any(axis=1).sum() > MOST
    assert (expected < happened - 1.0).any(axis=1).sum() > MOST


def test_reset_bounds_are_the_best_of_the_grid() -> None:
    n = np.array([0.0, 1.0, 7.0, 400.0, 1e6])
    t = 2.0 ** (1 - np.arange(40))[:, None]
    log_delta = np.log((np.arange(40) + 1) * (np.arange(40) + 2) / 0.05)[:, None]
    np.testing.assert_allclose(resets_upper(n, 0.05), ((t * n + log_delta) / (1 - np.exp(-t))).min(axis=0), rtol=1e-12)
    best = np.maximum(((t * n - log_delta) / (np.exp(t) - 1)).max(axis=0), 0.0)
    np.testing.assert_allclose(resets_lower(n, 0.05), best, rtol=1e-12)
    assert (resets_lower(n, 0.05) <= n).all()
    assert (n <= resets_upper(n, 0.05)).all()
    assert resets_upper(1e6, 0.05) < 1.01e6  # relatively tight when there is much to see
    assert resets_lower(1e6, 0.05) > 0.99e6


@pytest.mark.parametrize("rho", [1.0, 50.0, 5000.0])
def test_the_boundary_covers_random_walks(rho: float) -> None:
    rng = np.random.default_rng(2)
    walks = rng.normal(size=(SEEDS, K)).cumsum(axis=1)
    boundary = mixture_boundary(np.arange(1.0, K + 1), DELTA, rho)
    assert (np.abs(walks) > boundary).any(axis=1).sum() <= MOST
    if rho < K / 5:  # tightest where v is about 5 rho: there it is not idly wide either
        assert (np.abs(walks) > 0.6 * boundary).any(axis=1).sum() > MOST / 2


def test_the_boundary_is_the_level_set_of_the_mixture() -> None:
    """E_y exp(y S - y^2 v / 2) for y ~ N(0, 1/rho), integrated numerically, is 1/delta on the boundary."""
    v, rho, delta = 30.0, 4.0, 0.05
    s = float(mixture_boundary(v, delta, rho))
    y = np.linspace(-8, 8, 400_001)
    density = np.sqrt(rho / (2 * np.pi)) * np.exp(-rho * y**2 / 2)
    mixed = float(np.trapezoid(density * np.exp(y * s - y**2 * v / 2), y))
    assert mixed == pytest.approx(1 / delta, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, "bernoulli", 0.7])
def test_regret_stays_below_its_bound(noise: float | str) -> None:
    """H rewards of a mean that depends on the past; V* = H * 0.8 from one start, named with a margin that shrinks."""
    rng, horizon, n_rounds = np.random.default_rng(3), 5, 400
    reward, mean = np.empty((SEEDS, n_rounds)), np.empty((SEEDS, n_rounds))
    luck = np.zeros(SEEDS)
    for k in range(n_rounds):
        mean[:, k] = horizon * np.clip(0.8 - 0.3 / np.sqrt(k + 1) - 0.05 * np.sign(luck), 0, 1)
        # All or nothing is the widest return in [0, H].
        paid = horizon * (rng.random(SEEDS) < mean[:, k] / horizon)
        if isinstance(noise, float):
            paid = paid + noise * np.sqrt(horizon) * rng.normal(size=SEEDS)
        luck += paid - mean[:, k]
        reward[:, k] = paid
    rounds = np.arange(1, n_rounds + 1)
    above = np.cumsum(np.minimum(horizon * (0.8 + 0.2 / rounds), horizon))
    truth = 0.8 * horizon * rounds - mean.cumsum(axis=1)
    bound = regret_upper(rounds, above, reward.cumsum(axis=1), horizon, DELTA, noise)
    assert (truth > bound).any(axis=1).sum() <= MOST


def test_noise_adds_its_variance() -> None:
    assert return_variance(6) == return_variance(6, "bernoulli") == 9.0
    assert return_variance(6, 2.0) == 9.0 + 24.0
    rng, y = np.random.default_rng(4), 0.4
    returns = 6.0 * (rng.random(200_000) < 0.5) - 3.0 + 2.0 * rng.normal(size=(6, 200_000)).sum(axis=0)
    assert np.log(np.exp(y * returns).mean()) <= y**2 * return_variance(6, 2.0) / 2


def test_each_start_uses_the_best_of_all_its_rounds() -> None:
    rng = np.random.default_rng(5)
    s1, upper = rng.integers(4, size=60), rng.uniform(0, 8, size=60)
    naive = [
        sum(min(6.0, min(upper[j] for j in range(k + 1) if s1[j] == s1[i])) for i in range(k + 1)) for k in range(60)
    ]
    np.testing.assert_allclose(upper_sum(s1, upper, 6), naive, rtol=1e-12)
    points = rng.random(60)  # a continuum: no start comes twice
    np.testing.assert_allclose(upper_sum(points, upper, 6), np.minimum(upper, 6).cumsum())


def test_regret_from_below() -> None:
    np.testing.assert_array_equal(regret_lower([0, 5], 3.0, 0.05), -3.0 * resets_upper([0, 5], 0.05))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: resets_upper([-1]),
        lambda: resets_upper([1], delta=0.0),
        lambda: resets_lower([1], delta=1.0),
        lambda: mixture_boundary(1.0, 0.05, 0.0),
        lambda: mixture_boundary(1.0, 2.0),
        lambda: regret_lower([1], -1.0),
    ],
)
def test_what_they_must_be_given(bad: Callable[[], object]) -> None:
    with pytest.raises(InvalidInput, match="must"):
        bad()
