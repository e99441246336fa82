"""Every bound of the theory again, written from its theorem: a second opinion on each constant, over random inputs.

A function here yields pairs (what the package computes, what the theorem says); `@of` names what it is about.
"""

from collections.abc import Callable, Iterator
from math import ceil, e, exp, log, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from tests.mutants.slight import plain

import resetfree as rf
from resetfree.players.tabular import counts
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.theory import delay, proved_widths, reset_limits, theorems, widths
from resetfree.theory.certificates import anytime, claims_rates
from resetfree.theory.regret import exact_rounds

Pairs = Iterator[tuple[Any, Any]]
FORMULAS: dict[Any, list[Callable[[], Pairs]]] = {}  # by function
RNG = np.random.default_rng(20230718)


def of(*functions: Any) -> Callable[[Callable[[], Pairs]], Callable[[], Pairs]]:
    """Add a comparison for these functions."""

    def add(compare: Callable[[], Pairs]) -> Callable[[], Pairs]:
        for function in functions:
            FORMULAS.setdefault(function, []).append(compare)
        return compare

    return add


def runs() -> Iterator[SimpleNamespace]:
    """Constants of a run: dimension, horizon, episodes, actions, B, p, ridge."""
    for d, H, K, A, B, p, reg in (
        (4, 5, 10_000, 3, 5.0, 0.05, 1.0),
        (2, 3, 77, 2, 17.5, 0.3, 0.04),
        (6, 1, 9, 4, 0.5, 1e-4, 3.0),
    ):
        yield SimpleNamespace(d=d, H=H, K=K, A=A, B=B, p=p, reg=reg)


@of(widths.softmax_alpha, widths.paper_beta)
def printed() -> Pairs:
    for r in runs():
        yield widths.softmax_alpha(r.K, r.H, r.A, r.B), log(r.A) * r.K / (2 + 2 * r.B + 2 * r.H)
        inside = log(4 * log(r.A) * r.d * r.K * r.H / r.p)
        yield widths.paper_beta(1.3, r.d, r.H, r.K, r.A, r.p), 1.3 * r.d * r.H * sqrt(inside)


def self_normalised(r: Any, R: float, cover: Callable[[float], float], widest: float | None) -> float:
    """The width that satisfies its own inequality, found by bisection; widest: the b of the cover, if another one."""
    eps = r.d * R / r.K

    def short(beta: float) -> float:
        inside = r.d / 2 * log(1 + r.K) + cover(widest or beta) + log(4 * r.H * r.K / r.p)
        return beta - sqrt(4 * R**2 * inside + 8 * (r.K * eps) ** 2) - sqrt(r.d) * (1 + R)

    return float(brentq(short, 1e-6, 1e9, rtol=1e-12))


def ball(dimension: float, radius: float, apart: float) -> float:
    return dimension * log(1 + 2 * radius / apart)


@of(widths.theory_beta)
def theory() -> Pairs:
    one = SimpleNamespace(d=1, H=1, K=1, A=2, B=0.5, p=0.9)  # so short that every 1 in a logarithm counts
    for r, alpha in ((one, 0.0), *((r, 3.7 * r.K) for r in runs())):
        beta_r = None
        for R in (float(r.H), 1.0):
            size = r.d * R / r.K / (1 + R * alpha * (2 + r.B))

            def cover(b: float, size: float = size, r: Any = r, R: float = R) -> float:
                w = [ball(r.d, 2 * reach * sqrt(r.d * r.K), size / 2) for reach in (float(r.H), R)]
                return sum(w) + ball(r.d**2, sqrt(r.d) * b * b, size**2 / 4) + ball(1, r.B, size)

            beta = self_normalised(r, R, cover, beta_r)
            beta_r = beta_r or beta
            yield widths.theory_beta(r.d, r.H, r.K, r.B, r.p, alpha=alpha, target_range=R), beta


@of(proved_widths.kl_upper, proved_widths.kl_lower)
def ends() -> Pairs:
    def kl(a: float, b: float) -> float:
        return a * log(a / b) + (1 - a) * log((1 - a) / (1 - b))

    up, low = plain(proved_widths.kl_upper), plain(proved_widths.kl_lower)
    for a, x in ((0.3, 0.1), (0.02, 0.5), (0.9, 0.01), (0.5, 2.0), (0.7, 1e-4)):
        yield up(a, x), brentq(lambda q, a=a, x=x: kl(a, q) - x, a, 1 - 1e-15, xtol=1e-14)
        yield low(a, x), brentq(lambda q, a=a, x=x: kl(a, q) - x, 1e-300, a, xtol=1e-14)
    yield [up(0.0, 0.1), up(1.0, 0.1), low(1.0, 0.2), low(0.0, 0.2)], [1 - exp(-0.1), 1.0, exp(-0.2), 0.0]


@of(proved_widths.radius, proved_widths.noise_radius)
def radii() -> Pairs:
    width = proved_widths.IntervalWidth(7.5, 0.4, 3.1)
    for n in (1, 2, 17, 9000):
        yield plain(proved_widths.radius)(width, n), (7.5 + log(2 * sqrt(n))) / n
        rho = 0.4**2  # the mixture's boundary on the sum of n, divided by n
        yield plain(proved_widths.noise_radius)(width, n), sqrt((n + 1) * rho * (log(n + 1) + 2 * 3.1)) / n


@of(
    proved_widths.log_corners,
    proved_widths.interval_width,
    proved_widths.determinant_width,
    proved_widths.determinant_betas,
    counts.union_bound,
)
def unions() -> Pairs:
    for m in (2, 3, 9):
        yield proved_widths.log_corners(m), log(2 ** (m - 1) - 1)
    for name, pooled in (
        ("ledge-v0", True),
        ("ledge-v0", False),
        ("random-linear-v0", False),
        ("random-linear-v0", True),
    ):
        problem, p, reg = rf.make(name).problem(), 0.07, 0.3
        S, A, H = problem.n_states or 0, problem.n_actions, problem.horizon
        cells = S * A * (1 if pooled else H)
        for noise, part in ((0.0, 0.75), (0.4, 0.375)):
            found = proved_widths.interval_width(problem, pooled, p, noise)
            yield found[:3], (log((2 ** (S - 1) - 1) * cells / (part * p)), noise, log(cells / (part * p)))
            width = proved_widths.determinant_width(problem, 4, pooled, p, noise, reg=reg, misfit=(0.2, 0.03))
            growth, n, betas = np.linspace(3.0, 9.0, H), 50, np.zeros((2, H))
            for h in range(1, H + 1):
                last = h == H and not pooled
                regressions = 1 if pooled else H
                corners = 0.0 if last else log(2 ** (S - 1) - 1)
                log_c = corners + log(regressions / (part * p))
                log_r = log_c if noise == 0 else (0.0 if last else S * log(2)) + log(H / (part * p))
                z_r, ridge = 0.03 + (H - h) * 0.2, sqrt(reg * 4)
                betas[0, h - 1] = (
                    ((H - h) / 2 + noise) * sqrt(growth[h - 1] + 2 * log_r) + ridge * (H - h + 1) + z_r * sqrt(n)
                )
                betas[1, h - 1] = sqrt(growth[h - 1] + 2 * log_c) / 2 + ridge + 0.2 * sqrt(n)
            yield proved_widths.determinant_betas(width, growth, n), betas
        samples = 90 * (H if pooled else 1)
        yield counts.union_bound(problem, 90, pooled, 3, p), log(3 * S * A * H * samples / p)


@of(proved_widths.overestimates)
def sums() -> Pairs:
    """Visit by visit: spread evenly, with the noise of rewards, old plans and pooled data."""
    for name, pooled, late, noise, K in (
        ("ledge-v0", False, 2, 0.3, 900),
        ("ledge-v0", True, 1, 0.3, 900),
        ("grid-v0", False, 0, 0.0, 4000),
    ):
        problem, p = rf.make(name).problem(), 0.4
        width = proved_widths.IntervalWidth(1.5, noise, 0.7)
        S, A, H = problem.n_states or 0, problem.n_actions, problem.horizon
        lag = H * (late + 1) - 1 if pooled else late

        def x(n: int) -> float:
            return (1.5 + log(2 * sqrt(n))) / n

        def d(n: int) -> float:
            return min(1.0, sqrt(2 * x(n)))

        def y(n: int) -> float:
            return min(1.0, 8 * x(n))

        def w(n: int, noise: float = noise) -> float:
            return min(1.0, 2 * noise * sqrt((n + 1) * (log(n + 1) + 2 * 0.7)) / n)

        def most(cells: int, visits: int, term: Callable[[int], float], lag: int = lag) -> float:
            return sum(term(i // cells - lag) if i // cells > lag else 1.0 for i in range(visits))

        cells, steps, visits = S * A, 1 if pooled else H, H * K if pooled else K
        D = sum(most(cells, j * K, d) for j in range(1, H)) if pooled else H * (H - 1) / 2 * most(cells, K, d)
        D += steps * most(cells, visits, w if noise else lambda n: 0.0)
        Y, top = steps * most(cells - A, visits, y), H * (H + 1) / 2
        expected_D = min(top * upper(D / top, p / 8), top * K)
        yield proved_widths.overestimates(problem, width, pooled, p, K, late), (
            expected_D, sqrt(H * min(H * upper(Y / H, p / 8), H * K)),
        )  # fmt: skip


def upper(n: float, delta: float) -> float:
    """`anytime.resets_upper`, one exponent at a time."""
    t = [2.0 ** (1 - j) for j in range(32)]
    return min((t[j] * n + log((j + 1) * (j + 2) / delta)) / (1 - exp(-t[j])) for j in range(32))


@of(anytime.resets_upper, anytime.resets_lower, anytime.resets_interval, anytime._exponents, anytime.regret_lower)
def exponents() -> Pairs:
    for n in (0, 1, 7, 400):
        t = [2.0 ** (1 - j) for j in range(32)]
        lower = max(0.0, *((t[j] * n - log((j + 1) * (j + 2) / 0.07)) / (exp(t[j]) - 1) for j in range(32)))
        yield anytime.resets_upper(n, 0.07), upper(n, 0.07)
        yield anytime.resets_lower(n, 0.07), lower
        yield anytime.resets_interval(n, 30, 0.14), (lower, min(30, upper(n, 0.07)))
        yield anytime.regret_lower(n, 2.5, 0.07), -2.5 * upper(n, 0.07)


@of(anytime.mixture_boundary, anytime.return_variance, anytime.regret_upper)
def boundaries() -> Pairs:
    for v, rho, delta in ((30.0, 4.0, 0.05), (0.3, 1.0, 0.3)):
        s = float(anytime.mixture_boundary(v, delta, rho))
        yield sqrt(rho / (v + rho)) * exp(s * s / (2 * (v + rho))), 1 / delta  # the mixture on its boundary
    noises: tuple[tuple[int, Any], ...] = ((5, 0.0), (3, 0.4), (2, "bernoulli"))
    for H, noise in noises:
        variance = H * H / 4 + (H * 0.16 if noise == 0.4 else 0.0)
        yield anytime.return_variance(H, noise), variance
        for given in (None, 7.0):
            r, v = given or H * H, 60 * variance
            by_hand = 200.0 - 150.0 + sqrt((v + r) * log((v + r) / (r * 0.07**2)))
            yield anytime.regret_upper(60, 200.0, 150.0, H, 0.07, noise, given), by_hand


@of(anytime.upper_sum)
def upper_sums() -> Pairs:
    starts, upper = RNG.integers(3, size=40), 6 * RNG.random(40)
    least = [
        sum(min(5.0, *(upper[j] for j in range(k + 1) if starts[j] == s)) for s in starts[: k + 1]) for k in range(40)
    ]
    yield anytime.upper_sum(starts, upper, 5), least
    yield anytime.upper_sum(starts[:, None] * 1.0, upper, 5), np.cumsum(np.minimum(upper, 5))


@of(
    proved_widths.cover_width,
    proved_widths.most_growth,
    proved_widths.cover_betas,
    proved_widths._step,
    proved_widths.epoch,
    proved_widths.log_cover,
)
def covers() -> Pairs:
    problem = rf.make("continuous-linear-v0", dimension=2).problem()
    yield proved_widths.cover_width(problem, 4, 0.4, 16.0, 9.0, reg=0.3)[:6], (4, problem.horizon, 0.3, 9.0, 16.0, 0.3)
    for alpha in (40.0, float("inf")):
        c = proved_widths.CoverWidth(4, 4, 0.03, alpha, 16.0, reg=0.3, noise=0.2)
        greedy = alpha == float("inf")

        def growth(n: float, c: Any = c) -> int:
            d, reg = float(c.d), float(c.reg)
            return ceil(d * log(1 + n / (d * reg)))

        def betas(h: int, g: float, n: float, c: Any = c, greedy: bool = greedy) -> tuple[float, float]:
            """Of step h = 1 .. H, as the text of the module has it."""
            ridge, ahead = sqrt(c.reg * c.d), c.horizon - h
            if h == c.horizon:
                root = sqrt(g + 2 * log(2 * c.horizon / c.p))
                return c.noise * root + ridge, root / 2 + ridge
            m = int(np.log2(n)) if n >= 1 else 0
            N = 2 ** (m + 1)
            b_r, b_c = betas(h + 1, growth(N), N)
            b, found = (b_r + c.bound * b_c if greedy else max(b_r, b_c)), []
            for R in (float(ahead), 1.0):
                near = 1 / (2 * sqrt(N)) if greedy else R / (2 * sqrt(N)) / (1 + R * c.alpha * (2 + c.bound) / 2)
                weights = [(ahead + c.bound)] if greedy else [ahead, 1.0]
                size = sum(ball(c.d, w * sqrt(N) / (2 * sqrt(c.reg)), near / 2) for w in weights)
                size += ball(c.d * (c.d + 1) / 2, sqrt(c.d) * b * b / c.reg, near**2 / 4)
                size += log(1 + c.bound / (2 * near)) + log(1 + growth(N)) + log(m + 1)
                found.append(sqrt(g + 2 * (size + log(2 * c.horizon * (m + 1) * (m + 2) / c.p))))
            near_r, near_c = (1.0, 0.0) if greedy else (float(ahead), 1.0)
            return (ahead / 2 + c.noise) * found[0] + near_r + ridge * (ahead + 1), found[1] / 2 + near_c + ridge

        yield proved_widths.most_growth(c._replace(d=40), 0.0), 0.0
        for n, g in ((0.0, 0.0), (1.0, 2.2), (700.0, 12.0)):
            yield proved_widths.most_growth(c, n), growth(n)
            expected = np.array([betas(h, ceil(g), n) for h in range(1, 5)]).T
            yield proved_widths.cover_betas(c, np.full(4, g), np.full(4, n)), expected


@of(delay.falls_of_fleet)
def falls_of_a_fleet() -> Pairs:
    """News are falls whose plan knew all news before them; late is whoever did not know the newest of these."""
    for _ in range(40):
        fell = RNG.random(30) < 0.4
        on = [int(RNG.integers(max(0, k - 6), k + 1)) for k in range(30)]
        known: list[set[int]] = [set() for _ in range(31)]  # news among the first k rounds
        news, late = [], []
        for k in range(30):
            late.append(bool(known[k] - known[on[k]]))
            news.append(bool(fell[k]) and not late[k])
            known[k + 1] = known[k] | ({k} if news[k] else set())
        yield delay.falls_of_fleet(on, fell), (news, late)


@of(delay.delays, delay.lateness_cost, delay.missed_steps, delay.fixed_step, delay.doubled_rounds)
def lateness() -> Pairs:
    on, n = np.array([0, 0, 1, 1, 1, 4, 6, 5]), 8
    late = [i - on[i] for i in range(n)]
    yield delay.delays(on), late
    new, old, g, b = RNG.random((4, n))
    yield delay.lateness_cost(new, old, g), [sum((new[i] - old[i]) * g[i] for i in range(k + 1)) for k in range(n)]
    missed = [g[i] * sum(b[j - 1] for j in range(on[i] + 1, i + 1)) for i in range(n)]
    yield delay.missed_steps(g, b, on), np.cumsum(missed)
    yield (
        delay.fixed_step(1.7, 0.3, 0.8, on),
        [1.7**2 / 0.6 + 0.3 * 0.64 * ((k + 1) / 2 + sum(late[: k + 1])) for k in range(n)],
    )
    yield delay.doubled_rounds(3, 2.2), 3 * 2.2 / log(2)


@of(
    reset_limits.limit,
    reset_limits.size_limit,
    reset_limits.needed,
    reset_limits.Limit.after,
    reset_limits.Limit.expected_after,
    vars(reset_limits.Limit)["promised"],
    vars(reset_limits.Limit)["nodes"],
)
def limits() -> Pairs:
    small = rf.make("random-linear-v0", n_states=4, n_actions=3, d=3, horizon=3)
    for mdp in (rf.make("ledge-v0", places=2), small, small.replace(boundary="literal")):
        found, n, A = reset_limits.limit(mdp), int((~mdp.reset).sum()), mdp.n_actions
        T = mdp.n_transitions
        N = n * (T if found.per_step else 1)
        yield (found.resets, found.expected, found.nodes, found.promised), (
            N * (A - 1), N * (A - 1) / 2, N, min(N * (A - 1), found.unsafe),
        )  # fmt: skip
        yield found.episodes, N * (A - 1) * (1 + (N - 1) // T)
        for K in (1, 10, 57, 10**5):
            fits = [M for M in range(N + 1) if M * (A - 1) * (1 + (M - 1) // T) <= K]
            yield (found.after(K), found.expected_after(K)), (min(K, N * (A - 1)), max(fits) * (A - 1) / 2)


@of(claims_rates.solved_for_resets)
def solved() -> Pairs:
    for rest, root, k in ((6.0, 1.0, 100), (7.3, 0.0, 100), (6.0, 1.0, 1), (300.0, 7.7, 10**6)):
        largest = brentq(lambda x, rest=rest, root=root: x - rest - root * sqrt(x), 1e-9, 1e9) if root else rest
        yield claims_rates.solved_for_resets(rest, root, k), min(largest, rest + root * sqrt(k))


@of(claims_rates._with_chance, claims_rates.Parts.solved)
def chance_of_realised_costs() -> Pairs:
    """Azuma for the rounds that were planned, Freedman for any; half of 1 % each."""

    class Planned(SimpleNamespace):
        def __len__(self) -> int:
            return int(self.n)

    for most, online, root, cap, star, K, n in (
        (50.0, 7.0, 0.0, 3.0, 2.0, 400, 400),
        (900.0, 7.0, 2.5, 0.2, 0.5, 10**6, 900),
        (50.0, 7.0, 1.5, 3.0, 4.0, 90, 300),
    ):
        run: Any = Planned(n=n, spec={"episodes": K}, problem_again=lambda: None)
        side: Any = SimpleNamespace(player=SimpleNamespace(largest_multiplier=lambda problem, K, cap=cap: cap))
        for m in (1.0, star):  # how far the comparator is above lambda_hat
            rounds: Any = SimpleNamespace(lam=np.zeros(n))
            against: Any = SimpleNamespace(largest=star, at_starts=np.full(n, star))
            parts = claims_rates.Parts(m, online, most, root)
            found = claims_rates._with_chance(run, rounds, parts, against, side)
            b, level = max(cap, star), log(2 / 0.01)
            freedman = 2 * (most + online) / m + 4 * (e - 2) * (b / m) ** 2 * level
            ways = [claims_rates.solved_for_resets(freedman, 2 * root / m, n)]
            if n <= K:
                azuma = (most + online + b * sqrt(K * level / 2)) / m
                ways.append(claims_rates.solved_for_resets(azuma, root / m, n))
            yield found, (min(ways), 0.01)
            rounds.lam = against.at_starts
            fixed = claims_rates.solved_for_resets((most + online) / m, root / m, n)
            yield claims_rates._with_chance(run, rounds, parts, against, side), (fixed, 0.0)


@of(theorems.reduction, theorems.saddle_gap)
def reductions() -> Pairs:
    """Sums over rounds, of random policies and multipliers and of a constant one."""
    mdp = rf.make("random-linear-v0", n_states=5, n_actions=3, d=3, horizon=3)
    known, rng, K = rf.solve(mdp), np.random.default_rng(5), 12
    starts = rng.choice(known.starts, K)
    for lam in (9 * rng.random(K), np.full(K, 1e3)):
        rounds = exact_rounds(mdp, [random_policy(mdp, rng) for _ in range(K)], lam, starts)
        best, hat = known.value[starts], known.lambda_hat[starts]
        r_p = sum(best - rounds.v_r + lam * rounds.v_c)
        r_star, r_zero = sum((hat + 1 - lam) * rounds.v_c), sum(-lam * rounds.v_c)
        regret, resets, gap = sum(best - rounds.v_r), sum(rounds.v_c), sum(best - (rounds.v_r - lam * rounds.v_c))
        expected = [(regret, r_p + r_zero), (resets, r_p + r_star), (regret, r_p + r_zero)]
        expected += [
            (r_p + r_star, regret + sum((hat + 1) * rounds.v_c)),
            (-sum(hat * rounds.v_c), regret),
            (r_zero, 0.0),
        ]
        if (lam == lam[0]).all():
            expected.append((resets, r_p / (lam[0] - hat.max())))
        yield [(c.lhs, c.rhs) for c in theorems.reduction(rounds, known)], expected
        yield [(c.lhs, c.rhs) for c in theorems.saddle_gap(rounds, known)], [(gap, r_p)] * 2
