"""A user's own features: what is promised is held, and the run names the function without holding its code."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.core.state import dump, load
from resetfree.problems.blueprint import describe
from resetfree.problems.features.basis import UserFeatures

Floats = NDArray[np.float64]
LOW, HIGH = np.full(2, -np.inf), np.full(2, np.inf)
NOTHING = np.empty((0, 2))


def radius(s: Floats) -> list[float]:
    return [math.hypot(s[0], s[1]), 1.0]


def radii(states: Floats) -> Floats:
    return np.stack([np.hypot(states[:, 0], states[:, 1]), np.ones(len(states))], axis=1)


def test_without_a_function_it_is_the_state_and_a_constant() -> None:
    psi = UserFeatures().fit(NOTHING, LOW, HIGH, 0)
    np.testing.assert_array_equal(psi(np.array([[2.0, -3.0]])), [[2.0, -3.0, 1.0]])
    assert (psi.dimension, psi.norm_bound, psi.non_negative) == (3, math.inf, False)


def test_one_state_at_a_time_and_many_at_once_are_the_same() -> None:
    states = np.random.default_rng(0).normal(size=(20, 2))
    one = UserFeatures(radius).fit(NOTHING, LOW, HIGH, 0)
    many = UserFeatures(radii, batched=True).fit(states, LOW, HIGH, 0)
    np.testing.assert_array_equal(one(states), many(states))
    assert one(states[:0]).shape == many(states[:0]).shape == (0, 2)


def test_promises_are_held() -> None:
    psi = UserFeatures(radius, bound=5.0).fit(NOTHING, LOW, HIGH, 0)
    assert psi.norm_bound == 5.0
    psi(np.array([[3.0, 3.0]]))
    with pytest.raises(
        rf.InvalidInput, match=r"The 'bound' of user must be at least every .* Got 5 and a norm of 5.09902"
    ):
        psi(np.array([[3.0, 3.0], [3.0, 4.0]]))
    psi = UserFeatures(non_negative=True).fit(NOTHING, LOW, HIGH, 0)
    assert psi.non_negative
    with pytest.raises(rf.InvalidInput, match="must not be negative with 'non_negative'"):
        psi(np.array([[1.0, -1.0]]))
    psi = UserFeatures(lambda s: s[: 1 + int(s[0] > 0)]).fit(NOTHING, LOW, HIGH, 0)
    with pytest.raises(rf.InvalidInput, match=r"must give 1 finite numbers per state. Got"):
        psi(np.array([[1.0, 1.0]]))
    with pytest.raises(rf.InvalidInput, match="must give at least one number"):
        UserFeatures(lambda s: []).fit(NOTHING, LOW, HIGH, 0)
    with pytest.raises(rf.InvalidInput, match=r"at most 2000 features. Got 3000 for states of 2 numbers"):
        UserFeatures(lambda s: np.zeros(3000)).fit(NOTHING, LOW, HIGH, 0)


def test_a_function_by_name_is_the_function() -> None:
    states = np.array([[1.0, 4.0]])
    psi = UserFeatures("numpy:sqrt").fit(NOTHING, LOW, HIGH, 0)
    np.testing.assert_array_equal(psi(states), [[1.0, 2.0]])
    assert describe(UserFeatures("numpy:sqrt"))["function"] == "numpy:sqrt"


def test_the_run_names_the_function_and_saves_no_code() -> None:
    assert describe(UserFeatures(radius))["function"].endswith("test_user.radius")
    psi, fresh, other = (UserFeatures(radius, bound=b).fit(NOTHING, LOW, HIGH, 0) for b in (5.0, 5.0, 7.0))
    saved = dump(psi)
    assert "function" not in saved
    with pytest.raises(rf.InvalidInput, match="'bound' must be what its player makes it"):
        load(other, saved)  # it is a setting, and a file cannot change it
    load(fresh, saved)
    np.testing.assert_array_equal(fresh(np.array([[3.0, 3.0]])), psi(np.array([[3.0, 3.0]])))
