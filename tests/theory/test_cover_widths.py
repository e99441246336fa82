"""Every step of the proof of widths by a cover, with both sides computed."""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.linear.pair_values import greedy_row, soft_row
from resetfree.theory.proved_widths import CoverWidth, cover_betas, cover_width, epoch, log_cover, most_growth
from resetfree.theory.widths import softmax_alpha, theory_beta

Floats = NDArray[np.float64]
INF = float("inf")


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


def test_betas_are_the_formula_term_by_term() -> None:
    """By hand for the step before the last: the cover of V_H, whose width is that of a fixed function."""
    c, h, n, g = constants(noise=0.5), 3, 1000.0, 20.3
    m, N = 9, 1024.0
    root = sqrt(most_growth(c, N) + 2 * log(2 * 5 / c.p))
    b = max(0.5 * root + 2.0, root / 2 + 2.0)  # noise 1/2 and sqrt(reg d) = 2
    e = 1.0 / (2 * sqrt(N)) / (1 + 40.0 * 18.0 / 2)
    size = sqrt(N) / 2
    points = 4 * 2 * log(1 + 4 * size / e) + 10 * log(1 + 8 * 2 * b * b / e**2)
    points += log(1 + 16 / (2 * e)) + log(1 + most_growth(c, N)) + log(m + 1)
    assert epoch(n) == m
    assert log_cover(c, h, m, 1.0) == pytest.approx(points)
    inside = sqrt(21 + 2 * (points + log(2 * 5 * 10 * 11 / c.p)))
    found = cover_betas(c, np.full(5, g), np.full(5, n))
    assert found[:, h] == pytest.approx([(0.5 + 0.5) * inside + 1.0 + 2.0 * 2, inside / 2 + 1.0 + 2.0])
    assert found[:, 4] == pytest.approx([0.5 * sqrt(21 + 2 * log(10 / c.p)) + 2, sqrt(21 + 2 * log(10 / c.p)) / 2 + 2])


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


def test_greedy_has_no_temperature_and_any_multiplier_up_to_the_bound() -> None:
    problem = rf.make("continuous-linear-v0", dimension=2).problem()
    c = cover_width(problem, 4, 0.05, 16.0, INF, reg=1.0)
    beta_r, beta_c = cover_betas(c, np.full(5, 10.0), np.full(5, 100.0))
    for lam in (0.0, 3.0, 16.0):
        for h in range(4):
            R, m = 4 - h + lam, epoch(100.0)
            delta = log_cover(c, h, m, 1.0) + log(2 * 5 * (m + 1) * (m + 2) / c.p)
            needed = R / 2 * sqrt(10 + 2 * delta) + 1 + 2.0 * (R + 1)
            assert beta_r[h] + lam * beta_c[h] == pytest.approx(needed)


def test_long_horizons_ask_once_for_each_step() -> None:
    """Each step's width needs that of the next one, for rewards and for costs: not 2^60 times."""
    c = CoverWidth(3, 60, 0.0375, 40.0, 16.0, reg=1.0, noise=0.0)
    beta_r, beta_c = cover_betas(c, np.full(60, 30.0), np.full(60, 1000.0))
    assert (np.diff(beta_r) < 0).all()
    assert (np.diff(beta_c) < 0).all()
