"""The proved widths: what they promise, and their formulas again."""

from itertools import chain, combinations, product
from math import ceil, exp, inf, lgamma, log, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

import resetfree as rf
from resetfree.players.linear.intervals import descending, largest_mean, smallest_mean
from resetfree.players.linear.pair_values import greedy_row, soft_row
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.proved_widths import (
    EACH_SUM,
    CoverWidth,
    cover_betas,
    interval_width,
    kl_lower,
    kl_upper,
    log_corners,
    most_growth,
    overestimates,
)
from resetfree.theory.widths import softmax_alpha, theory_beta

Floats = NDArray[np.float64]


def kl(a: float, b: float) -> float:
    return sum(x * log(x / y) if y > 0 else inf for x, y in ((a, b), (1 - a, 1 - b)) if x > 0)


def test_the_mixture_of_all_coins_is_within_two_roots_of_the_best_coin() -> None:
    """2 sqrt(n) B(i + 1/2, n - i + 1/2) / pi >= (i/n)^i (1 - i/n)^(n-i), with equality where n = 1."""
    least = inf
    for n in range(1, 400):
        for i in range(n + 1):
            mixture = lgamma(i + 0.5) + lgamma(n - i + 0.5) - lgamma(n + 1) - log(pi)
            best = sum(m * log(m / n) for m in (i, n - i) if m)
            least = min(least, log(2 * sqrt(n)) + mixture - best)
    assert least == pytest.approx(0, abs=1e-9)


def sets(n: int) -> list[list[int]]:
    """All sets of n outcomes that are neither empty nor whole."""
    return [list(one) for one in chain.from_iterable(combinations(range(n), size) for size in range(1, n))]


def means(counts: NDArray[np.int64], v: Floats, x: float) -> tuple[float, float]:
    """The smallest and the largest mean by the kernels; the outcomes that were never seen are states as well."""
    seen = np.flatnonzero(counts)
    row, times, total = seen.astype(np.int32), counts[seen], float(counts.sum())
    values, often = np.empty(len(seen)), np.empty(len(seen))
    n = descending(row, times, np.zeros(len(v), dtype=np.bool_), v, 0.0, values, often)
    return (
        smallest_mean(values, often, n, total, x, float(v.min())),
        largest_mean(values, often, n, total, x, float(v.max())),
    )


@pytest.mark.parametrize("outcomes", [2, 3, 4])
def test_means_are_at_least_as_wide_as_all_rows_within_the_intervals(outcomes: int) -> None:
    """A linear program over all rows whose sets lie in their intervals finds none outside; with two, none less."""
    rng = np.random.default_rng(outcomes)
    for _ in range(25):
        counts = rng.multinomial(int(rng.integers(1, 60)), rng.dirichlet(np.full(outcomes, 0.4)))
        v, x = rng.random(outcomes), float(rng.uniform(0.01, 0.5))
        share = counts / counts.sum()
        bounds = [(kl_lower(share[e].sum(), x), kl_upper(share[e].sum(), x)) for e in sets(outcomes)]
        inside = np.array([[float(t in e) for t in range(outcomes)] for e in sets(outcomes)])
        rows, most = np.vstack([inside, -inside]), np.array([*(b for _, b in bounds), *(-a for a, _ in bounds)])
        ends = [
            sign * linprog(sign * v, rows, most, np.ones((1, outcomes)), [1.0], bounds=(0, 1)).fun for sign in (1, -1)
        ]
        low, high = means(counts, v, x)
        assert low <= ends[0] + 1e-6  # the precision of the program
        assert high >= ends[1] - 1e-6
        if outcomes == 2:
            assert (low, high) == pytest.approx(ends, abs=1e-6)


def test_means_are_within_the_stated_distance_of_the_truth() -> None:
    """For rows that are in their intervals: (H - h) sqrt(2 x) above, and the root of 8 x P V_c below."""
    rng = np.random.default_rng(3)
    tightest, met = [inf, inf], 0
    for _ in range(4000):
        n, outcomes = int(rng.integers(1, 400)), int(rng.integers(2, 5))
        row = rng.dirichlet(np.full(outcomes, 0.3))
        counts = rng.multinomial(n, row)
        v, x = rng.choice([0.0, 1.0, rng.random()], outcomes), float(rng.uniform(0.5, 6)) / n
        if any(kl(counts[e].sum() / n, row[e].sum()) > x for e in sets(outcomes)):
            continue
        met += 1
        low, high = means(counts, v, x)
        mean = float(row @ v)
        assert low <= mean + 1e-12
        assert high >= mean - 1e-12
        tightest[0] = min(tightest[0], sqrt(2 * x) + 1e-12 - (high - mean))
        tightest[1] = min(tightest[1], sqrt(min(8 * x, 1.0) * mean) + 1e-12 - (mean - low))
    assert met > 1000
    assert min(tightest) >= 0


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("late", [0, 2])
def test_sums_over_visits_are_the_largest_that_any_order_of_visits_has(pooled: bool, late: int) -> None:
    """D and Y against every way to spread few visits over the cells, with the counts that plans know."""
    problem, rounds, p = rf.make("ledge-v0", horizon=2).problem(), 5, 0.999
    width = interval_width(problem, pooled, p, 0.0)._replace(log_term=-0.5)  # so that few visits do not all count as 1
    H, cells = 2, 4

    def terms(n: int) -> tuple[float, float]:
        x = (width.log_term + log(2 * sqrt(n))) / n if n else inf
        return min(sqrt(2 * x), 1.0), min(8 * x, 1.0)

    worst = np.zeros(2)
    orders: Any = product(range(cells), repeat=rounds)
    if pooled:  # too many to try all
        orders = np.random.default_rng(0).integers(cells, size=(300, rounds * H))
    for visits in orders:
        sums, episodes = np.zeros(2), np.reshape(visits, (rounds, -1))
        for k, episode in enumerate(episodes):
            known = np.bincount(episodes[: max(k - late, 0)].ravel(), minlength=cells)
            for h, cell in enumerate(episode):
                d, y = terms(int(known[cell]))
                ahead = H - 1 - h if pooled else 1  # the weight H - h; else all steps are one step of weight 1
                sums += [ahead * d + float(known[cell] == 0) * (1 if pooled else 2), y if cell < 2 else 0.0]
        worst = np.maximum(worst, sums)
    found = overestimates(problem, width, pooled, p, rounds, late)
    D = 3 * float(resets_upper(worst[0] / 3, EACH_SUM * p))
    Y = 2 * float(resets_upper((1 if pooled else 2) * worst[1] / 2, EACH_SUM * p))
    assert found.rewards >= min(D, 3 * rounds) - 1e-9
    assert found.costs_per_root >= sqrt(2 * min(Y, 2 * rounds)) - 1e-9
    if not pooled and late == 0:  # and no larger
        assert found == pytest.approx((min(D, 3 * rounds), sqrt(2 * min(Y, 2 * rounds))))


def test_the_largest_error_of_a_regression_is_at_a_corner() -> None:
    rng = np.random.default_rng(4)
    outcomes, d, n = 4, 3, 30
    phi = rng.normal(size=(n, d))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    rows = rng.dirichlet(np.ones(outcomes), n)
    errors = phi.T @ (np.eye(outcomes)[[rng.choice(outcomes, p=row) for row in rows]] - rows)
    root = np.linalg.inv(np.linalg.cholesky(np.eye(d) + phi.T @ phi))
    corners = [np.linalg.norm(root @ errors[:, e].sum(axis=1)) for e in sets(outcomes)]
    inside = [np.linalg.norm(root @ errors @ rng.random(outcomes)) for _ in range(2000)]
    assert max(inside) <= max(corners)
    assert round(exp(log_corners(outcomes))) == len({round(float(size), 9) for size in corners})  # complements agree


def constants(alpha: float = 40.0, noise: float = 0.0) -> CoverWidth:
    return CoverWidth(4, 5, 0.0375, alpha, 16.0, reg=1.0, noise=noise)


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.01, 1.0, 7.0]))
@settings(max_examples=50, deadline=None)
def test_weights_and_errors_are_as_small_as_is_said(seed: int, n: int, reg: float) -> None:
    """|Lam^-1 Phi^T y| <= Y sqrt(n) / (2 sqrt(reg)), |Phi^T c| <= |c| in the norm of Lam^-1, and g <= its largest."""
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.ones(4), size=n) * rng.random((n, 1)) ** 0.2
    gram = reg * np.eye(4) + phi.T @ phi
    y = rng.uniform(-3.0, 3.0, n)
    assert np.linalg.norm(np.linalg.solve(gram, phi.T @ y)) <= 3.0 * sqrt(n) / (2 * sqrt(reg))
    summed = phi.T @ y
    assert sqrt(summed @ np.linalg.solve(gram, summed)) <= np.linalg.norm(y) + 1e-12
    growth = np.linalg.slogdet(gram)[1] - 4 * log(reg)
    assert ceil(growth) <= most_growth(constants()._replace(reg=reg), n)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 3.0, 200.0]), st.sampled_from([1e-1, 1e-3]))
@settings(max_examples=80, deadline=None)
def test_values_move_by_no_more_than_the_cover_says(seed: int, alpha: float, e: float) -> None:
    """Weights moved by e/2, the matrix by e^2/4, lam by e: V_r and V_c by eps, V of the greedy composite by e."""
    rng, B, cap = np.random.default_rng(seed), 6.0, 3.0
    x = rng.dirichlet(np.ones(4), size=3)
    root = rng.normal(size=(4, 4))
    matrix = root @ root.T
    step = rng.normal(size=(4, 4))
    step = step + step.T
    other = matrix + step * (e * e / 4 / np.linalg.norm(step))
    lam = rng.random() * B
    lam_2 = min(max(lam + e * rng.choice([-1.0, 1.0]), 0.0), B)
    w = rng.normal(size=(3, 4)) * [[1.0], [2.0], [0.3]]
    moved = w + _length(rng.normal(size=(3, 4)), e / 2)
    row = np.empty(3)
    one = soft_row(x, matrix, w[1], w[2], 1.0, 1.0, alpha, lam, cap, row)
    two = soft_row(x, other, moved[1], moved[2], 1.0, 1.0, alpha, lam_2, cap, row)
    for R, before, after in ((cap, one[0], two[0]), (1.0, one[1], two[1])):
        assert abs(before - after) <= e * (1 + R * alpha * (2 + B) / 2) + 1e-12
    ends = [greedy_row(x, m, v, 1.0, 0.0, False, y, cap)[1] for m, v, y in ((matrix, w, lam), (other, moved, lam_2))]
    assert abs(ends[0] - ends[1]) <= e + 1e-12


def _length(rows: Floats, size: float) -> Floats:
    return np.asarray(rows * (size / np.linalg.norm(rows, axis=1, keepdims=True)))


def test_betas_grow_with_the_data_and_are_smaller_than_the_theorem_s() -> None:
    last = np.zeros((2, 5))
    for n in (0.0, 1.0, 10.0, 1e3, 1e5):
        now = cover_betas(constants(), np.full(5, most_growth(constants(), n)), np.full(5, n))
        assert (now >= last).all()
        last = now
    K = 100_000
    alpha = softmax_alpha(K, 5, 3, 16.0)
    ours = cover_betas(constants(alpha), np.full(5, most_growth(constants(), K)), np.full(5, float(K)))
    theirs = [theory_beta(4, 5, K, 16.0, 0.05, alpha=alpha, target_range=R) for R in (5.0, 1.0)]
    assert (ours.max(axis=1) < np.array(theirs) / 3).all()


def test_long_horizons_ask_once_for_each_step() -> None:
    """Each step's width needs that of the next one, for rewards and for costs: not 2^60 times."""
    c = CoverWidth(3, 60, 0.0375, 40.0, 16.0, reg=1.0, noise=0.0)
    beta_r, beta_c = cover_betas(c, np.full(60, 30.0), np.full(60, 1000.0))
    assert (np.diff(beta_r) < 0).all()
    assert (np.diff(beta_c) < 0).all()
