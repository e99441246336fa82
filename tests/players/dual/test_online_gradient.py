"""Players of gradient steps keep the bound they state, on the sequences that hurt and on random ones."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
from tests.players.dual.rounds import (
    GRADIENTS,
    NAMES,
    Adversary,
    B,
    K,
    Stub,
    a_player,
    a_round,
    after,
    against,
    never,
    small,
)

import resetfree as rf
from resetfree.core import Floats
from resetfree.players import discover
from resetfree.players.dual.online_gradient import AdagradNorm, ConstantStep, OptimisticGradient, ProjectedGradient
from resetfree.theory.sets import Ball, ConvexSet, for_features, svec_features

Feasible = Literal["auto", "ball"]


def rows(n: int, d: int, rng: np.random.Generator, sign: bool) -> Floats:
    xi = rng.normal(size=(n, d))
    xi = xi + 1.2 * np.eye(d)[0] if sign else np.abs(xi)
    return np.asarray(xi / np.linalg.norm(xi, axis=1, keepdims=True) * rng.uniform(0.3, 1.0, (n, 1)))


def circle(n: int) -> Floats:
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def orthogonal(xi: Floats) -> Adversary:
    """A start whose feature is at a right angle to theta: the step only turns it."""
    return lambda k, theta: (int(np.argmin(np.abs(xi @ theta))) if len(theta) else k % len(xi), 1.0)


Case = tuple[str, Feasible, Floats | None, Adversary]


def cases() -> Iterator[Case]:
    for d in (1, 2, 5):
        eye = np.eye(d)
        yield f"round robin {d}", "auto", eye, lambda k, theta, d=d: (k % d, 1.0)  # type: ignore[misc]
        yield f"blocks {d}", "auto", eye, lambda k, theta, d=d: (k * d // K, 1.0)  # type: ignore[misc]
    yield "always", "auto", None, lambda k, theta: (0, 1.0)
    yield "once, late", "auto", None, lambda k, theta: (0, float(k == K - 1))
    yield "never", "auto", np.eye(3), lambda k, theta: (k % 3, 0.0)
    flip = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    yield "flip 1", "ball", flip[:2, :1], lambda k, theta: (int(k >= K // 2), 1.0)
    yield "flip 2", "ball", flip, lambda k, theta: (int(k >= K // 2), 1.0)
    yield "orthogonal", "ball", circle(3600), orthogonal(circle(3600))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 6))
        starts, costs = rng.integers(n, size=K), rng.random(K)
        sparse = (rng.random(K) < 0.05).astype(float)
        feasible: Feasible
        for sign in (False, True):
            for feasible in ("auto", "ball"):
                xi = rows(n, d, rng, sign)
                label = f"{'signed' if sign else 'positive'} {feasible} {seed}"
                yield f"random {label}", feasible, xi, lambda k, t, s=starts, c=costs: (s[k], c[k])  # type: ignore[misc]
                yield f"sparse {label}", feasible, xi, lambda k, t, s=starts, c=sparse: (s[k], c[k])  # type: ignore[misc]
        yield f"sparse {seed}", "auto", None, lambda k, t, c=sparse: (0, c[k])  # type: ignore[misc]


CASES = list(cases())


@pytest.fixture(params=CASES, ids=[case[0] for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def comparators(xi: Floats | None, feasible: Feasible, x: Floats) -> list[Floats]:
    """0, the best member of U in hindsight, and random members."""
    features = np.ones((4, 1)) if xi is None else xi
    member: ConvexSet = Ball(features.shape[1], B) if feasible == "ball" else for_features(features, B)
    rng = np.random.default_rng(0)
    best = member.project(1e9 * x.sum(axis=0))
    others = [member.project(s * rng.normal(size=member.dim)) for s in (1.0, 10.0, 100.0)]
    return [np.zeros(member.dim), best, *others]


def test_projected_gradient_keeps_its_bound(case: Case) -> None:
    _, feasible, xi, adversary = case
    trace = against(ProjectedGradient(B=B, feasible_set=feasible), xi, adversary)
    assert trace.lam.max() <= B
    assert np.linalg.norm(trace.theta, axis=1).max() <= B * (1 + 1e-12)
    for u in comparators(xi, feasible, trace.x):
        far = trace.farthest(u)
        assert trace.regret(u) <= small((far**2 / (2 * B) + B) * math.sqrt(K))
        assert trace.regret(u) <= small(3 * B * math.sqrt(K))
    stated = ProjectedGradient(B=B, feasible_set=feasible).statement(Stub(xi), K)
    assert stated.covered
    assert trace.regret(comparators(xi, feasible, trace.x)[1]) <= small(float(stated.constants["dual_regret_bound"]))


def test_zero_is_never_beaten_by_costs_alone(case: Case) -> None:
    """Against u = 0 the regret is at most 0: every multiplier and every cost is non-negative."""
    _, feasible, xi, adversary = case
    trace = against(ProjectedGradient(B=B, feasible_set=feasible), xi, adversary)
    assert trace.regret(np.zeros(trace.x.shape[1])) <= 0.0


@pytest.mark.parametrize("eta", [None, 0.05, 3.0])
def test_constant_step_keeps_its_bound(case: Case, eta: float | None) -> None:
    _, feasible, xi, adversary = case
    trace = against(ConstantStep(B=B, eta=eta, feasible_set=feasible), xi, adversary)
    step = B / math.sqrt(K) if eta is None else eta
    for u in comparators(xi, feasible, trace.x):
        assert trace.regret(u) <= small(u @ u / (2 * step) + step / 2 * trace.squares)
        assert eta is not None or trace.regret(u) <= small(B * math.sqrt(K))


@pytest.mark.parametrize("gamma", [None, 1.0])
def test_adagrad_keeps_its_bound(case: Case, gamma: float | None) -> None:
    _, feasible, xi, adversary = case
    player = AdagradNorm(B=B, gamma=gamma, feasible_set=feasible)
    trace = against(player, xi, adversary)
    constants = player.statement(Stub(xi), K).constants
    scale, D = float(constants["gamma"]), float(constants["D"])
    for u in comparators(xi, feasible, trace.x):
        far = trace.farthest(u)
        assert trace.regret(u) <= small((far**2 / (2 * scale) + scale) * math.sqrt(trace.squares))
        assert gamma is not None or trace.regret(u) <= small(math.sqrt(2) * D * math.sqrt(trace.squares))


@pytest.mark.parametrize("hint", ["last", "frequency"])
@pytest.mark.parametrize("eta", [None, 0.3])
def test_optimistic_gradient_keeps_its_bound(case: Case, hint: Literal["last", "frequency"], eta: float | None) -> None:
    _, feasible, xi, adversary = case
    trace = against(OptimisticGradient(B=B, eta=eta, hint=hint, feasible_set=feasible), xi, adversary)
    step = B / math.sqrt(K) if eta is None else eta
    past: dict[int, list[float]] = {}
    wrong = 0.0
    features = np.ones((4, 1)) if xi is None else xi
    for s1, g in zip(trace.s1, trace.g, strict=True):
        seen = past.setdefault(s1, [])
        h = 0.0 if not seen else seen[-1] if hint == "last" else sum(seen) / len(seen)
        wrong += float(features[s1] @ features[s1]) * (g - h) ** 2
        seen.append(g)
    for u in comparators(xi, feasible, trace.x):
        assert trace.regret(u) <= small(u @ u / (2 * step) + step / 2 * wrong)


@pytest.mark.parametrize("name", sorted(NAMES - {"search"}))
def test_rounding_multipliers_up_never_increases_the_dual_regret(case: Case, name: str) -> None:
    _, feasible, xi, adversary = case
    cls = discover("dual")[name]
    known = {f.name for f in dataclasses.fields(cls)}
    trace = against(cls(**{k: v for k, v in {"B": B, "feasible_set": feasible}.items() if k in known}), xi, adversary)
    levels = np.concatenate([[0.0], 2.0 ** np.arange(-4, 40)])
    dyadic = levels[np.searchsorted(levels, trace.lam)]
    assert (dyadic >= trace.lam).all()
    higher = dataclasses.replace(trace, lam=dyadic)
    for u in comparators(xi, feasible, trace.x):
        assert higher.regret(u) <= trace.regret(u) + 1e-9


def test_the_ball_alone_can_pay_for_resets_and_what_is_played_does_not() -> None:
    xi = np.array([[1.0, 0.0], [-0.8, 0.6]])
    player = ProjectedGradient(B=B, feasible_set="ball")
    state = player.init(Stub(xi), K, 0)
    state = player.update(state, a_round(1, 0, 0.0, 1.0))
    assert xi[1] @ state.theta == pytest.approx(-0.8 * B)
    assert player.multiplier(state, 1, never) == 0.0
    auto = ProjectedGradient(B=B)
    state = auto.update(auto.init(Stub(xi), K, 0), a_round(1, 0, 0.0, 1.0))
    assert xi @ state.theta == pytest.approx([0.6 * 0.6 * B, 0.0])  # the projection of (B, 0) on the cone


def test_projected_gradient_by_hand() -> None:
    player = ProjectedGradient(B=4.0)
    state = player.init(Stub(), K, 0)
    seen = []
    for k, g in enumerate([0.25, 0.0, 0.0, 0.5, 0.0, 1.0], start=1):
        state = player.update(state, a_round(k, 0, 0.0, g))
        seen.append(player.multiplier(state, 0, never))
    assert seen == pytest.approx([1.0, 1.0, 1.0, 2.0, 2.0, 2.0 + 4.0 / math.sqrt(6.0)])
    once = player.update(player.init(Stub(), K, 0), a_round(1, 0, 0.0, 1.0))
    assert player.multiplier(once, 0, never) == 4.0  # a certain reset in round 1 throws the multiplier to B at once


def test_adagrad_by_hand() -> None:
    xi = np.array([[1.0], [0.5]])
    state = after(AdagradNorm(B=40.0, gamma=2.0), [(0, 0.5), (0, 0.0), (1, 0.6)], xi)
    assert state.total == pytest.approx(0.25 + 0.09)
    assert state.theta == pytest.approx(2.0 / 0.5 * 0.5 + 2.0 / math.sqrt(0.34) * 0.3)


def test_optimistic_gradient_by_hand() -> None:
    """B = 40 and K = 100 make eta = 4."""
    costs = [(0, 0.5), (0, 0.2), (1, 0.4)]
    last, mean = OptimisticGradient(B=40.0), OptimisticGradient(B=40.0, hint="frequency")
    one, two = after(last, costs), after(mean, costs)
    assert one.theta == two.theta == pytest.approx(4.0 * 1.1)
    assert [last.multiplier(one, s1, never) for s1 in range(3)] == pytest.approx([4 * 1.3, 4 * 1.5, 4 * 1.1])
    assert [mean.multiplier(two, s1, never) for s1 in range(3)] == pytest.approx([4 * 1.45, 4 * 1.5, 4 * 1.1])


def test_features_that_are_negative_or_of_both_signs() -> None:
    """On a line U is [-B, 0] if no feature is positive, and {0} if there are both signs."""
    negative, both = np.array([[-1.0], [-0.5]]), np.array([[1.0], [-0.5]])
    for name in GRADIENTS:
        player = a_player(name)
        state = after(player, [(0, 1.0)] * 50, negative)
        assert player.multiplier(state, 0, never) == 2 * player.multiplier(state, 1, never) > 0.0
        state = after(player, [(0, 1.0)] * 50, both)
        assert player.multiplier(state, 0, never) == player.multiplier(state, 1, never) == 0.0


def test_one_dimension_is_the_same_in_numbers_and_in_arrays() -> None:
    """xi [S, 1] runs on plain numbers; a second coordinate that is always zero runs on arrays."""
    rng = np.random.default_rng(5)
    xi = rng.choice([0.0, 0.3, 1.0], (6, 1))
    starts, costs = rng.integers(6, size=K), rng.random(K) ** 4
    for name in GRADIENTS:
        for feasible in ("auto", "ball"):
            player = a_player(name, feasible_set=feasible, **({"gamma": 2.0} if name == "adagrad-norm" else {}))
            line = against(player, xi, lambda k, t: (int(starts[k]), costs[k]))
            space = against(player, np.hstack([xi, 0 * xi]), lambda k, t: (int(starts[k]), costs[k]))
            assert np.abs(line.lam - space.lam).max() <= 1e-12
            assert 0.0 < line.lam.max() <= B


def test_no_features_is_the_constant_one() -> None:
    rng = np.random.default_rng(6)
    costs = rng.random(K)
    for name in sorted(NAMES - {"search"}):
        player = a_player(name)
        without = against(player, None, lambda k, t: (k % 4, costs[k]))
        ones = against(player, np.ones((4, 1)), lambda k, t: (k % 4, costs[k]))
        assert (without.lam == ones.lam).all()
        if name in {"projected-gradient", "constant-step", "adagrad-norm"}:
            assert (np.diff(without.lam) >= 0.0).all()  # with xi = 1 the multiplier never falls


def test_sums_of_squares_as_features() -> None:
    rng = np.random.default_rng(7)
    m = rng.normal(size=(8, 3))
    xi = svec_features(m / np.linalg.norm(m, axis=1, keepdims=True))
    player = ProjectedGradient(B=B, feasible_set="sum-of-squares")
    trace = against(player, xi, lambda k, t: (int(rng.integers(8)), rng.random()))
    assert (trace.theta @ xi.T >= -1e-9).all()
    assert player.statement(Stub(xi), K).constants["U"] == "SumOfSquaresBall"
    with pytest.raises(rf.InvalidInput, match="needs features xi made by svec_features"):
        player.init(Stub(np.array([[0.5, 0.5, -0.5]])), K, 0)
