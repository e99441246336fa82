"""Projections are exact: feasible, variational, idempotent, and what a solver that knows no theory finds."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

import resetfree as rf
from resetfree.theory.sets import (
    Ball,
    ConeBall,
    ConvexSet,
    OrthantBall,
    SumOfSquaresBall,
    for_features,
    svec,
    svec_features,
    unsvec,
)

Floats = NDArray[np.float64]
KINDS = ["ball", "orthant", "cone", "squares"]
FIXED = settings(derandomize=True, max_examples=60, database=None)


def random_set(kind: str, rng: np.random.Generator) -> ConvexSet:
    d, radius = int(rng.integers(1, 7)), float(rng.choice([0.0, 0.3, 1.0, 40.0]))
    if kind == "ball":
        return Ball(d, radius)
    if kind == "orthant":
        return OrthantBall(d, radius)
    if kind == "squares":
        return SumOfSquaresBall(int(rng.integers(1, 5)), radius)
    rows = rng.normal(size=(int(rng.integers(0, 10)), d)) + rng.choice([0.0, 1.0]) * np.eye(d)[0]
    rows[rng.random(len(rows)) < 0.1] = 0.0
    return ConeBall(np.concatenate([rows, 2.5 * rows[:2]]), radius)  # a direction may be given twice


def broken(member: ConvexSet, x: Floats, z: Floats, others: Floats) -> float:
    """How far z is from satisfying <x - z, y - z> <= 0 for the points y of the set, relatively."""
    return float(((others - z) @ (x - z)).max()) / (1.0 + float(np.linalg.norm(x))) ** 2


@pytest.mark.parametrize("kind", KINDS)
@FIXED
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-3, 1.0, 30.0, 1e6]))
def test_projection_is_feasible_nearest_and_idempotent(kind: str, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    member = random_set(kind, rng)
    x = scale * rng.normal(size=member.dim)
    before = x.copy()
    z = member.project(x)
    tolerance = 1e-11 * (1.0 + scale)
    assert member.contains(z, tolerance)
    assert (x == before).all()
    others = np.array([member.project(s * rng.normal(size=member.dim)) for s in rng.choice([0.1, 1.0, 100.0], 30)])
    assert broken(member, x, z, others) <= 1e-11
    assert np.abs(member.project(z) - z).max() <= tolerance
    assert np.linalg.norm(z) <= member.radius * (1 + 1e-12)
    assert max(np.linalg.norm(a - b) for a in others for b in others) <= member.diameter * (1 + 1e-9) + 1e-12
    if member.contains(x, 0.0):
        assert np.abs(z - x).max() <= tolerance


@pytest.mark.parametrize("kind", KINDS)
@FIXED
@given(seed=st.integers(0, 2**32 - 1))
def test_membership_is_decided_at_the_boundary(kind: str, seed: int) -> None:
    """A point outside by more than the tolerance is refused, one that is projected is not."""
    rng = np.random.default_rng(seed)
    member = random_set(kind, rng)
    x = 50.0 * rng.normal(size=member.dim)
    z = member.project(x)
    far = float(np.linalg.norm(x - z))
    if far > 1e-6:
        assert not member.contains(x, far * 1e-9 / math.sqrt(member.dim))
        assert not member.contains(z + 0.5 * (x - z), 0.0)
    assert member.contains(z, 1e-10)


def by_solver(member: OrthantBall | ConeBall, rows: Floats, x: Floats) -> Floats:
    """The nearest point of {rows theta >= 0, |theta| <= radius} by sequential quadratic programming."""
    conditions = [
        {"type": "ineq", "fun": lambda y: rows @ y, "jac": lambda y: rows},
        {"type": "ineq", "fun": lambda y: member.radius**2 - y @ y, "jac": lambda y: -2.0 * y},
    ]
    start = np.zeros(member.dim) + 1e-3
    found = minimize(
        lambda y: 0.5 * (y - x) @ (y - x), start, jac=lambda y: y - x, constraints=conditions, method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 400},
    )  # fmt: skip
    return np.asarray(found.x)


def test_cones_agree_with_a_solver() -> None:
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(60):
        d = int(rng.integers(2, 6))
        rows = rng.normal(size=(int(rng.integers(1, 9)), d)) + 0.7 * np.eye(d)[0]
        x = 3.0 * rng.normal(size=d)
        cone = ConeBall(rows, 1.0)
        z = cone.project(x)
        y = by_solver(cone, rows / np.linalg.norm(rows, axis=1, keepdims=True), x)
        # A solver may stop early or leave the set a little; it must never be nearer by more than that.
        assert np.linalg.norm(x - z) <= np.linalg.norm(x - y) + 1e-6
        assert np.abs(z - y).max() <= 2e-4
        cut += int(np.linalg.norm(z) > 0.0 and (rows @ x < 0).any())
        orthant = OrthantBall(d, 1.0)
        assert np.abs(orthant.project(x) - by_solver(orthant, np.eye(d), x)).max() <= 2e-4
        assert np.abs(orthant.project(x) - ConeBall(np.eye(d), 1.0).project(x)).max() <= 1e-12
    assert cut > 20  # the cases were not all trivial


def dykstra(projections: list[Callable[[Floats], Floats]], x: Floats, n: int) -> Floats:
    """The nearest point of an intersection, from projections on its members alone."""
    corrections = [np.zeros_like(x) for _ in projections]
    for _ in range(n):
        for i, project in enumerate(projections):
            y = x + corrections[i]
            x = project(y)
            corrections[i] = y - x
    return x


def test_sums_of_squares_agree_with_dykstra() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = int(rng.integers(2, 5))
        member, wide = SumOfSquaresBall(p, 1.0), SumOfSquaresBall(p, 1e6)
        x = 2.0 * rng.normal(size=member.dim)
        slow = dykstra([Ball(member.dim, 1.0).project, wide.project], x, 1500)
        assert np.abs(member.project(x) - slow).max() <= 1e-5


@pytest.mark.parametrize("kind", ["orthant", "cone", "squares"])
def test_ball_then_cone_is_wrong(kind: str) -> None:
    """The other order gives points of the set that are not nearest, and the variational inequality tells."""
    rng = np.random.default_rng(2)
    differ = told = 0
    for _ in range(300):
        member: ConvexSet
        if kind == "orthant":
            member, cone = OrthantBall(3, 1.0), OrthantBall(3, 1e9).project
        elif kind == "squares":
            member, cone = SumOfSquaresBall(2, 1.0), SumOfSquaresBall(2, 1e9).project
        else:
            rows = rng.normal(size=(4, 3)) + np.eye(3)[0]
            member, cone = ConeBall(rows, 1.0), ConeBall(rows, 1e9).project
        x = rng.normal(size=3)
        right, wrong = member.project(x), cone(Ball(3, 1.0).project(x))
        assert member.contains(wrong, 1e-9)
        off = float(np.linalg.norm(right - wrong)) > 1e-9
        differ += off
        told += broken(member, x, wrong, right[None]) > 1e-12
        assert (np.linalg.norm(x - wrong) > np.linalg.norm(x - right)) or not off
        z = cone(x)
        claimed = np.linalg.norm(x) > 1 and np.linalg.norm(z - x) > 1e-9 and np.linalg.norm(z) > 1e-9
        assert off == claimed  # exactly when the legend of the module says so
    assert differ == told > 100


def test_examples_by_hand() -> None:
    wedge = np.array([[0.0, 1.0], [1.0, -1.0]])  # 0 <= y <= x
    assert ConeBall(wedge, 1.0).project([-1.0, -3.0]).tolist() == [0.0, 0.0]
    assert ConeBall(wedge, 1.0).project([4.0, 12.0]) == pytest.approx([math.sqrt(0.5)] * 2)
    assert ConeBall(np.zeros((3, 2)), 5.0).project([6.0, 8.0]).tolist() == [3.0, 4.0]
    assert ConeBall(np.zeros((0, 2)), 5.0).project([6.0, 8.0]).tolist() == [3.0, 4.0]
    assert ConeBall(np.array([[1.0], [-2.0]]), 5.0).project([3.0]).tolist() == [0.0]
    assert SumOfSquaresBall(2, 9.0).project([1.0, 2.0 * math.sqrt(2.0), 1.0]) == pytest.approx(
        [1.5, 1.5 * math.sqrt(2.0), 1.5]
    )  # eigenvalues 3 and -1
    assert OrthantBall(3, 0.0).project([1.0, -1.0, 2.0]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_sizes_at_the_ends_of_the_floats(scale: float) -> None:
    x = scale * np.array([3.0, -4.0, 1.0])
    members: list[ConvexSet] = [Ball(3, 2.0), OrthantBall(3, 2.0), ConeBall(np.eye(3), 2.0), SumOfSquaresBall(2, 2.0)]
    for member in members:
        z = member.project(x)
        assert np.isfinite(z).all()
        assert member.contains(z)
        assert np.linalg.norm(z) <= 2.0 * (1 + 1e-12)
    assert (Ball(3, 2.0).project(x) == x).all() == (scale < 1)


@pytest.mark.parametrize("bad", [[math.nan, 0.0], [math.inf, 0.0], [1.0], [[1.0, 2.0]]])
def test_points_that_are_none_are_refused(bad: list[float]) -> None:
    members: list[ConvexSet] = [Ball(2, 1.0), OrthantBall(2, 1.0), ConeBall(np.eye(2), 1.0)]
    for member in members:
        with pytest.raises(rf.InvalidInput, match=r"must be finite numbers of shape \(2,\)"):
            member.project(bad)
        with pytest.raises(rf.InvalidInput, match=r"must be finite numbers of shape \(2,\)"):
            member.contains(bad)
    with pytest.raises(rf.InvalidInput, match=r"must be finite numbers of shape \(3,\)"):
        SumOfSquaresBall(2, 1.0).project(bad)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Ball(0, 1.0), "The 'dim' of Ball must be a positive integer. Got 0 instead."),
        (lambda: OrthantBall(True, 1.0), "The 'dim' of OrthantBall must be a positive integer. Got True instead."),
        (lambda: Ball(2, -1.0), "The 'radius' of Ball must be a finite number that is not negative. Got -1.0 instead."),
        (lambda: Ball(2, math.nan), "The 'radius' of Ball must be a finite number that is not negative. Got nan"),
        (lambda: ConeBall(np.eye(2), math.inf), "The 'radius' of ConeBall must be a finite number"),
        (lambda: ConeBall(np.ones(3), 1.0), "The 'rows' of ConeBall must be finite numbers of shape [n, d]. Got shape"),
        (lambda: SumOfSquaresBall(0, 1.0), "The 'm_dim' of SumOfSquaresBall must be a positive integer."),
        (lambda: unsvec(np.ones(4)), "The vector of unsvec must have p(p+1)/2 entries for some p. Got 4 instead."),
    ],
)
def test_sets_that_are_none_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(rf.InvalidInput) as caught:
        make()
    assert sentence in str(caught.value)


def test_svec_keeps_inner_products() -> None:
    rng = np.random.default_rng(3)
    a, b = (m + m.T for m in rng.normal(size=(2, 4, 4)))
    assert svec(a) @ svec(b) == pytest.approx(np.trace(a @ b))
    assert np.abs(unsvec(svec(a)) - a).max() <= 1e-15
    m = rng.normal(size=(5, 4))
    xi = svec_features(m)
    assert xi @ svec(a) == pytest.approx(np.einsum("si,ij,sj->s", m, a, m))
    assert np.linalg.norm(xi, axis=1) == pytest.approx((m**2).sum(axis=1))
    assert svec_features(m[0]) == pytest.approx(xi[0])
    inside = SumOfSquaresBall(4, 3.0).project(rng.normal(size=10))
    assert (xi @ inside >= -1e-12).all()


@pytest.mark.parametrize(
    ("xi", "orthant"),
    [
        (np.ones((4, 1)), True),
        ([[0.5], [0.0], [1.0]], True),
        ([[0.5], [-0.5]], False),
        ([[-1.0], [-0.5]], False),
        (np.eye(3), True),
        ([[0.5, 0.0], [0.0, 0.2], [0.0, 0.0]], True),  # one-hot up to scale; a state without features asks for nothing
        ([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], True),  # the third state asks for less than the others
        ([[1.0, 0.0], [0.6, 0.8]], False),
        ([[1.0, 0.0], [0.0, -1.0]], False),
        ([[0.6, 0.8]], False),
    ],
)
def test_the_set_for_features_is_the_largest(xi: list[list[float]], orthant: bool) -> None:
    """It contains a theta of the ball exactly when no multiplier is negative."""
    rows = np.asarray(xi)
    member = for_features(xi, 3.0)
    assert isinstance(member, OrthantBall) == orthant
    assert member.radius == 3.0
    rng = np.random.default_rng(4)
    verdicts = []
    for _ in range(300):
        theta = 2.0 * rng.normal(size=rows.shape[1])
        fine = bool((rows @ theta >= 0).all() and np.linalg.norm(theta) <= 3.0)
        assert member.contains(theta, 0.0) == fine
        verdicts.append(fine)
    assert any(verdicts) or (rows.min() < 0 < rows.max())
    assert not all(verdicts)


def test_a_coordinate_that_no_state_uses_changes_no_multiplier() -> None:
    assert for_features([[1.0, 0.0], [0.5, 0.0]], 2.0) == OrthantBall(2, 2.0)
