"""Many seeds of one configuration: mean, interquartile mean, and 95 % bootstrap intervals of both.

Legend: n seeds, m numbers of each (measures at episodes), R resamples. All numbers of a resample come from the same
seeds, so curves are resampled as wholes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from resetfree.problems.finite.transitions import Floats
from resetfree.studies.bootstrap import trimmed_means
from resetfree.studies.statistics import SEED

RESAMPLES = 2000
STATISTICS = ("mean", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high")


def summarise(values: Floats) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """How many seeds have each number, [m], and the statistics of each, [m]; values: [n, m], nan where there is none.

    >>> n, found = summarise(np.array([[0.0], [1.0], [2.0], [1000.0]]))
    >>> n.tolist(), found["mean"].tolist(), found["iqm"].tolist()
    ([4], [250.75], [1.5])
    """
    there = np.isfinite(values)
    result = {name: np.full(values.shape[1], np.nan) for name in STATISTICS}
    patterns, member = np.unique(there, axis=1, return_inverse=True)  # nearly always one: everything is there
    for p in range(patterns.shape[1]):
        seeds, columns = np.flatnonzero(patterns[:, p]), np.flatnonzero(member == p)
        if len(seeds):
            for name, found in _whole(np.ascontiguousarray(values[np.ix_(seeds, columns)])).items():
                result[name][columns] = found
    return there.sum(axis=0), result


def interquartile_mean(values: Floats) -> Floats:
    """[m] mean without the least and the largest quarter (rounded down) of [n, m].

    >>> interquartile_mean(np.arange(9.0)[:, None]).tolist()
    [4.0]
    """
    n = len(values)
    return np.asarray(np.sort(values, axis=0)[n // 4 : n - n // 4].mean(axis=0))


def _whole(values: Floats) -> dict[str, Floats]:
    n, m = values.shape
    counts = _counts(n)
    means = np.empty((len(counts), m))
    trimmed = np.empty((m, len(counts)))
    for at in range(0, len(counts), 250):  # the counts as floats, some at a time
        means[at : at + 250] = counts[at : at + 250].astype(np.float64) @ values / n
    for j in range(m):
        order = np.argsort(values[:, j], kind="stable")
        trimmed_means(values[order, j], order, counts, n // 4, trimmed[j])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    iqm_low, iqm_high = np.quantile(trimmed, [0.025, 0.975], axis=1)
    found = (values.mean(axis=0), low, high, interquartile_mean(values), iqm_low, iqm_high)
    return dict(zip(STATISTICS, found, strict=True))


@lru_cache(maxsize=2)
def _counts(n: int) -> NDArray[np.int32]:
    """[R, n] how often each resample of n seeds draws each of them; the same every time."""
    rng = np.random.default_rng(SEED)
    counts = np.empty((RESAMPLES, n), dtype=np.int32)
    for row in counts:
        row[:] = np.bincount(rng.integers(n, size=n), minlength=n)
    return counts
