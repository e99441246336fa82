"""Every dual player keeps the bound it states, on the sequences that hurt and on random ones."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln

import resetfree as rf
from resetfree.players import discover, make_player
from resetfree.players.dual.one_multiplier import ConstantPenalty, Counting, Search
from resetfree.players.dual.online_gradient import AdagradNorm, ConstantStep, OptimisticGradient, ProjectedGradient
from resetfree.players.dual.unknown_bound import CoinBetting
from resetfree.theory.sets import Ball, ConvexSet, for_features, svec_features

Floats = NDArray[np.float64]
Feasible = Literal["auto", "ball"]
B = 7.0
K = 400
NAMES = {
    "adagrad-norm", "coin-betting", "constant-penalty", "constant-step", "counting", "optimistic-gradient",
    "projected-gradient", "search", "doubling",
}  # fmt: skip


class Stub(rf.Problem):
    """A problem that is nothing but its features."""

    name, horizon, n_actions, stationary, phi = "stub", 1, 1, True, None
    n_uniforms = 1

    def __init__(self, xi: Floats | None = None, n_states: int | None = 4) -> None:
        self.xi = xi
        self.n_states = n_states if xi is None else len(xi)

    def first_start(self, u: float) -> int:
        return 0

    def rollout(self, policy: Any, start: Any, u: Floats) -> rf.Episode:
        raise NotImplementedError


def a_round(k: int, s1: int, lam: float, g: float, reset: bool | None = None) -> rf.Round:
    happened = g > 0.5 if reset is None else reset
    episode = rf.Episode(np.array([s1, 0]), np.array([0]), np.array([0.0]), happened, 0)
    return rf.Round(k, s1, lam, rf.Plan(None, 0.0, g), episode, g, None)


def never(lam: float) -> rf.Plan:
    raise AssertionError("this player must not ask for plans")


@dataclasses.dataclass
class Trace:
    """What was played against a sequence of starts and costs."""

    lam: Floats  # [K]
    theta: Floats  # [K, d] before each round; [K, 0] for players without a parameter
    x: Floats  # [K, d] gradients xi(s_1) g
    s1: list[int]
    g: Floats  # [K]
    state: Any

    def regret(self, u: Floats) -> float:
        """sum_k (<xi(s_1^k), u> - lam^k) g_k."""
        return float((self.x @ u - self.lam * self.g).sum())

    def farthest(self, u: Floats) -> float:
        """max_k |theta_k - u|."""
        return float(np.linalg.norm(self.theta - u, axis=1).max())

    @property
    def squares(self) -> float:
        """sum_k |x_k|^2."""
        return float((self.x**2).sum())


Adversary = Callable[[int, Floats], tuple[int, float]]  # (round from 0, theta) -> start, cost signal


def against(player: rf.DualPlayer[Any], xi: Floats | None, adversary: Adversary, rounds: int = K) -> Trace:
    problem = Stub(xi)
    state = player.init(problem, rounds, 0)
    features = np.ones((problem.n_states or 1, 1)) if xi is None else xi
    lams, thetas, xs, starts, gs = [], [], [], [], []
    for k in range(rounds):
        theta = np.atleast_1d(getattr(state, "theta", getattr(state, "y", np.zeros(0)))).astype(float)
        s1, g = adversary(k, theta)
        lam = player.multiplier(state, s1, never)
        assert lam == player.multiplier(state, s1, never)  # asking twice changes nothing
        assert lam >= 0.0
        state = player.update(state, a_round(k + 1, s1, lam, g))
        lams.append(lam)
        thetas.append(theta.copy())
        xs.append(features[s1] * g)
        starts.append(s1)
        gs.append(g)
    return Trace(np.array(lams), np.array(thetas), np.array(xs), starts, np.array(gs), state)


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


def small(bound: Any) -> float:
    return float(bound) + 1e-9 * (1.0 + abs(float(bound)))


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


def after(player: rf.DualPlayer[Any], rounds: list[tuple[int, float]], xi: Floats | None = None) -> Any:
    """The player's state after starts and costs."""
    state = player.init(Stub(xi), 100, 0)
    for k, (s1, g) in enumerate(rounds, start=1):
        state = player.update(state, a_round(k, s1, 0.0, g))
    return state


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


def test_coin_betting_by_hand() -> None:
    state = after(CoinBetting(), [(0, 0.5), (0, 0.0), (0, 0.8)])
    assert (state.total, state.n) == (1.3, 2)
    assert state.wealth == pytest.approx(1.0 + 0.8 * (0.5 / 2))
    assert CoinBetting().multiplier(state, 0, never) == pytest.approx(1.3 / 3 * 1.2)


def test_features_that_are_negative_or_of_both_signs() -> None:
    """On a line U is [-B, 0] if no feature is positive, and {0} if there are both signs."""
    negative, both = np.array([[-1.0], [-0.5]]), np.array([[1.0], [-0.5]])
    for name in ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient"):
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
    for name in ("projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient"):
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
        player = make_player("dual", name, {"B": B} if "B" in discover("dual")[name].__dataclass_fields__ else None)
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


# Coin betting


SIGNALS: dict[str, Callable[[int, float, np.random.Generator], float]] = {
    "ones": lambda k, lam, rng: 1.0 if k < 60 else 0.0,
    "uniform": lambda k, lam, rng: 0.1 * rng.random(),
    "sparse": lambda k, lam, rng: float(rng.random() < 0.05),
    "falling": lambda k, lam, rng: 1.0 / (k + 1),
    "until 5": lambda k, lam, rng: float(lam < 5.0),
    "until 500": lambda k, lam, rng: float(lam < 500.0 and k < 100),
    "until 500, noisy": lambda k, lam, rng: float(rng.random() < (0.3 if lam < 500.0 else 0.01)),
    "tiny": lambda k, lam, rng: 1e-12,
}


def bet(player: CoinBetting, kind: str, rounds: int) -> tuple[Floats, Floats, Any]:
    rng = np.random.default_rng(8)
    state = player.init(Stub(), rounds, 0)
    lams, gs = [], []
    for k in range(rounds):
        lam = player.multiplier(state, 0, never)
        g = SIGNALS[kind](k, lam, rng)
        state = player.update(state, a_round(k + 1, 0, lam, g))
        lams.append(lam)
        gs.append(g)
    return np.array(lams), np.array(gs), state


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("eps", [1.0, 0.01])
@pytest.mark.parametrize("every_round", [False, True])
def test_coin_betting_keeps_the_bound_of_the_literature(kind: str, eps: float, every_round: bool) -> None:
    for rounds in (1, 3, 50, 1000):
        lam, g, state = bet(CoinBetting(eps=eps, every_round=every_round), kind, rounds)
        n = rounds if every_round else int((g > 0).sum())
        assert (lam >= 0.0).all()
        for u in (0.0, 0.1, 1.0, 5.0, 39.0, 1000.0, 1e5):
            regret = float(((u - lam) * g).sum())
            assert regret <= small(u * math.sqrt(n * math.log1p(24 * n**2 * u**2 / eps**2)) + eps)
        if lam.max() < 1e9:
            assert state.wealth == pytest.approx(eps + (g * lam).sum())


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("every_round", [False, True])
def test_the_wealth_of_the_bettor_is_at_least_its_potential(kind: str, every_round: bool) -> None:
    """W >= eps 2^N Gamma((N+1)/2 + t/2) Gamma((N+1)/2 - t/2) / (pi N!) with t the sum of the signals."""
    for rounds in (1, 2, 10, 300):
        _, _, state = bet(CoinBetting(every_round=every_round), kind, rounds)
        n, t = state.n, state.total
        log_potential = (
            n * math.log(2) + gammaln((n + 1 + t) / 2) + gammaln((n + 1 - t) / 2) - math.log(math.pi) - gammaln(n + 1)
        )
        assert math.log(state.wealth) >= log_potential - 1e-9


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("every_round", [False, True])
def test_the_ceiling_keeps_the_bound_below_it(kind: str, every_round: bool) -> None:
    lam, g, state = bet(CoinBetting(ceiling=5.0, every_round=every_round), kind, 2000)
    n = 2000 if every_round else int((g > 0).sum())
    assert lam.max() <= 5.0
    assert math.isfinite(state.wealth)
    for u in (0.0, 1.0, 4.0, 5.0):
        bound = u * math.sqrt(n * math.log1p(24 * n**2 * u**2)) + 1.0
        assert float(((u - lam) * g).sum()) <= small(bound)


def test_coin_betting_needs_few_resets_for_a_large_multiplier() -> None:
    lam, g, _ = bet(CoinBetting(), "until 500", 1000)
    assert 500.0 <= lam[-1] <= 1000.0
    assert g.sum() <= 14


def test_coin_betting_stops_at_the_ceiling_where_nothing_helps() -> None:
    player = CoinBetting()
    state = player.init(Stub(), 10_000, 0)
    for k in range(10_000):  # a problem in which every episode is a reset
        state = player.update(state, a_round(k + 1, 0, 0.0, 1.0))
    assert player.multiplier(state, 0, never) == 1e9
    assert state.n < 40


def test_the_bettor_forgets_only_if_it_bets_in_every_round() -> None:
    for every_round in (False, True):
        lam, _, _ = bet(CoinBetting(every_round=every_round), "until 500", 1000)
        assert (lam[-1] < 100.0) == every_round


# Players without a gradient


def test_constant_penalty_is_constant() -> None:
    for player, expected in [
        (ConstantPenalty(B=3.0), 3.0),
        (ConstantPenalty(C=2.5), 2.5),
        (ConstantPenalty(B=3.0, C=0.0), 0.0),
    ]:
        trace = against(player, np.eye(3), lambda k, t: (k % 3, 1.0))
        assert set(trace.lam.tolist()) == {expected}
    trace = against(ConstantPenalty(B=B), None, lambda k, t: (0, 1.0 / (k + 1)))
    assert trace.regret(np.array([B])) == 0.0
    assert trace.regret(np.array([B - 1.0])) < 0.0


def test_counting_counts_what_happened_and_not_what_was_signalled() -> None:
    player = Counting(eta=0.5)
    state = player.init(Stub(), K, 0)
    for k, (g, reset) in enumerate([(1.0, False), (0.0, True), (0.3, True), (0.2, False)], start=1):
        state = player.update(state, a_round(k, 0, 0.0, g, reset))
    assert (state.n, player.multiplier(state, 3, never)) == (2, 1.0)
    assert type(state.n) is int


class Asked:
    """A primal player's answers, counted."""

    def __init__(self, v_c: Callable[[float], float]) -> None:
        self.v_c, self.asked = v_c, list[float]()

    def __call__(self, lam: float) -> rf.Plan:
        self.asked.append(lam)
        return rf.Plan(None, 0.0, self.v_c(lam))


@pytest.mark.parametrize("threshold", [1e-3, 0.5, 3.0, math.pi, 7.9])
def test_search_finds_the_threshold(threshold: float) -> None:
    player = Search(B=8.0, tolerance=0.0)
    ask = Asked(lambda lam: 0.4 if lam < threshold else 0.0)
    lam = player.multiplier(player.init(Stub(), K, 0), 0, ask)
    assert threshold <= lam <= threshold + 8.0 / 2**20
    assert len(ask.asked) == 22
    assert ask.asked[:3] == [0.0, 8.0, 4.0]


def test_search_at_the_ends() -> None:
    player = Search(B=8.0, tolerance=0.1)
    state = player.init(Stub(), K, 0)
    free, hopeless = Asked(lambda lam: 0.1), Asked(lambda lam: 0.2)
    assert player.multiplier(state, 0, free) == 0.0
    assert free.asked == [0.0]
    assert player.multiplier(state, 0, hopeless) == 8.0
    assert hopeless.asked == [0.0, 8.0]
    unknown = Asked(lambda lam: math.nan)
    assert player.multiplier(state, 0, unknown) == 8.0
    coarse = Search(B=8.0, tolerance=0.0, n_steps=1)
    assert coarse.multiplier(coarse.init(Stub(), K, 0), 0, Asked(lambda lam: float(lam < 5))) == 8.0


def test_search_plays_a_safe_plan_even_where_cost_rises_with_the_multiplier() -> None:
    rng = np.random.default_rng(9)
    player = Search(B=B)
    state = player.init(Stub(), 100, 0)
    assert state.tol == 0.1
    regret = 0.0
    for _ in range(100):
        table = rng.random(40) ** 3

        def v_c(lam: float, table: Floats = table) -> float:
            return float(table[int(lam / B * 39)])

        lam = player.multiplier(state, 0, Asked(v_c))
        assert v_c(lam) <= 0.1 or lam == B
        regret += (B - lam) * v_c(lam)
    assert regret <= small(B * math.sqrt(100))


# All of them


def test_every_player_is_discovered() -> None:
    assert set(discover("dual")) == NAMES | {"one-multiplier", "virtual-queue"}  # those two belong to baselines


def a_player(name: str, **options: Any) -> rf.DualPlayer[Any]:
    fields = discover("dual")[name].__dataclass_fields__
    player: rf.DualPlayer[Any] = make_player("dual", name, ({"B": B} if "B" in fields else {}) | options)
    return player


@pytest.mark.parametrize(
    "name",
    ["projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient", "search", "constant-penalty"],
)
def test_the_bound_is_asked_for(name: str) -> None:
    player = discover("dual")[name]()
    sentence = f"The 'B' of {name} must be a bound on the multipliers. Got None instead."
    with pytest.raises(rf.InvalidInput) as caught:
        player.init(Stub(), K, 0)
    assert str(caught.value) == sentence
    with pytest.raises(rf.InvalidInput) as caught:
        player.statement(Stub(), K)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["constant-step", "optimistic-gradient", "search"])
def test_constants_that_depend_on_the_number_of_rounds_need_some(name: str) -> None:
    with pytest.raises(rf.InvalidInput, match="The 'episodes' of a game must be a positive integer"):
        a_player(name).init(Stub(), 0, 0)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1, math.inf])
@pytest.mark.parametrize(
    "name", ["projected-gradient", "constant-step", "adagrad-norm", "optimistic-gradient", "coin-betting"]
)
def test_a_cost_signal_that_is_no_cost_is_refused(name: str, bad: float) -> None:
    player = a_player(name)
    with pytest.raises(rf.InvalidInput, match=r"The 'cost_signal' of a round must lie in \[0, 1\]"):
        player.update(player.init(Stub(), K, 0), a_round(5, 0, 0.0, bad))
    player.update(player.init(Stub(), K, 0), a_round(5, 0, 0.0, 1.0 + 1e-15))  # rounding is forgiven


def test_features_of_the_wrong_shape_are_refused() -> None:
    problem = Stub(np.eye(3))
    problem.n_states = None
    with pytest.raises(rf.InvalidInput, match="The 'xi' of a problem must be finite numbers of shape"):
        ProjectedGradient(B=1.0).init(problem, K, 0)


def test_starts_that_are_not_finite_share_one_hint() -> None:
    player = OptimisticGradient(B=B)
    state = player.init(Stub(None, None), 100, 0)
    state = player.update(state, a_round(1, 0, 0.0, 1.0))
    eta = B / 10
    assert player.multiplier(state, np.array([0.3, 0.4]), never) == 2 * eta  # one step, and the same again as a hint


@pytest.mark.parametrize(
    ("player", "xi", "covered", "bound"),
    [
        (ProjectedGradient(B=2.0), None, True, 1.5 * 2 * 10),
        (ProjectedGradient(B=2.0), np.eye(3), True, 2.0 * 2 * 10),
        (ProjectedGradient(B=2.0), np.array([[1.0, 0.0], [0.6, 0.8]]), True, 3.0 * 2 * 10),
        (ProjectedGradient(B=2.0, feasible_set="ball"), np.eye(3), True, 3.0 * 2 * 10),
        (ProjectedGradient(B=2.0), 2 * np.eye(3), False, None),
        (ConstantStep(B=2.0), np.eye(3), True, 2 * 10),
        (ConstantStep(B=2.0, eta=0.4), None, True, 5.0 + 20.0),
        (ConstantStep(B=2.0, eta=0.001), None, False, 2000.0 + 0.05),
        (AdagradNorm(B=2.0), np.eye(3), True, 2.0 * 2 * 10),
        (AdagradNorm(B=2.0, gamma=1e-3), np.eye(3), False, None),
        (OptimisticGradient(B=2.0), np.eye(3), True, 2 * 10),
        (CoinBetting(), None, False, None),
        (ConstantPenalty(B=2.0), None, True, 0.0),
        (ConstantPenalty(B=2.0, C=3.0), None, True, 0.0),
        (ConstantPenalty(B=2.0, C=1.0), None, False, None),
        (ConstantPenalty(C=2.0), None, False, None),
        (Counting(), None, False, None),
        (Search(B=2.0), None, True, 2 * 10),
        (Search(B=2.0, tolerance=0.5), None, False, 100.0),
    ],
)
def test_statements(player: rf.DualPlayer[Any], xi: Floats | None, covered: bool, bound: float | None) -> None:
    stated = player.statement(Stub(xi), 100)
    assert stated.covered is covered
    assert stated.why
    assert all(isinstance(value, float | int | str | bool) for value in stated.constants.values())
    if bound is not None:
        assert stated.constants["dual_regret_bound"] == pytest.approx(bound)


def test_tuned_constants_are_told_apart() -> None:
    assert Counting().statement(Stub(), K).constants["tuned"] is True
    assert ConstantStep(B=1.0).statement(Stub(), K).constants["tuned"] is False
    assert ConstantStep(B=1.0, eta=0.1).statement(Stub(), K).constants["tuned"] is True
    assert "1/(2X)" in Counting().statement(Stub(), K).why
    assert "not bounded by B" in " ".join(CoinBetting().statement(Stub(), K).why.split())


@pytest.mark.parametrize("eps", [1.0, 1e-3, 1e150, 1e-150])
def test_the_bound_of_the_bettor_is_nearly_reached(eps: float) -> None:
    """Growing signals take more than 4/5 of it, for every eps: a constant smaller by a fifth would be wrong."""
    g, total, wealth, u = (np.arange(1, 301) / 300) ** 2, 0.0, 1.0, 5e7
    for i, cost in enumerate(g):
        total, wealth = total + cost, wealth + cost * total / (i + 1) * wealth
    if eps * u > 1e150:
        said = CoinBetting(eps=eps).statement(Stub(), 300)
        assert math.isfinite(float(said.constants["dual_regret_bound_for_1"]))
        return
    share = (u * total - (wealth - 1.0)) * eps / CoinBetting(eps=eps)._regret(u * eps, 300)
    assert 0.8 < share <= 1.0
