"""Where floats are at their end: tiny risks, equal values, and what the oracle makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import resetfree as rf
from resetfree.theory.oracle.fractions import solve_exactly


def test_a_multiplier_too_large_for_a_float_is_infinite() -> None:
    p = 1e-200
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = 1
    transition[0, 1] = [1 - p, p, 0]
    transition[1, :] = [1 - p, 0, p]
    mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 2)
    assert rf.solve(mdp).lambda_hat[0] == np.inf


def test_a_risk_of_1e_300_has_its_multiplier() -> None:
    p = 1e-300
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[1, :, 0] = 1
    transition[0, 1] = [1 - p, 0, p]
    mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 1)
    assert rf.solve(mdp).lambda_hat[0] == pytest.approx(1e300)


@pytest.mark.parametrize("weights", [(0.7, 0.2, 0.1), (0.15, 0.15, 0.7), (0.3, 0.3, 0.4)])
@pytest.mark.parametrize("pay", [0.1, 0.3, 0.7, 0.9])
def test_rounding_is_not_divided_by_a_tiny_risk(weights: tuple[float, ...], pay: float) -> None:
    """Two ways to the same reward, one with a risk of 1e-20: nothing is gained, so the multiplier is zero."""
    transition = np.zeros((5, 2, 5))
    transition[0, 0, 1:4] = weights
    transition[0, 1, [1, 4]] = [1 - 1e-20, 1e-20]
    transition[1:4, :, 0] = 1
    reward = np.zeros((5, 2))
    reward[1:4] = pay
    mdp = rf.FiniteMDP(transition, reward, [0, 0, 0, 0, 1], 4)
    assert rf.solve(mdp).lambda_hat[0] == 0


def test_multipliers_keep_their_digits_where_costs_are_small() -> None:
    """A state of a slippery field whose risk is small: Newton on values would lose ten digits here."""
    mdp = rf.make("pits-v0", n=8, slip=0.2)
    floats = rf.solve(mdp).lambda_hat
    starts = np.flatnonzero(floats > 0)[::6].tolist()
    exact = solve_exactly(mdp, starts).lambda_hat
    for s in starts:
        value = exact[s]
        assert value is not None
        assert floats[s] == pytest.approx(float(value), rel=1e-12)
