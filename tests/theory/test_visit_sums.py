"""What proved widths cost over a run, by enumeration."""

from itertools import product
from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.problems.finite.safety import safe_sets
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.proved_widths import EACH_SUM, IntervalWidth, interval_width, kl_lower, kl_upper, overestimates
from resetfree.theory.visit_sums import (
    CellKinds,
    UnsafeEdges,
    blocks,
    bonus_distance,
    cells_of,
    falls_while_light,
    interval_distance,
    largest_sums,
    least_share,
    most_falls,
    most_overestimated,
    penalised,
    sum_over_steps,
    unsafe_edges,
)


def highest_share(g: float, x: float) -> float:
    """The largest a with kl(a, g) <= x, by halving."""
    if g >= 1.0:
        return 1.0
    low, high = g, 1.0
    if kl(1.0, g) <= x:
        return 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(middle, g) <= x else (low, middle)
    return low


@pytest.mark.parametrize("row", [(1.0,), (0.8, 0.1, 0.1), (0.5, 0.5), (0.05, 0.2, 0.75)])
def test_distances_are_the_farthest_that_any_set_has(row: tuple[float, ...]) -> None:
    """By going through all sets, among them that of what cannot happen; equal, so that nine tenths do not do."""
    sets = {
        sum(g for g, inside in zip(row, chosen, strict=True) if inside) for chosen in product((0, 1), repeat=len(row))
    }
    sums = next(s for s in cells_of(model(row), 1).sums)
    assert {round(g, 12) for g in sums} == {round(g, 12) for g in sets}
    width = interval_width(rf.make("ledge-v0").problem(), True, 0.05, 0.0)
    for n in (1, 7, 60, 4000):
        x = (width.log_term + log(2 * sqrt(n))) / n
        by_sets = max(kl_upper(highest_share(g, x), x) - g for g in sets)
        assert interval_distance(width)(sums, n) == pytest.approx(min(by_sets, sqrt(2 * x), 1.0), abs=1e-9)
        seen = max(highest_share(g, x) - g for g in sets)
        bonus = sqrt(3.0 / (2 * n))
        assert bonus_distance(width.log_term, 3.0)(sums, n) == pytest.approx(
            min(bonus + min(seen, sqrt(x / 2)), 1.0), abs=1e-9
        )


def model(row: tuple[float, ...]) -> rf.FiniteMDP:
    """One state with one action whose outcomes have these probabilities; every other state leads back for certain."""
    n = len(row) + 1
    P = np.zeros((n, 1, n))
    P[0, 0, 1:], P[1:, 0, 0] = row, 1.0
    start = np.eye(n)[0]
    return rf.FiniteMDP(P, np.zeros((n, 1)), np.zeros(n, dtype=bool), 2, start=start, restart=start)


def test_sums_are_the_largest_that_any_order_of_visits_has() -> None:
    """Two kinds of cells, every way to spread a few visits over them; equal while blocks are single numbers."""
    cells = CellKinds([np.array([0.3, 0.7]), np.array([0.5])], np.array([2, 1]), 0.0)

    def distance(sums: np.ndarray, n: float) -> float:
        return float(1 / n if len(sums) == 2 else 0.9 / sqrt(n))

    for lag, visits in product((0, 2), (1, 4, 7)):
        terms = [
            np.array([1.0] * (lag + 1) + [distance(sums, n) for n in range(1, visits + 1)])
            for sums in (cells.sums[0], cells.sums[0], cells.sums[1])
        ]
        most = max(
            sum(float(t[:m].sum()) for t, m in zip(terms, spread, strict=True))
            for spread in product(range(visits + 1), repeat=3)
            if sum(spread) == visits
        )
        assert largest_sums(cells, distance, [visits], lag)[0] == pytest.approx(most)


def test_blocks_cover_every_number_once() -> None:
    for most in (1, 99, 100, 101, 5000):
        first, length = blocks(most)
        assert first[0] == 1
        assert length.sum() == most
        assert np.array_equal(first[1:], first[0] + np.cumsum(length)[:-1])
        assert (length <= np.maximum(1, 0.0101 * first)).all()


@pytest.mark.parametrize("pooled", [False, True])
def test_with_one_kind_of_cells_it_is_the_sum_without_a_model(pooled: bool) -> None:
    """Where the distance is the general one and all pairs count, the two sums are of the same terms."""
    mdp = rf.make("ledge-v0", places=2, horizon=2)
    problem, rounds = mdp.problem(), 40
    width = interval_width(problem, pooled, 0.05, 0.0)

    def general(sums: np.ndarray, n: float) -> float:
        return min(sqrt(2 * (width.log_term + log(2 * sqrt(n))) / n), 1.0)

    ours = most_overestimated(mdp, general, pooled=pooled, rounds=rounds, noise=None, delta=EACH_SUM * 0.05)
    theirs = overestimates(problem, width, pooled, 0.05, rounds, 0).rewards
    assert ours <= theirs
    cells = [CellKinds([np.empty(0)], np.array([problem.n_states * problem.n_actions]), 0.0)] * 2
    alike = sum_over_steps(cells, general, pooled=pooled, rounds=rounds, noise=None, delta=EACH_SUM * 0.05)
    assert alike == pytest.approx(theirs)


def test_expected_sums_are_those_of_anytime() -> None:
    mdp = rf.make("pits-v0")
    found = most_overestimated(mdp, lambda sums, n: 0.0, pooled=True, rounds=10**6, noise=None, delta=0.01)
    H, cells = mdp.horizon, int((~mdp.reset).sum()) * mdp.n_actions
    realised = (H - 1) * cells * H + cells * H  # the first H visits of a cell, of every weight, and untried rewards
    largest = H * (H + 1) / 2
    assert found == pytest.approx(largest * float(resets_upper(realised / largest, 0.01)))


def kl(a: float, b: float) -> float:
    return sum(x * log(x / y) if y > 0 else inf for x, y in ((a, b), (1 - a, 1 - b)) if x > 0)


def lower_end(share: float, x: float) -> float:
    """The smallest q with kl(share, q) <= x, by halving."""
    low, high = 0.0, share
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if kl(share, middle) <= x else (middle, high)
    return high


def falls_by_counting(g: float, theta: float, L: float, most: int) -> int:
    """One more than the largest b with which an edge is light, over all n and b that the intervals allow."""
    worst = 0
    for n in range(1, most):
        x = (L + log(2 * sqrt(n))) / n
        for b in range(worst + 1, n + 1):
            if kl(b / n, g) <= x and lower_end(b / n, x) < theta * g:
                worst = b
    return worst + 1


@pytest.mark.parametrize("g", [1.0, 0.8, 0.3])
@pytest.mark.parametrize(("theta", "L"), [(0.3, 2.0), (0.1, 4.0), (1e-2, 6.0)])
def test_an_edge_is_light_as_often_as_counting_says(g: float, theta: float, L: float) -> None:
    """Within one of it, so that a radius without log(2 sqrt(n)), or a tenth less of it, does not do."""
    found = falls_while_light(g, theta, IntervalWidth(L, 0.0, 0.0))
    counted = falls_by_counting(g, theta, L, 160)
    assert counted <= found <= counted + 1
    without = falls_while_light(g, theta, IntervalWidth(L - 1.5 * log(2), 0.0, 0.0))
    assert without < found or found <= 5


def test_nine_tenths_of_the_falls_are_too_few() -> None:
    """Of 25 falls over a sure edge the last is needed: after 24 it is light, and after 25 it is not."""
    width = IntervalWidth(15.0, 0.0, 0.0)
    n = falls_while_light(1.0, 0.5, width)
    ell = [kl_lower(1.0, (15.0 + log(2 * sqrt(m))) / m) for m in (n - 1, n)]
    assert n == 25
    assert ell[0] < 0.5 <= ell[1]


def test_the_least_share_is_a_solution() -> None:
    rng = np.random.default_rng(0)
    for g, x in zip(rng.random(200), 10 ** rng.uniform(-4, 1, 200), strict=True):
        low, high = least_share(g, x)
        assert 0 <= low <= high <= g
        if low > 1e-12:
            assert kl(high, g) == pytest.approx(x, rel=1e-6)
        else:
            assert kl(1e-13, g) <= x * (1 + 1e-6) or high < 1e-9


def test_lower_ends_are_superadditive() -> None:
    rng = np.random.default_rng(1)
    for a, b, x in zip(rng.random(2000) / 2, rng.random(2000) / 2, 10 ** rng.uniform(-4, 1, 2000), strict=True):
        assert kl_lower(a + b, x) >= kl_lower(a, x) + kl_lower(b, x) - 1e-11


def test_edges_are_those_of_the_support() -> None:
    """A chain to a reset: state 2 is lost, as both its actions can fall; 1 and 0 have a safe action."""
    P = np.zeros((4, 2, 4))
    P[0] = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0]]
    P[1] = [[1.0, 0.0, 0.0, 0.0], [0.75, 0.0, 0.25, 0.0]]
    P[2] = [[0.5, 0.0, 0.0, 0.5], [0.0, 0.0, 0.0, 1.0]]
    reset = np.array([False, False, False, True])
    mdp = rf.FiniteMDP(P, np.zeros((4, 2)), reset, 3, start=np.array([1.0, 0, 0, 0]), restart=np.array([1.0, 0, 0, 0]))
    found = unsafe_edges(mdp, pooled=True)
    assert found is not None
    assert sorted(found.chances) == [0.25, 0.5, 1.0]
    assert found.longest == 2
    apart = unsafe_edges(mdp, pooled=False)
    assert apart is not None
    # At the last step only a reset is lost: (2, 0) and (2, 1) there; before that, (1, 1) as well.
    assert sorted(apart.chances) == sorted([0.5, 1.0, 0.25, 0.5, 1.0, 0.25, 0.5, 1.0])


def test_what_heavy_edges_cost_is_its_formula() -> None:
    edges = UnsafeEdges(np.array([1.0]), 2)
    lam, alpha = np.array([1e4, 0.0, 1e5]), np.array([2.0, 2.0, 4.0])
    each = [(1 + log(3) / 2) * 6 / 0.1**2 / 1e4, 1.0, (1 + log(3) / 4) * 6 / 0.1**2 / 1e5]
    assert penalised(edges, 0.1, lam, alpha, (3, 3, 3)) == pytest.approx(sum(min(one, 1.0) for one in each))
    literal = penalised(edges, 0.1, lam[2:], alpha[2:], (3, 2, 3))
    assert literal == pytest.approx(each[2] * 5 / 6)


def test_the_estimated_cost_of_every_safe_state_is_at_most_what_is_left_over_the_price() -> None:
    """lam V_c^k <= (H - h + 1)(1 + log|A| / alpha) in every safe state of every step, in every round."""
    for seed in range(6):
        mdp = rf.make("generated-v0", draw=(0, 1, 2, 7, 8, 9)[seed])
        problem, C, alpha, A = mdp.problem(), 50.0 * (seed + 1), 3.0, mdp.n_actions
        primal, dual = LinearUCB(B=C, width="proved", pooled=mdp.stationary, alpha=alpha), ConstantPenalty(B=C)
        game, safe = begin(problem, primal, dual, episodes=120, seed=seed), safe_sets(mdp)
        for _ in play(problem, primal, dual, game, episodes=120):
            policy, _, _, _, q_c = primal.backward(game.primal, C)
            v_c = (policy * q_c.reshape(policy.shape)).sum(axis=2)
            for h in range(1, mdp.horizon + 1):
                left = (mdp.horizon + 1 - h) * (1 + log(A) / alpha)
                assert C * v_c[h - 1][safe.states(h)].max(initial=0.0) <= left + 1e-9


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_certified_resets_are_within_ten_times_what_happens(factor: float) -> None:
    """On grid-v0; 2,000 episodes, of which the bound is a few per cent."""
    B = factor * (1 + float(np.nanmax(rf.solve(rf.make("grid-v0")).lambda_hat)))
    settings: dict[str, dict[str, Any]] = {
        "primal": {"B": B, "width": "proved", "pooled": True, "alpha": 1e9},
        "dual": {"B": B},
    }
    run = rf.learn("grid-v0", "linear-ucb", "constant-penalty", episodes=1000, seed=0, settings=settings)
    rate = next(c for c in certify(run) if c.claim == RATES[2])
    assert rate.status == "proved"
    assert rate.lhs <= rate.rhs <= 10 * run.realised_resets[-1]
    assert rate.detail["by"] == "unsafe edges and the price of a reset"


def test_theta_is_chosen_for_the_smallest_bound() -> None:
    edges, width = UnsafeEdges(np.full(18, 0.1), 1), IntervalWidth(15.0, 0.0, 0.0)
    counted = [most_falls(edges, width, scale) for scale in (10.0, 1e-3, 1e-6)]
    assert [c for c, _ in counted] == sorted((c for c, _ in counted), reverse=True)
    assert all(c == 18 * falls_while_light(0.1, theta, width) for c, theta in counted)
