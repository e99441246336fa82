"""Every bound of a player again, written from its theorem (see `formulas`)."""

from math import ceil, log, log1p, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
from tests.mutants.formulas import Pairs, ball, of, runs, self_normalised, upper

import resetfree as rf
from resetfree.game.capabilities import Comparator, PlanAges
from resetfree.players import discover
from resetfree.players.elimination.rule_class import rows_of, rules_of
from resetfree.players.linear import intervals
from resetfree.players.linear import regression as proved_linear
from resetfree.players.linear.greedy_composite import composite_beta
from resetfree.theory import proved_widths, visit_sums, widths
from resetfree.theory.assumptions import reachable_starts


def method(role: Any, player: str, name: str) -> Any:
    """A method of a registered player, where it is defined."""
    return next(vars(cls)[name] for cls in discover(role)[player].__mro__ if name in vars(cls))


def dual(player: str, name: str = "online_regret_bound") -> Any:
    return method("dual", player, name)


def met(seed: int = 0, n: int = 23) -> Any:
    """A history of a dual player with random numbers where its bounds read some."""
    rng = np.random.default_rng(seed)
    signals = np.where(rng.random(n) < 0.3, 0.0, rng.random(n))
    state = SimpleNamespace(gamma=0.7, eta=0.31, among=SimpleNamespace(cap=4.2), n=n)
    distance = np.maximum.accumulate(3 * rng.random(n) + 1.0)
    numbers = {"squares": rng.random(n), "misses": rng.random(n), "lam": np.full(n, 5.0)}
    replay = SimpleNamespace(state=state, distance={"u": distance}, **numbers)
    k = np.arange(1.0, n + 1)
    return SimpleNamespace(signals=signals, replay=replay, k=k, episodes=n + 8, feedback="optimistic")


def comparator(u: float, n: int = 23) -> Comparator:
    return Comparator("u", u, np.full(n, u), u)


U = (0.5, 3.0, 4.1)


@of(dual("projected-gradient"), dual("projected-gradient", "step_lengths"), dual("projected-gradient", "other_bounds"))
def gradient() -> Pairs:
    player, h, B = discover("dual")["projected-gradient"](B=4.2), met(), 4.2
    D, x = h.replay.distance["u"], h.replay.squares
    G = [max(x[: i + 1]) for i in range(len(x))]
    yield (
        player.online_regret_bound(h, comparator(3.0)),
        [(D[i] ** 2 / (2 * B) + B * G[i]) * sqrt(i + 1) for i in range(len(x))],
    )
    yield player.step_lengths(h), [B * sqrt(x[i]) / sqrt(i + 1) for i in range(len(x))]
    yield player.other_bounds(h, comparator(3.0))[0].most, [1.5 * B * sqrt(i + 1) for i in range(len(x))]


@of(dual("adagrad-norm"), dual("adagrad-norm", "step_lengths"))
def adagrad() -> Pairs:
    player, h, gamma = discover("dual")["adagrad-norm"](B=4.2), met(1), 0.7
    D, x = h.replay.distance["u"], h.replay.squares
    yield (
        player.online_regret_bound(h, comparator(3.0)),
        [(D[i] ** 2 / (2 * gamma) + gamma) * sqrt(sum(x[: i + 1])) for i in range(len(x))],
    )
    yield player.step_lengths(h), [gamma * sqrt(x[i] / sum(x[: i + 1])) for i in range(len(x))]


@of(dual("constant-step"), dual("constant-step", "step_lengths"), dual("optimistic-gradient"))
def fixed_steps() -> Pairs:
    h, eta = met(2), 0.31
    for name, terms in (("constant-step", h.replay.squares), ("optimistic-gradient", h.replay.misses)):
        player = discover("dual")[name](B=4.2)
        for u in U:
            yield player.online_regret_bound(h, comparator(u)), u * u / (2 * eta) + eta / 2 * np.cumsum(terms)
    yield discover("dual")["constant-step"](B=4.2).step_lengths(h), eta * np.sqrt(h.replay.squares)


@of(dual("coin-betting"), dual("coin-betting", "_regret"), dual("coin-betting", "largest_multiplier"))
def betting() -> Pairs:
    h = met(3)
    for every, eps, ceiling in ((False, 1.0, 1e9), (True, 0.2, 50.0)):
        player = discover("dual")["coin-betting"](eps=eps, ceiling=ceiling, every_round=every)
        N = h.k if every else np.cumsum(h.signals > 0)
        for u in U:
            yield (
                player.online_regret_bound(h, comparator(u)),
                u * np.sqrt(N * np.log(1 + 24 * (N * u / eps) ** 2)) + eps,
            )
        yield player.online_regret_bound(h, comparator(0.0)), np.full(len(N), eps)
        yield player.largest_multiplier(None, 9), ceiling


@of(dual("doubling"), dual("doubling", "phases"), dual("doubling", "_phase"), dual("doubling", "largest_multiplier"))
def doubling() -> Pairs:
    h = met(4)
    for first, patience, growth, u in ((1.0, 1.0, 0.0, 5.0), (0.3, 2.5, 0.7, 4.0), (0.5, 0.1, 0.0, 0.2)):
        player = discover("dual")["doubling"](first=first, patience=patience, growth=growth, ceiling=1e6)
        lam = [first]
        while lam[-1] < u:
            lam.append(2 * lam[-1])
        yield player.phases(u), [(one, patience + growth * one) for one in lam]
        most = sum((u - one) * (patience + growth * one + 1) for one in lam if one < u)
        yield player.online_regret_bound(h, comparator(u)), np.minimum(most, u * h.k)
        yield player.largest_multiplier(None, 7), min(first * 2.0 ** int(7 / patience), 1e6)


@of(
    dual("search"),
    dual("search", "largest_multiplier"),
    dual("constant-penalty", "largest_multiplier"),
    dual("projected-gradient", "largest_multiplier"),
)
def by_the_bound() -> Pairs:
    h, problem = met(5), rf.make("grid-v0").problem()
    for tolerance, tol in ((None, 1 / sqrt(31)), (0.25, 0.25)):
        yield (
            discover("dual")["search"](B=4.2, tolerance=tolerance).online_regret_bound(h, comparator(3.0)),
            4.2 * tol * h.k,
        )
    for name in ("search", "projected-gradient", "constant-penalty"):
        yield discover("dual")[name](B=4.2).largest_multiplier(problem, 9), 4.2
    yield discover("dual")["constant-penalty"](B=2.0, C=7.0).largest_multiplier(problem, 9), 7.0


@of(
    dual("constant-penalty"),
    method("primal", "best-response", "primal_regret_bound"),
    method("primal", "best-response", "delayed_regret_bound"),
)
def zero() -> Pairs:
    """Nothing to scale: 0.9 of it is as true."""
    yield discover("dual")["constant-penalty"](B=5.0).online_regret_bound(met(), comparator(3.0)), np.zeros(23)
    yield discover("primal")["best-response"]().primal_regret_bound(None, 9, 9).most, 0.0
    yield discover("primal")["best-response"]().delayed_regret_bound(None, 9, None).most, 0.0


@of(composite_beta)
def composite() -> Pairs:
    for r in runs():
        R, eps = r.H + r.B, r.d * (r.H + r.B) / r.K

        def cover(b: float, R: float = R, eps: float = eps, r: Any = r) -> float:
            w = ball(r.d, 2 * R * sqrt(r.d * r.K), eps / 2)
            return w + ball(r.d**2, sqrt(r.d) * b * b, eps**2 / 4) + ball(1, r.B, eps)

        yield composite_beta(r.d, r.H, r.K, r.B, r.p), self_normalised(r, R, cover, None)


def ages(n: int = 40) -> PlanAges:
    on = np.maximum(np.arange(n) - 3, 0)
    return PlanAges(on, np.arange(n) - on, np.zeros(n), np.ones(n, dtype=np.bool_))


LINEAR = [
    method("primal", "linear-ucb", name)
    for name in ("primal_regret_bound", "delayed_regret_bound", "_regret_bound", "betas", "temperature")
]


@of(*LINEAR)
def algorithm_1() -> Pairs:
    """The rate of the theorem, with old and rare plans, a temperature that grows, and a ridge below 1."""
    cls, problem = discover("primal")["linear-ucb"], rf.make("random-linear-v0", d=3, horizon=4).problem()
    H, A, d, B, K, p = 4, problem.n_actions, 3, 6.5, 40, 0.07
    for reg, anytime_too, split in ((1.0, False, True), (0.2, True, False), (2.5, False, True)):
        player = cls(B=B, width="theory", p=p, reg=reg, anytime=anytime_too, split=split)
        alpha = log(A) * (1 if anytime_too else K) / (2 * (1 + B + H))
        yield player.temperature(problem, K), alpha
        most = alpha * K if anytime_too else alpha
        beta_r, beta_c = (widths.theory_beta(d, H, K, B, p, alpha=most, target_range=R) for R in (float(H), 1.0))
        beta_c = beta_c if split else beta_r
        yield player.betas(problem, K), (beta_r, beta_c)
        factor = 2.0 if reg >= 1 else (1 / reg) / log1p(1 / reg)
        sum_of_widths = 2 * (beta_r + B * beta_c) * H * sqrt(factor * d * K * log(1 + K / (d * reg)))
        chance, old = 2 * (H + B) * sqrt(K * H * log(2 / p)), ages(K)
        for on in (np.arange(K), old.based_on):
            softmax = sum(H * log(A) / (alpha * ((j + 1) if anytime_too else 1)) for j in on)
            if on is old.based_on:
                doubled = 3 * H * d * log(1 + K / (d * reg)) / log(2)
                yield (
                    player.delayed_regret_bound(problem, K, old).most,
                    (softmax + sqrt(2) * sum_of_widths + (H + B) * doubled + chance),
                )
            else:
                yield player.primal_regret_bound(problem, K, K).most, softmax + sum_of_widths + chance
    yield cls(B=B, width="tuned", scale=0.3).betas(problem, K), (0.3 * H, 0.3)
    yield cls(B=B, width="paper", constant=0.4, p=p).betas(problem, K), (widths.paper_beta(0.4, d, H, K, A, p),) * 2
    yield cls(B=B, width="theory", alpha=2.2).temperature(problem, K), 2.2
    proved = cls(B=B, width="proved", p=p)
    softmax = K * H * log(A) / proved.temperature(problem, K)
    found, widened = proved.primal_regret_bound(problem, K, K), proved.proved(problem, K).regret(K, 0)
    yield (found.most, found.regret), (softmax + widened.most, softmax + widened.regret)


@of(
    proved_linear.summed_widths,
    proved_linear.Determinants.regret,
    proved_linear.Covers.regret,
    intervals.Intervals.regret,
)
def summed() -> Pairs:
    H, B, d, p, K, late = 4, 6.5, 3, 0.07, 10**6, 2
    problem = rf.make("random-linear-v0", d=d, horizon=H).problem()
    plane = rf.make("continuous-linear-v0", dimension=2, horizon=H).problem()
    most = H * (H + 1) / 2 + B * H
    for pooled, reg, old, misfit in (
        (False, 1.0, 0, (0.0, 0.0)),
        (True, 0.2, late, (1e-4, 1e-5)),
        (False, 3.0, late, (0.0, 0.0)),
    ):
        n, regressions = (H * K, 1) if pooled else (K, H)
        for cls, on, k in ((proved_linear.Determinants, problem, d), (proved_linear.Covers, plane, 4)):
            growth, factor = k * log(1 + n / (k * reg)), 2.0 if reg >= 1 else (1 / reg) / log1p(1 / reg)
            kept, extra = 1.0, 0.0
            if cls is proved_linear.Determinants:
                bound: Any = proved_linear.Determinants(on, pooled, p, B, reg, misfit)
                beta_r, beta_c = proved_widths.determinant_betas(bound.width, np.full(H, growth), n)
                z = [misfit[1] + (H - h) * misfit[0] + B * misfit[0] for h in range(1, H + 1)]
                extra = 2 * K * sum(z)
            else:
                bound, kept = (
                    proved_linear.Covers(on, pooled, p, B, reg, alpha=40.0, rare=old > 0),
                    sqrt(2) if old else 1.0,
                )
                beta_r, beta_c = proved_widths.cover_betas(
                    bound.width, np.full(H, float(ceil(growth))), np.full(H, float(n))
                )
            weights = 2 * (beta_r + B * beta_c) * kept
            total = (max(weights) if pooled else sum(weights)) * sqrt(n * factor * growth)
            if missed := old + pooled:
                total = sqrt(2) * total + most * missed * regressions * growth / log(2)
            assert total < most * K  # or the bound is that of any run
            yield bound.regret(K, old).most, most * upper(total / most, 0.25 * p) + extra
            if cls is proved_linear.Determinants:
                few, weights = H * (H + 1) / 2, 2 * beta_r
                total = (max(weights) if pooled else sum(weights)) * sqrt(n * factor * growth)
                if missed:
                    total = sqrt(2) * total + few * missed * regressions * growth / log(2)
                assert total < few * K
                misfits = 2 * K * sum(misfit[1] + (H - h) * misfit[0] for h in range(1, H + 1))
                yield bound.regret(K, old).regret, few * upper(total / few, 0.25 * p) + misfits
        yield bound.regret(3, old).most, most * 3
    ledge = rf.make("ledge-v0").problem()
    found = intervals.Intervals(ledge, False, p, B)
    D, root = proved_widths.overestimates(ledge, found.width, False, p, 500, 1)
    yield found.regret(500, 1)[:3], (D, True, B * root)


@of(
    method("primal", "politex", "primal_regret_bound"),
    method("primal", "politex", "delayed_regret_bound"),
    method("primal", "politex", "eta"),
    method("primal", "politex", "statement"),
)
def politex() -> Pairs:
    mdp = rf.make("politex-trap-v0")
    problem, K, B = mdp.problem(), 90, 3.5
    player, H, A = discover("primal")["politex"](B=B, model="exact", copies=True), mdp.horizon, mdp.n_actions
    eta = sqrt(8 * log(A) / K) / (H + B)
    n = int(reachable_starts(mdp).states.sum())
    per_start = [log(A) / eta, eta * (H + B) ** 2 * K / 8]  # K_n add up to K
    most = H * (n * per_start[0] + per_start[1])
    yield player.eta(problem, K), eta
    yield player.primal_regret_bound(problem, K, K).most, most
    old = ages()
    yield player.delayed_regret_bound(problem, K, old).most, most + H * eta * (H + B) ** 2 / 4 * sum(old.delays)


@of(
    method("primal", "ucbvi", "log_term"),
    method("primal", "opt-cmdp", "log_term"),
    method("primal", "support-elimination", "_log_term"),
)
def log_terms() -> Pairs:
    problem, K, p = rf.make("grid-v0").problem(), 33, 0.07
    S, A, H = problem.n_states or 0, problem.n_actions, problem.horizon
    cells = S * A * H * K / p
    for noise, cost, bonus, m in (
        (0.0, False, "hoeffding", 1),
        (0.2, True, "hoeffding", 3),
        (0.2, True, "bernstein", 8),
        (0.0, True, "bernstein", 6),
    ):
        player = discover("primal")["ucbvi"](width="theory", noise=noise, cost_part=cost, bonus=bonus, p=p)
        yield player.log_term(problem, K), log(m * cells)
    yield discover("primal")["ucbvi"](scale=0.3).log_term(problem, K), 2 * 0.3**2
    yield discover("primal")["opt-cmdp"](width="theory", p=p).log_term(problem, K), log(4 * S * cells)
    yield discover("primal")["opt-cmdp"](scale=0.3).log_term(problem, K), 0.3**2
    for noise, m in ((0.0, 1), (0.2, 2)):
        player = discover("primal")["support-elimination"](width="theory", noise=noise, p=p)
        yield player._log_term(problem, K, False), log(m * cells)
    yield discover("primal")["support-elimination"](scale=0.3)._log_term(problem, K, False), 2 * 0.3**2


@of(method("primal", "greedy-composite", "betas"))
def greedy() -> Pairs:
    cls, problem, plane = (
        discover("primal")["greedy-composite"],
        rf.make("random-linear-v0", d=3).problem(),
        rf.make("continuous-linear-v0", dimension=2).problem(),
    )
    H, K = problem.horizon, 50
    yield cls(B=4.0, scale=0.3).betas(problem, K), (0.3 * H, 0.3)
    yield cls(B=4.0, width="theory", p=0.07).betas(problem, K), (composite_beta(3, H, K, 4.0, 0.07), 0.0)
    width = proved_widths.determinant_width(problem, 3, False, 0.07, 0.0, reg=1.0)
    yield (
        cls(B=4.0, width="proved", reg=1.0, p=0.07).betas(problem, K),
        proved_widths.determinant_betas(width, np.zeros(H)).max(axis=1),
    )
    cover = proved_widths.cover_width(plane, 4, 0.07, 4.0, float("inf"), reg=1.0)
    nothing = np.zeros(plane.horizon)
    yield (
        cls(B=4.0, width="proved", reg=1.0, p=0.07).betas(plane, K),
        proved_widths.cover_betas(cover, nothing, nothing).max(axis=1),
    )


@of(method("primal", "rule-elimination", "rule_bound"))
def rules() -> Pairs:
    """Bits of each action's rule by its description, the bits that name them, and log2 K + 1 tests."""
    problem = rf.make("grid-v0").problem()
    fatal = np.zeros((1, problem.n_states or 0, problem.n_actions), dtype=np.bool_)
    fatal[0, 1, 0] = fatal[0, 5, 2] = fatal[0, 6, 2] = True
    known = rows_of(problem.factors, fatal.shape[1], 1)
    assert known is not None
    bits = [rules_of(*known).bits(fatal[0, :, a])[0] for a in range(problem.n_actions)]
    cls = discover("primal")["rule-elimination"]
    yield cls(moves="pairs").rule_bound(problem, fatal, 64), bits[0] + bits[2] + 6 + 1
    yield cls(moves="relative").rule_bound(problem, fatal, 64), sum(bits) + 1 + problem.n_actions + 2 + 6 + 1


@of(
    proved_widths.radius_at,
    method("primal", "algorithm1-safe", "primal_regret_bound"),
    method("primal", "algorithm1-safe", "temperature"),
    method("primal", "algorithm1-safe", "_softmax"),
)
def safe() -> Pairs:
    """2 H (1 + H) for the softmax, once or by 1 + 1/2 + ... + 1/K, and the overestimates of rewards."""
    cls, K, p = discover("primal")["algorithm1-safe"], 700, 0.07
    problem = rf.make("ledge-v0", places=2, horizon=2).problem()
    width = proved_widths.interval_width(problem, True, p, 0.0)
    D = proved_widths.overestimates(problem, width, True, p, K, 0).rewards
    for anytime in (False, True):
        player = cls(p=p, anytime=anytime)
        alpha = log(2) * (1 if anytime else K) / (2 + 2 * 2)
        times = sum(1 / k for k in range(1, K + 1)) if anytime else K
        yield player.temperature(problem, K), alpha
        yield player.primal_regret_bound(problem, K, K).regret, times * 2 * log(2) / alpha + D
        yield player.primal_regret_bound(problem, K, K).most, times * 2 * log(2) / alpha + D
    yield cls(p=p, alpha=3.5).temperature(problem, K), 3.5
    yield proved_widths.radius_at(width, 7.5), (width.log_term + log(2 * sqrt(7.5))) / 7.5


@of(method("primal", "support-elimination", "primal_regret_bound"), method("primal", "support-elimination", "_bound"))
def eliminating() -> Pairs:
    """Bonus and distance of each visit, the visits spread evenly over all pairs; noise on both sides."""
    cls, K, p = discover("primal")["support-elimination"], 6000, 0.07  # so many that the bound is not that of any run
    for noise, pooled in ((0.0, True), (0.0, False), (0.01, True)):
        mdp = rf.make("ledge-v0", places=2, horizon=2)
        problem, H, pairs = mdp.problem(), 2, 6
        m, samples = (2 if noise else 1), K * (H if pooled else 1)
        L = log(m * pairs * H * samples / p)
        sets = log((2**2 - 1) * pairs * (1 if pooled else H) / 0.005)
        terms, noisy = [1.0] * (H if pooled else 1), [1.0] * (H if pooled else 1)
        n = 1  # the first visit of a block, all of which count as that one
        for visit in range(1, 2 * K // pairs + 2):
            if visit == max(n + 1, int(n * visit_sums.FINE)):
                n = visit
            x = (sets + log(2 * sqrt(n))) / n
            terms.append(min(1.0, sqrt(L / (2 * n)) + min(1.0, sqrt(x / 2))))
            noisy.append(min(1.0, 2 * noise * sqrt(2 * L / n)))

        def spread(values: list[float], visits: int, pairs: int = pairs) -> float:
            return sum(values[i // pairs] for i in range(visits))

        D = spread(terms, K) + (spread(noisy, 2 * K) if pooled else 2 * spread(noisy, K))
        D = 3 * float(upper(D / 3, 0.005))
        assert D < 3 * K
        D += K * H * 1e-9
        found = cls(width="theory", p=p, noise=noise, pooled=pooled).primal_regret_bound(problem, K, K)
        yield (found.most, found.regret, found.chance), (D, D, 0.01 + (p / 2 if noise else 0.0))
