"""What proved widths cost over a run (`theory.visit_sums`) and how claims are put together, again (see `formulas`)."""

from itertools import product
from math import ceil, e, inf, log, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq
from tests.mutants.formulas import FORMULAS, Pairs, of, upper
from tests.mutants.formulas_of_players import method
from tests.mutants.slight import plain

import resetfree as rf
from resetfree.players import discover
from resetfree.players.dual.unknown_bound import Doubling
from resetfree.players.linear import intervals
from resetfree.theory import visit_sums
from resetfree.theory.assumptions import unsafe_pairs
from resetfree.theory.certificates import RATES, certify, claims_dual, claims_paths, claims_rates, claims_reduction
from resetfree.theory.proved_widths import IntervalWidth, interval_width, kl_lower
from resetfree.theory.visit_sums import CellKinds, UnsafeEdges

__all__ = ["FORMULAS", "Pairs"]


def kl(a: float, b: float) -> float:
    return sum(x * log(x / y) if y > 0 else inf for x, y in ((a, b), (1 - a, 1 - b)) if x > 0)


def ends_of_share(g: float, x: float) -> tuple[float, float]:
    """The least and the largest a with kl(a, g) <= x."""
    low = 0.0 if kl(0.0, g) <= x else brentq(lambda a: kl(a, g) - x, 0.0, g, xtol=1e-15)
    return low, 1.0 if kl(1.0, g) <= x else brentq(lambda a: kl(a, g) - x, g, 1.0, xtol=1e-15)


def upper_end(share: float, x: float) -> float:
    """The largest q with kl(share, q) <= x."""
    return 1.0 if share >= 1.0 else float(brentq(lambda q: kl(share, q) - x, share, 1.0 - 1e-16, xtol=1e-15))


def spread_model(*rows: tuple[float, ...]) -> rf.FiniteMDP:
    """One state whose actions have these outcomes; every other state leads back for certain, and none is a reset."""
    n = len(rows[0]) + 1
    P = np.zeros((n, len(rows), n))
    P[0, :, 1:], P[1:, :, 0] = rows, 1.0
    return rf.FiniteMDP(P, np.zeros((n, len(rows))), np.zeros(n, dtype=bool), 2, start=0, restart=0)


@of(visit_sums._kl, visit_sums.least_share)
def shares() -> Pairs:
    for a, b in ((0.3, 0.6), (0.0, 0.2), (1.0, 0.2), (0.4, 1.0), (1.0, 1.0)):
        yield plain(visit_sums._kl)(a, b), kl(a, b)
    for g, x in ((0.5, 0.1), (0.9, 0.002), (0.02, 0.003), (0.3, 2.0)):
        yield plain(visit_sums.least_share)(g, x), (ends_of_share(g, x)[0],) * 2


@of(visit_sums.falls_while_light)
def light() -> Pairs:
    """The samples at which the end of the interval of the least share reaches theta g, by root finding."""
    for g, theta, L in ((0.3, 0.3, 2.0), (0.8, 0.1, 9.0), (0.05, 0.5, 15.0), (1.0, 1e-11, 50.0), (1.0, 0.5, 15.0)):

        def share(n: float, g: float = g, L: float = L) -> tuple[float, float]:
            x = (L + log(2 * sqrt(n))) / n
            return (1.0 if g == 1.0 else ends_of_share(g, x)[0]), x

        def below(n: float, g: float = g, theta: float = theta, share: Any = share) -> float:
            return float(kl_lower(*share(n))) - theta * g - visit_sums.ROUNDING

        n = brentq(below, 1.0, 1e5, xtol=1e-12)
        yield visit_sums.falls_while_light(g, theta, IntervalWidth(L, 0.0, 0.0)), ceil(n * share(n)[0])


@of(visit_sums.most_falls, visit_sums.penalised)
def expensive() -> Pairs:
    width = IntervalWidth(15.0, 0.0, 0.0)
    for scale, J in ((10.0, 1), (1e-3, 2), (1e-6, 1)):
        edges, best = UnsafeEdges(np.array([0.1, 0.5, 0.1]), J), (inf, 0.0, 0.0)
        for theta in 10.0 ** -np.arange(0.5, 6.5, 0.25):
            counted = sum(visit_sums.falls_while_light(g, theta, width) for g in (0.1, 0.5, 0.1))
            best = min(best, (upper(counted, 0.01) + scale / theta**J, counted, theta))
        yield visit_sums.most_falls(edges, width, scale), best[1:]
    lam, alpha = np.array([1e4, 0.0, 1e5]), np.array([2.0, 2.0, 4.0])
    for steps, ahead in ((3, 6), (2, 5)):  # H = 3
        each = [min(1.0, (1 + log(3) / a) * ahead / 0.1**2 / y) if y else 1.0 for a, y in zip(alpha, lam, strict=True)]
        yield visit_sums.penalised(UnsafeEdges(np.ones(1), 2), 0.1, lam, alpha, (3, steps, 3)), sum(each)


@of(visit_sums.unsafe_edges, visit_sums._edges)
def edges_of_a_chain() -> Pairs:
    """State 2 is lost, as both its actions can fall; 1 and 0 have a safe action."""
    P = np.zeros((5, 2, 5))
    P[0] = [[1.0, 0.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0, 0.0]]
    P[1] = [[1.0, 0.0, 0.0, 0.0, 0.0], [0.75, 0.0, 0.25, 0.0, 0.0]]
    P[2] = [[0.5, 0.0, 0.0, 0.25, 0.25], [0.0, 0.0, 0.0, 1.0, 0.0]]
    mdp = rf.FiniteMDP(P, np.zeros((5, 2)), [False, False, False, True, True], 3)
    apart = [[0.5, 1.0], [0.25, 0.5, 1.0], [0.25, 0.5, 1.0]]  # at the last step only a reset is lost
    for layered, pooled, expected in (
        (False, True, apart[1]),
        (False, False, [*apart[0], *apart[1], *apart[2]]),
        (True, False, None),
    ):
        # In the layered problem the second step is harmless.
        still = np.broadcast_to(np.eye(5)[0], P.shape)
        model = mdp.replace(transition=np.stack([P, still, P])) if layered else mdp
        found = visit_sums.unsafe_edges(model, pooled)
        assert found is not None
        yield sorted(found.chances), sorted(expected or [0.5, 1.0, 0.5, 1.0])
        yield found.longest, 1 if layered else 2
    ends = mdp.replace(end_reset=[True, False, False, False, False])
    assert visit_sums.unsafe_edges(ends, pooled=True) is None
    yield sorted(visit_sums._edges(mdp, 2, np.array([False, False, True, True, True]), mdp.reset)), [
        (3, 2, 0.25), (4, -1, 0.5), (5, -1, 1.0),
    ]  # fmt: skip


@of(visit_sums._above, visit_sums.interval_distance, visit_sums.bonus_distance, visit_sums.cells_of, visit_sums._sums)
def distances() -> Pairs:
    """By going through all sets of outcomes, among them that of what cannot happen."""
    width, bonus = interval_width(rf.make("ledge-v0").problem(), True, 0.05, 0.0), 3.0
    for row in ((1.0,), (0.8, 0.1, 0.1), (0.5, 0.5), (0.05, 0.2, 0.75)):
        chosen = product((0, 1), repeat=len(row))
        sets = sorted({round(sum(g * one for g, one in zip(row, each, strict=True)), 12) for each in chosen})
        cells = visit_sums.cells_of(spread_model(row), 1)
        yield sorted(set(np.concatenate(cells.sums).round(12))), sorted({0.0, 1.0, *sets})
        yield cells.log_sets, log(max(2 ** (len(row) - 1) - 1, 1))
        yield sorted(cells.times), [len(row) + 1] if len(row) == 1 else [1, len(row)]
        for n in (1, 7, 60, 4000):
            x = (width.log_term + log(2 * sqrt(n))) / n
            top = {g: ends_of_share(g, x)[1] for g in sets}
            both, seen = max(upper_end(top[g], x) - g for g in sets), max(top[g] - g for g in sets)
            sums = np.array(sets)
            yield plain(visit_sums._above)(sums, x, True), min(both, 1.0)
            yield plain(visit_sums._above)(sums, x, False), min(seen, 1.0)
            for known, a, b in ((sums, both, seen), (np.empty(0), inf, inf)):
                yield visit_sums.interval_distance(width)(known, n), min(a, sqrt(2 * x), 1.0)
                expected = min(sqrt(bonus / (2 * n)) + min(b, sqrt(x / 2), 1.0), 1.0)
                yield visit_sums.bonus_distance(width.log_term, bonus)(known, n), expected
    wide = np.full((10, 1, 10), 0.1)  # more outcomes than are gone through; the last state is a reset
    cells = visit_sums.cells_of(rf.FiniteMDP(wide, np.zeros((10, 1)), [False] * 9 + [True], 2), 1)
    yield (len(cells.sums[0]), *cells.times, cells.log_sets), (0, 9, log(9 * (2**9 - 1)))
    last = visit_sums.cells_of(rf.FiniteMDP(wide, np.zeros((10, 1)), [False] * 10, 2, boundary="literal"), 2)
    yield (len(last.sums[0]), *last.times, last.log_sets), (0, 10, 0.0)  # it moves nothing
    two, one = spread_model((0.5, 0.5, 0.0), (0.25, 0.25, 0.5)), spread_model((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    layers = [model.transition.matrix(0) for model in (one, two, one)]
    for h, times, n_sets in ((1, [8], 1), (2, [1, 1, 6], 1 + 3), (3, [8], 1)):
        found = visit_sums.cells_of(two.replace(transition=layers, horizon=3), h)
        yield (*sorted(found.times), found.log_sets), (*times, log(n_sets))


@of(visit_sums.blocks)
def covered() -> Pairs:
    for most in (1, 99, 100, 101, 5000):
        n, first = 1, []
        while n <= most:
            first.append(n)
            n = max(n + 1, int(n * 1.01))
        found = visit_sums.blocks(most)
        yield found[0], first
        yield found[1], [b - a for a, b in zip(first, [*first[1:], max(most, first[-1]) + 1], strict=True)]


def largest(terms: list[float], visits: int) -> float:
    return sum(sorted(terms, reverse=True)[:visits])


def falling(sums: Any, n: float) -> float:
    """A distance that differs between two kinds of cells."""
    return float(1 / n if len(sums) == 2 else 0.9 / sqrt(n))


TWO = CellKinds([np.array([0.3, 0.7]), np.array([0.5])], np.array([2, 1]), 0.0)


def terms_of(visits: int, lag: int, cells: tuple[int, int] = (2, 1)) -> list[float]:
    """1 for visits before the first sample is known, and the distance of each later one, of the cells of `TWO`."""
    one, other = cells
    later = [t for n in range(1, visits + 1) for t in (*[1 / n] * one, *[0.9 / sqrt(n)] * other)]
    return [*[1.0] * (one + other) * (lag + 1), *later]


@of(visit_sums.largest_sums, visit_sums._noise_sum)
def visits_in_any_order() -> Pairs:
    """The largest terms of all; while blocks are single numbers."""
    for lag, visits in product((0, 2), (1, 4, 7, 60)):
        yield visit_sums.largest_sums(TWO, falling, [visits], lag), [largest(terms_of(visits, lag), visits)]
        noisy = [1.0] * 3 * (lag + 1) + [min(2 / n, 1.0) for n in range(1, visits + 1) for _ in range(3)]
        yield visit_sums._noise_sum(TWO, lag, visits, lambda n: 2 / n), largest(noisy, visits)
        yield visit_sums._noise_sum(TWO, lag, visits, None), min(3 * (lag + 1), visits)


@of(visit_sums.sum_over_steps, visit_sums.most_overestimated)
def over_steps() -> Pairs:
    """Weights H - h as sums of ones where data are pooled; then what expected sums may have above realised ones."""
    H, K = 3, 25
    for pooled, noise in product((False, True), (None, lambda n: 2 / n)):
        found = visit_sums.sum_over_steps([TWO] * H, falling, pooled=pooled, rounds=K, noise=noise, delta=0.01)
        if pooled:
            D = sum(largest(terms_of(j * K, H - 1), j * K) for j in (1, 2))
            D += visit_sums._noise_sum(TWO, H - 1, H * K, noise)
        else:
            D = (2 + 1) * largest(terms_of(K, 0), K) + H * visit_sums._noise_sum(TWO, 0, K, noise)
        yield found, min(6 * upper(D / 6, 0.01), 6 * K)
    mdp = spread_model((0.5, 0.5)).replace(horizon=3)
    layers = np.stack([mdp.transition.matrix(0).toarray().reshape(3, 1, 3)] * 3)
    for model, pooled in ((mdp, True), (mdp, False), (mdp.replace(transition=layers), False)):
        visits = [(50, 2), (25, 2)] if pooled else [(25, 0)] * 3  # state 0 has two outcomes, the others one
        D = sum(largest([1.0] * 3 * (lag + 1) + [1 / n for n in range(1, m) for _ in range(3)], m) for m, lag in visits)
        D += 9 if pooled else 3 * 3
        found = visit_sums.most_overestimated(
            model, lambda sums, n: 1 / n, pooled=pooled, rounds=25, noise=None, delta=0.01
        )
        yield found, 6 * upper(D / 6, 0.01)


@of(
    intervals.Intervals.regret_with_model,
    intervals.Intervals.falls,
    intervals._both_sides,
    method("primal", "linear-ucb", "regret_with_model"),
    method("primal", "linear-ucb", "falls"),
    method("primal", "algorithm1-safe", "regret_with_model"),
    method("primal", "support-elimination", "regret_with_model"),
)
def with_a_model() -> Pairs:
    """Each bound by its parts, all of which are compared above."""
    K, p, B = 900, 0.07, 1e5
    for noise in (0.0, 0.1):
        mdp = rf.make("ledge-v0", places=2, horizon=2).replace(noise=noise)
        problem, H, A = mdp.problem(), mdp.horizon, mdp.n_actions
        width = interval_width(problem, True, p, noise)

        def noisy(n: float, width: Any = width) -> float:
            return float(2 * width.noise * sqrt((n + 1) * (log(n + 1) + 2 * width.noise_log)) / n)

        for n in (1, 60):
            yield intervals._both_sides(width, n), noisy(n)
        D = visit_sums.most_overestimated(
            mdp, visit_sums.interval_distance(width), pooled=True, rounds=K, noise=noisy if noise else None, delta=p / 8
        )
        yield intervals.Intervals(problem, True, p, B).regret_with_model(mdp, K), D
        for anytime in (False, True):
            player = discover("primal")["linear-ucb"](B=B, width="proved", pooled=True, p=p, anytime=anytime)
            alpha = (
                log(A) * (1 if anytime else K) / (2 * (1 + B + H)) * (np.arange(1, K + 1) if anytime else np.ones(K))
            )
            yield player.regret_with_model(mdp, problem, K, K), sum(H * log(A) / alpha) + D
            lam, edges = np.linspace(1.0, B, K - 1), visit_sums.unsafe_edges(mdp, pooled=True)
            assert edges is not None
            scale = sum(min(1.0, (1 + log(A) / a) * 3 / B) for a in alpha)
            counted, theta = visit_sums.most_falls(edges, width, scale)
            each = (1 + log(A) / alpha[:-1]) * 3 / theta**edges.longest / lam
            yield player.falls(mdp, problem, K, lam), (counted, sum(np.minimum(each, 1.0)))
            safe = discover("primal")["algorithm1-safe"](p=p, anytime=anytime)
            times = sum(1 / k for k in range(1, K + 1)) if anytime else K
            softmax = times * 2 * (1 + H) * H / (1 if anytime else K)
            yield (
                safe.regret_with_model(mdp, problem, K, K),
                softmax + intervals.Intervals(problem, True, p, 0.0).regret_with_model(mdp, K),
            )
    mdp, K = rf.make("ledge-v0", places=2, horizon=2), 6000
    cells = visit_sums.cells_of(mdp, 1)
    L, sets = log(6 * 2 * K * 2 / p), cells.log_sets + log(2 / 0.01)
    D = visit_sums.sum_over_steps(
        [cells] * 2, visit_sums.bonus_distance(sets, L), pooled=True, rounds=K, noise=None, delta=0.005
    )
    eliminating = discover("primal")["support-elimination"](width="theory", p=p, pooled=True)
    yield eliminating.regret_with_model(mdp, mdp.problem(), K, K), D + K * 2 * 1e-9


@of(claims_rates.unknown_bound)
def without_a_bound() -> Pairs:
    """(e - 1) P + ln(1/delta) resets in the phase that reaches lambda*, and the patience of those before it."""
    K, mdp = 150, rf.make("ledge-v0", fall=0.8)
    settings: dict[str, Any] = {"primal": {"B": 9.0, "width": "proved"}}
    for patience in (3000.5, 3.5):
        run = rf.learn(
            mdp, "linear-ucb", Doubling(patience=patience), episodes=K, seed=1, feedback="realised", settings=settings
        )
        found = {c.claim: c for c in certify(run)}
        P = claims_rates.primal_bound(run, within_bound=False)
        primal = claims_rates.solved_for_resets(P.most, P.per_root_reset, K)
        phases, star = [1.0], float(np.nanmax(rf.solve(mdp).lambda_hat)) + 1
        while phases[-1] < star:
            phases.append(2 * phases[-1])
        first, second = (found[claim] for claim in claims_rates.UNKNOWN_B)
        spent = (e - 1) * primal + log(1 / 0.01)
        yield (first.rhs, second.rhs), (phases[-1], (len(phases) - 1) * ceil(patience) + spent)
        yield first.status == "proved", spent < patience
        yield sum(first.detail.get("may_fail", {"": 0.11}).values()), 0.05 + 0.05 + 0.01


@of(claims_dual.farther)
def farther() -> Pairs:
    """The largest multiple of lambda* in the set, and the least by which it is above lambda_hat at any start."""
    mdp, B = rf.make("thresholds-v0"), 90.0
    for xi in (None, np.eye(mdp.n_states)):
        run = rf.learn(mdp.replace(xi=xi), "uniform", "projected-gradient", episodes=3, settings={"dual": {"B": B}})
        hat = rf.solve(mdp).lambda_hat
        begun, starts = claims_dual.dual_start(run), run.columns["s1"]
        star: Any = claims_dual.comparators(run, begun, hat[starts])["lambda*"]
        found = claims_dual.farther(begun, star, starts[0])
        assert found is not None
        yield round(found.times * np.linalg.norm(star.u) / B, 6), 1.0
        yield found.against.at_starts, found.times * star.at_starts
        yield found.against.largest, found.times * star.largest
        yield found.against.u, found.times * star.u
        possible = np.flatnonzero(rf.theory.assumptions.reachable_starts(mdp).states)
        at = np.full(mdp.n_states, star.u) if xi is None else star.u
        yield found.margin, min(found.times * at[possible] - hat[possible])


def claimed(run: rf.Run) -> dict[str, rf.Certificate]:
    return {c.claim: c for c in certify(run)}


def risk(claim: rf.Certificate) -> float:
    return float(sum(claim.detail.get("may_fail", {}).values()))


@of(
    claims_rates.rates,
    claims_rates._regret_rate,
    claims_rates._fewest_resets,
    claims_paths.by_falls,
    claims_paths.anytime_regret,
    claims_reduction.likely,
)
def put_together() -> Pairs:
    """R_p, Regret and Resets, with what bounds fail with, by those of the players that are compared above."""
    ledge = rf.make("ledge-v0", places=2, horizon=2)
    own: dict[str, Any] = {"width": "proved", "pooled": True, "p": 0.04}
    games: tuple[tuple[str, str, str, dict[str, Any], int], ...] = (
        ("linear-ucb", "projected-gradient", "optimistic", {"B": 4.0, "width": "theory", "p": 0.04}, 50),
        ("linear-ucb", "projected-gradient", "exact", {"B": 4.0, **own}, 50),
        ("linear-ucb", "projected-gradient", "realised", {"B": 1e7, **own}, 300),
        ("linear-ucb", "constant-penalty", "realised", {"B": 1e7, **own}, 400),
        ("politex", "projected-gradient", "exact", {"B": 4.0, "model": "exact", "copies": True}, 50),
        ("algorithm1-safe", "projected-gradient", "exact", {"p": 0.04}, 400),
        ("support-elimination", "projected-gradient", "exact", {"width": "theory", "p": 0.04, "noise": 0.1}, 400),
    )
    for primal, dual, feedback, settings, K in games:
        both = {"primal": settings, "dual": {"B": settings.get("B", 4.0)}}
        mdp = ledge.replace(noise=settings.get("noise", 0.0))
        run = rf.learn(mdp, primal, dual, episodes=K, seed=3, feedback=feedback, settings=both)
        found, P, player = claimed(run), claims_rates.primal_bound(run), run.player_again("primal")
        r_p, regret, resets = (found[claim] for claim in RATES)
        p, lam = settings.get("p", 0.0), float(run.rounds.lam.max())
        ways = [resets.detail.get("reduction", inf)]
        chance = 0.01 * (feedback == "realised" and dual != "constant-penalty")
        if "on_paths" in resets.detail:
            ways, chance = [upper(min(unsafe_pairs(mdp), 2), 0.01)], 0.01
        elif hasattr(player, "falls") and (fell := player.falls(mdp, mdp.problem(), K, run.rounds.lam)):
            ways, chance = [*ways, upper(fell.counted, 0.01) + fell.penalised], chance + 0.01
        few, of_few = (min(ways), chance) if min(ways) < K else (float(K), 0.0)
        assert resets.status == "proved"
        yield (resets.rhs, risk(resets)), (min(ways), chance + p * ("on_paths" not in resets.detail))
        most = P.most + P.per_root_reset * sqrt(few) + lam * few * P.pays_resets
        yield r_p.rhs, most if P.regret is None else min(most, P.regret + lam * few)
        counts = P.regret is not None or P.per_root_reset > 0
        yield risk(r_p), p + P.chance + of_few * counts
        online = found["the dual player's online regret against 0 is at most its bound"].rhs
        with_model = getattr(player, "regret_with_model", lambda *_: inf)(mdp, mdp.problem(), K, K)
        yield regret.rhs, r_p.rhs + online if P.regret is None else min(P.regret, with_model)
        yield risk(regret), p + P.chance
        stated = [(one, f"at least {1 - risk(one):g};") for one in (r_p, regret, resets) if risk(one)]
        yield [said in one.why for one, said in stated], [True] * len(stated)
        n, B = int(run.realised_resets[-1]), run.spec["B"]
        rewards = found["the rewards collected differ from the sum of V_r by no more than chance allows"]
        variance = K * (1 + 2 * mdp.noise**2)
        yield (rewards.rhs, risk(rewards)), (sqrt((variance + 4) * log((variance + 4) / (4 * 0.01**2))), 0.01)
        least = found["Regret is at least -B times what the resets so far allow"]
        yield (least.lhs, risk(least)), (-B * upper(n, 0.005), 0.01)


@of(
    claims_dual.replay,
    claims_dual.dual_side,
    claims_dual.online_bound,
    claims_dual.dual_claims,
    claims_dual.dual_lemma,
    claims_dual.nearly_in_class,
    claims_dual._nearest,
)
def dual_player_again() -> Pairs:
    """Projected and optimistic gradient step by step, with |xi| = 1/2 and old plans, against lambda* and near it."""
    mdp, K, star = rf.make("ledge-v0", fall=0.8).replace(xi=np.full((2, 1), 0.5)), 30, 1.625
    for name, B, feedback in (
        ("projected-gradient", 4.0, "realised"),
        ("projected-gradient", 4.0, "exact"),
        ("optimistic-gradient", 4.0, "realised"),
        ("projected-gradient", 3.0, "exact"),
    ):
        settings: dict[str, Any] = {"dual": {"B": B}}
        run = rf.learn(mdp, "uniform", name, episodes=K, seed=2, feedback=feedback, delay=3, settings=settings)
        found, c, gradient = claimed(run), run.columns, name == "projected-gradient"
        g, lam, on, eta, theta, hint = c["cost_signal"], c["lam"], c["based_on"], B / sqrt(K), [0.0], [0.0]
        for k in range(K):
            step = B / sqrt(k + 1) if gradient else eta
            theta.append(min(max(theta[-1] + step * 0.5 * g[k], 0.0), B))
            hint.append(0.0 if gradient else float(g[k]))
        fresh = [0.5 * min(t + eta * 0.5 * h, B) for t, h in zip(theta, hint, strict=True)]
        assert any(on < np.arange(K))
        yield lam, [fresh[j] for j in on]
        old, u = sum((fresh[k] - lam[k]) * g[k] for k in range(K)), min(2 * star, B)
        if gradient:
            away = max(abs(t - u) for t in theta[:K])
            bound = (away**2 / (2 * B) + B * 0.25 * max(g) ** 2) * sqrt(K)
            printed = found["the dual player's online regret against 0 is at most 1.5 B sqrt(k) + what old plans cost"]
            if printed.applies:
                yield printed.rhs, 1.5 * B * sqrt(K) + old
        else:
            bound = u**2 / (2 * eta) + eta / 2 * sum(0.25 * (g[k] - hint[k]) ** 2 for k in range(K))
        if 2 * star > B:  # lambda* is not in the class
            reduced, online = (found[claim] for claim in claims_dual.NEARLY)
            best, v_r, v_c = rf.solve(mdp).value[0], c["v_r"], c["v_c"]
            part = 1 - (star - u / 2)
            yield (reduced.lhs, reduced.detail["trivial"]), (part * sum(v_c), part * K)
            yield reduced.rhs, sum(best - v_r + lam * v_c + (u / 2 - lam) * v_c)
            yield (online.lhs, online.rhs), (sum((u / 2 - lam) * g), bound + old)
            continue
        online = found["the dual player's online regret against lambda* is at most its bound + what old plans cost"]
        yield (online.lhs, online.rhs), (sum((star - lam) * g), bound + old)
        noise = sum((lam - star) * (g - c["v_c"]))
        same = found["R_d(lambda*) equals the online regret + sum of (lam - lambda*)(signal - V_c)"]
        yield (same.lhs, same.rhs), (sum((star - lam) * c["v_c"]), sum((star - lam) * g) + noise)
        most = found["R_d(lambda*) is at most the dual player's bound + sum of (lam - lambda*)(signal - V_c)"]
        yield most.rhs, bound + old + noise
