"""Means and interquartile means with bootstrap intervals, against the naive way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import trim_mean

from resetfree.studies.statistics import RESAMPLES, SEED, interquartile_mean, interval, summarise


@given(arrays(np.float64, st.tuples(st.integers(1, 13), st.integers(1, 3)), elements=st.floats(-1e6, 1e6)))
def test_the_interquartile_mean_is_that_of_scipy(values: Any) -> None:
    assert interquartile_mean(values) == pytest.approx(trim_mean(values, 0.25), abs=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 23])
def test_intervals_are_those_of_resampled_seeds(n: int) -> None:
    values = np.random.default_rng(n).normal(size=(n, 3)) ** 3
    values[0, 0] = values[-1, 0]  # a tie
    rng = np.random.default_rng(SEED)
    resamples = [values[rng.integers(n, size=n)] for _ in range(RESAMPLES)]
    count, found = summarise(values)
    assert count.tolist() == [n] * 3
    ways: dict[str, Callable[[Any], Any]] = {"mean": lambda x: x.mean(axis=0), "iqm": lambda x: trim_mean(x, 0.25)}
    for name, statistic in ways.items():
        low, high = np.quantile([statistic(x) for x in resamples], [0.025, 0.975], axis=0)
        assert found[name] == pytest.approx(statistic(values))
        assert found[f"{name}_low"] == pytest.approx(low)
        assert found[f"{name}_high"] == pytest.approx(high)
    for j in range(3):  # one number per seed is resampled in the same way
        one, names = interval(values[:, j]), ("mean", "mean_low", "mean_high")
        assert [one.mean, one.low, one.high] == pytest.approx([found[name][j] for name in names])


def test_what_does_not_exist_is_left_out() -> None:
    values = np.array([[1.0, np.nan, 5.0], [2.0, np.nan, np.nan], [3.0, np.nan, 7.0]])
    count, found = summarise(values)
    assert count.tolist() == [3, 0, 2]
    assert found["mean"].tolist()[::2] == [2.0, 6.0]
    assert np.isnan(found["iqm"][1])
    assert found["iqm_low"][2] == summarise(values[[0, 2], 2:])[1]["iqm_low"][0]


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Nominally 95 %; with 40 normal seeds about 94 %, so that fewer than 360 of 400 have p < 1e-3."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(40, 400))  # every column is an experiment of its own
    _, found = summarise(values)
    covered = np.mean((found["mean_low"] <= 0) & (found["mean_high"] >= 0))
    assert 0.9 <= covered <= 0.99
