"""Intervals: exact ones against SciPy, the others against plain loops and their promise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import resetfree as rf
from resetfree.use.evaluating import CELLS, bounded_mean, clopper_pearson, evaluate, running_mean, student

REPEATS = 300
MOST_MISSES = 33  # P(Binomial(300, 0.05) > 33) < 1e-5


def test_the_bound_on_misses_is_what_it_says() -> None:
    assert stats.binom.sf(MOST_MISSES, REPEATS, 0.05) < 1e-5


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_clopper_pearson_is_scipys_exact_interval(count: tuple[int, int], confidence: float) -> None:
    k, n = count
    theirs = stats.binomtest(k, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30), st.floats(0.5, 0.999))
def test_student_is_scipys_interval(x: list[float], confidence: float) -> None:
    array = np.array(x)
    scale = array.std(ddof=1) / math.sqrt(len(x))
    if scale < 1e-9:
        return
    theirs = stats.t.interval(confidence, len(x) - 1, array.mean(), scale)
    assert student(array, confidence) == pytest.approx(theirs)


def test_one_number_says_nothing_about_its_spread() -> None:
    assert student(np.array([3.0]), 0.95) == (-math.inf, math.inf)


def wins(x: Any, m: float, alpha: float) -> bool:
    """Whether the gambler against the mean m ever holds 1/alpha: one multiplication after the other."""
    up = down = 0.5
    total, squares, variance = 0.5, 0.25, 0.25
    for i, value in enumerate(x):
        stake = math.sqrt(2 * math.log(2 / alpha) / (len(x) * variance))
        up *= 1 + min(stake, 0.5 / m) * (value - m)
        down *= 1 - min(stake, 0.5 / (1 - m)) * (value - m)
        if max(up, down) >= 1 / alpha:
            return True
        total += value
        squares += (value - total / (i + 2)) ** 2
        variance = squares / (i + 2)
    return False


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.95), st.integers(5, 80))
def test_the_interval_of_bets_is_where_no_gambler_wins(seed: int, mean: float, n: int) -> None:
    x = np.random.default_rng(seed).beta(4 * mean, 4 * (1 - mean), size=n)
    low, high = bounded_mean(x, 0.9)
    for m in np.linspace(0.01, 0.99, 23):
        if m < low - 1e-12 or m > high + 1e-12:
            assert wins(x, float(m), 0.1)
        elif low + 1 / CELLS < m < high - 1 / CELLS:
            assert not wins(x, float(m), 0.1)


@pytest.mark.parametrize("law", ["bernoulli", "beta", "rare"])
def test_the_interval_of_bets_keeps_its_promise(law: str) -> None:
    """It may fail with probability 1e-5 (see above), for seeds that are fixed."""
    rng = np.random.default_rng(7)
    mean = {"bernoulli": 0.3, "beta": 0.5, "rare": 0.02}[law]
    x = rng.beta(0.5, 0.5, (REPEATS, 60)) if law == "beta" else (rng.random((REPEATS, 60)) < mean).astype(np.float64)
    ends = [bounded_mean(row, 0.95) for row in x]
    assert sum(not low <= mean <= high for low, high in ends) <= MOST_MISSES
    assert np.mean([high - low for low, high in ends]) < 0.45  # and it is not the whole of [0, 1]


def test_the_interval_for_a_life_keeps_its_promise_where_every_step_depends_on_the_last() -> None:
    """Means that jump with what came before; fails with probability below 1e-5, for seeds that are fixed."""
    rng = np.random.default_rng(8)
    misses = 0
    for _ in range(REPEATS):
        x, means = [0.5], []
        for _ in range(120):
            means.append(0.8 if x[-1] > 0.5 else 0.1)
            x.append(float(rng.random() < means[-1]))
        low, high = running_mean(np.array(x[1:]), 0.95)
        misses += not low <= np.mean(means) <= high
        assert high - low < 0.75
    assert misses <= MOST_MISSES


def test_the_interval_for_a_life_becomes_narrow() -> None:
    wide, narrow = (running_mean(np.full(n, 0.3), 0.95) for n in (50, 5000))
    assert narrow[1] - narrow[0] < (wide[1] - wide[0]) / 20
    assert narrow[0] <= 0.3 <= narrow[1]


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, math.nan, True, "0.95"])
def test_a_confidence_is_a_probability(confidence: Any) -> None:
    grid = rf.make("grid-v0")
    policy: Any = None  # it is refused before the policy is used
    with pytest.raises(rf.InvalidInput, match="'confidence' of an evaluation must be a number between 0 and 1"):
        evaluate(policy, grid, confidence=confidence)
