"""Dual players whose xi are features of vectors: the same play as with rows, and bounds that hold on a continuum."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import resetfree as rf
from resetfree.players.dual import FeasibleSet, Space, functions
from resetfree.players.dual.online_gradient import AdagradNorm, ConstantStep, OptimisticGradient, ProjectedGradient
from resetfree.problems.features import Features, discover, make_features
from resetfree.theory.sets import Ball, OrthantBall

Floats = NDArray[np.float64]
B = 5.0
PLAYERS: list[rf.DualPlayer[Any]] = [
    ProjectedGradient(B=B), ConstantStep(B=B), AdagradNorm(B=B), OptimisticGradient(B=B),
    ProjectedGradient(B=B, feasible_set="ball"),
]  # fmt: skip
LOW, HIGH = np.array([-1.0, -np.inf]), np.array([1.0, np.inf])
SEEN = np.random.default_rng(0).normal(size=(200, 2))
BOUNDED = sorted(set(discover()) - {"user"})


class Plane(rf.Problem):
    """Starts are vectors of two numbers, or rows of a list of them."""

    name, horizon, n_actions, stationary, phi = "plane", 1, 1, True, None
    n_uniforms = 1

    def __init__(self, xi: Any, n_states: int | None = None) -> None:
        self.xi, self.n_states = xi, n_states

    def first_start(self, u: float) -> Floats:
        return np.zeros(2)

    def rollout(self, policy: Any, start: Any, u: Floats) -> rf.Episode:
        raise NotImplementedError


def never(lam: float) -> rf.Plan:
    raise AssertionError("this player must not ask for plans")


def a_round(k: int, s1: Any, lam: float, g: float) -> rf.Round:
    episode = rf.Episode(np.zeros((2, 2)), np.array([0]), np.array([0.0]), g > 0.5, np.zeros(2))
    return rf.Round(k, s1, lam, rf.Plan(None, 0.0, g), episode, g, None)


def fitted(name: str) -> Features:
    return make_features(name).fit(SEEN, LOW, HIGH, 0)


@pytest.mark.parametrize("feasible_set", ["auto", "ball"])
@pytest.mark.parametrize("name", BOUNDED)
def test_no_function_is_negative_anywhere_where_that_can_be_had(name: str, feasible_set: FeasibleSet) -> None:
    psi = fitted(name)
    among = functions(Plane(psi), B, feasible_set, "x")
    assert isinstance(among, Space)
    certain = feasible_set == "auto" and psi.non_negative
    assert among.kind == ("OrthantBall" if certain else "Ball")
    assert among.diameter == pytest.approx(B * (math.sqrt(2.0) if certain else 2.0))
    assert among.largest_xi == psi.norm_bound
    rng = np.random.default_rng(1)
    asked = np.concatenate([SEEN[:20], 1e3 * rng.normal(size=(20, 2))])
    theta = among.zero()
    for s in asked:
        theta = among.moved(theta, s, rng.normal())
        assert np.linalg.norm(theta) <= B * (1 + 1e-12)
    values = psi(asked) @ theta
    if certain:
        assert values.min() >= 0.0
    for s, value, row in zip(asked, values, psi(asked), strict=True):
        assert among.at(theta, s) == pytest.approx(min(max(value, 0.0), B), abs=1e-12)
        assert among.squared(s) == pytest.approx(row @ row)


@pytest.mark.parametrize("player", PLAYERS, ids=lambda p: f"{p.name}-{p.feasible_set}")
@pytest.mark.parametrize("name", ["simplex", "aggregation", "random-fourier"])
def test_play_by_hand_on_the_rows_of_the_starts(player: rf.DualPlayer[Any], name: str) -> None:
    """Multipliers stay in [0, B], and those of projected gradient are what its definition gives on the rows psi(s1)."""
    psi = fitted(name)
    rows = psi(SEEN)
    orthant = player.feasible_set == "auto" and psi.non_negative  # type: ignore[attr-defined]
    vector = player.init(Plane(psi), 100, 0)
    rng = np.random.default_rng(2)
    members = OrthantBall(psi.dimension, B) if orthant else Ball(psi.dimension, B)
    theta = np.zeros(psi.dimension)
    for k in range(1, 101):
        i, g = int(rng.integers(len(SEEN))), float(rng.random())
        lam = player.multiplier(vector, SEEN[i], never)
        if isinstance(player, ProjectedGradient):  # by hand
            assert lam == pytest.approx(min(max(rows[i] @ theta, 0.0), B), abs=1e-12)
            theta = members.project(theta + B / math.sqrt(k) * g * rows[i])
        vector = player.update(vector, a_round(k, SEEN[i], lam, g))
        assert 0.0 <= lam <= B
    if isinstance(player, ProjectedGradient):
        np.testing.assert_allclose(vector.theta, theta, rtol=0, atol=1e-12)
        assert np.abs(theta).max() > 0.0


@pytest.mark.parametrize("name", ["aggregation", "one-hot"])
@pytest.mark.parametrize("player", PLAYERS[:3], ids=lambda p: p.name)
def test_one_hot_features_of_vectors_are_a_finite_problem(player: rf.DualPlayer[Any], name: str) -> None:
    """Where the set is the orthant for rows too, the whole play is the same, bit for bit."""
    psi = fitted(name)
    rows = np.concatenate([psi(SEEN), np.eye(psi.dimension)])  # each feature alone somewhere, so that U is the orthant
    finite, vector = player.init(Plane(rows, len(rows)), 200, 0), player.init(Plane(psi), 200, 0)
    rng = np.random.default_rng(3)
    for k in range(1, 201):
        i, g = int(rng.integers(len(SEEN))), float(rng.random())
        one, two = player.multiplier(finite, i, never), player.multiplier(vector, SEEN[i], never)
        assert one == two
        finite, vector = (
            player.update(finite, a_round(k, i, one, g)),
            player.update(vector, a_round(k, SEEN[i], two, g)),
        )
    np.testing.assert_array_equal(finite.theta, vector.theta)


@pytest.mark.parametrize("player", PLAYERS, ids=lambda p: f"{p.name}-{p.feasible_set}")
@pytest.mark.parametrize("name", BOUNDED)
def test_the_stated_bound_holds_on_a_continuum_of_starts(player: rf.DualPlayer[Any], name: str) -> None:
    """Dual regret against the best theta of the set in hindsight, for features of norm at most 1."""
    psi, rounds = fitted(name), 300
    stated = player.statement(Plane(psi), rounds)
    assert stated.covered, stated.why
    state, rng = player.init(Plane(psi), rounds, 0), np.random.default_rng(4)
    total, played = np.zeros(psi.dimension), 0.0
    for k in range(1, rounds + 1):
        s1 = np.array([rng.uniform(-1, 1), 3.0 * rng.normal()])
        lam = player.multiplier(state, s1, never)
        g = float(lam < rng.uniform(0, 2))  # resets where the multiplier is small
        total += g * psi(s1[None])[0]
        played += g * lam
        state = player.update(state, a_round(k, s1, lam, g))
    if player.feasible_set == "auto" and psi.non_negative:  # type: ignore[attr-defined]
        total = np.maximum(total, 0.0)
    best = B * float(np.linalg.norm(total))  # max over |theta| <= B in the set of sum_k g_k <xi_k, theta>
    assert best - played <= float(stated.constants["dual_regret_bound"])
    assert best > 0.0


def test_states_that_are_numbers_are_vectors_of_one() -> None:
    psi = make_features("simplex", {"nodes": 3}).fit(np.empty((0, 1)), np.zeros(1), np.ones(1), 0)
    among = functions(Plane(psi), B, "auto", "x")
    assert isinstance(among, Space)
    theta = np.array([1.0, 2.0, 4.0])
    assert among.at(theta, 0.75) == among.at(theta, np.float64(0.75)) == among.at(theta, np.array([0.75])) == 3.0
    assert among.moved(theta, 1.0, 0.25).tolist() == [1.0, 2.0, 4.25]


def test_features_without_a_bound_are_said_not_to_be_covered() -> None:
    stated = ProjectedGradient(B=B).statement(Plane(fitted("user")), 100)
    assert not stated.covered
    assert "|xi(s)| at most 1, and here it is up to inf" in stated.why


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(rf.InvalidInput, match=r"must be fitted features for projected-gradient\. Got the map simplex"):
        ProjectedGradient(B=B).init(Plane(make_features("simplex")), 10, 0)
    with pytest.raises(rf.InvalidInput, match="sum-of-squares of projected-gradient needs finitely many states"):
        ProjectedGradient(B=B, feasible_set="sum-of-squares").init(Plane(fitted("simplex")), 10, 0)
