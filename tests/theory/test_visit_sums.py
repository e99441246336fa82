"""The largest sums over visits where the model is known: each step of the proof, computed on both sides."""

from __future__ import annotations

from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from tests.theory.test_first_falls import kl

import resetfree as rf
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.proved_widths import EACH_SUM, interval_width, kl_upper, overestimates
from resetfree.theory.visit_sums import (
    CellKinds,
    blocks,
    bonus_distance,
    cells_of,
    interval_distance,
    largest_sums,
    most_overestimated,
    sum_over_steps,
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
