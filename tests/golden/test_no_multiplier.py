"""T4: lambda_hat = 1 / min q.

V* = 0: only "risky" pays. From s1 the last action is taken at a uniform x, so g(y) = mean_i max(0, 1 - y q_i), which
is 0 from y = 1 / min q on. From x, "safe" first and then "risky" at the best x has the same ratio of gain to cost.
"""

from fractions import Fraction

import numpy as np
import pytest

import resetfree as rf
from resetfree.theory.oracle.dynamic_programming import best_response


@pytest.mark.parametrize("bins", [1, 2, 3, 10, 100])
def test_multiplier_grows_with_the_square(bins: int) -> None:
    solution = rf.solve(rf.make("no-multiplier-v0", bins=bins))
    assert (solution.value[:-1] == 0).all()
    np.testing.assert_allclose(solution.lambda_hat[:-1], 4 * bins**2, rtol=1e-12)


@pytest.mark.parametrize(("gap", "expected"), [(0.0001, 400.0), (0.01, 100.0), (0.25, 4.0), (1.0, 1.0)])
def test_a_gap_bounds_it(gap: float, expected: float) -> None:
    # Ten bins: min x^2 = 1/400.
    solution = rf.solve(rf.make("no-multiplier-v0", gap=gap))
    np.testing.assert_allclose(solution.lambda_hat[:-1], expected, rtol=1e-12)


@pytest.mark.parametrize("y", [0, 1, 10, 50, 399])
def test_the_dual_function(y: int) -> None:
    mdp = rf.make("no-multiplier-v0")
    hand = sum(max(Fraction(0), 1 - y * Fraction(2 * i + 1, 20) ** 2) for i in range(10)) / 10
    v_r, v_c, _ = best_response(mdp, float(y))
    assert v_r[0] - y * v_c[0] == pytest.approx(float(hand), rel=1e-12)


def test_it_is_linear_in_three_features() -> None:
    mdp = rf.make("no-multiplier-v0", gap=0.03)
    phi = mdp.phi
    assert phi is not None
    assert phi.shape == (12, 2, 3)
    assert np.linalg.norm(phi, axis=2).max() <= 1
    measures = np.zeros((3, 12))
    measures[0, 11] = measures[1, 0] = 1
    measures[2, 1:11] = 0.1
    np.testing.assert_array_equal(phi @ measures, mdp.transition.matrix().toarray().reshape(12, 2, 12))
    np.testing.assert_array_equal(phi @ np.array([1.0, 1.0, 0.0]), mdp.reward[0])
