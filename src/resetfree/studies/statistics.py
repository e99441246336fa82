"""Statistics over seeds: mean, interquartile mean, and 95 % bootstrap intervals of both.

Legend: n seeds, m numbers of each (measures at episodes), R resamples. All numbers of a resample come from the same
seeds, so curves are resampled as wholes; the same number of seeds is always resampled in the same way.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Floats, jit

RESAMPLES = 4000
SEED = 20_240
ENDS = (0.025, 0.975)
AT_ONCE = 250  # resamples whose counts are converted to floats at once
STATISTICS = ("mean", "mean_low", "mean_high", "iqm", "iqm_low", "iqm_high")


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float


def interval(values: ArrayLike) -> Interval:
    """Mean and percentile bootstrap interval of one number per seed.

    >>> interval([2.0, 2.0, 2.0])
    Interval(mean=2.0, low=2.0, high=2.0)
    """
    mean, low, high = mean_intervals(np.asarray(values, dtype=np.float64)[:, None])
    return Interval(float(mean[0]), float(low[0]), float(high[0]))


def mean_intervals(values: Floats) -> tuple[Floats, Floats, Floats]:
    """[m] means and both ends of their intervals; values: [n, m]."""
    n, counts = len(values), _counts(len(values))
    means = np.empty((RESAMPLES, values.shape[1]))
    for at in range(0, RESAMPLES, AT_ONCE):
        means[at : at + AT_ONCE] = counts[at : at + AT_ONCE].astype(np.float64) @ values / n
    low, high = np.quantile(means, ENDS, axis=0)
    return values.mean(axis=0), low, high


def summarise(values: Floats) -> tuple[NDArray[np.int64], dict[str, Floats]]:
    """[m] the number of seeds that have each value, and its statistics, [m] each; values: [n, m], nan for missing.

    >>> n, found = summarise(np.array([[0.0], [1.0], [2.0], [1000.0]]))
    >>> n.tolist(), found["mean"].tolist(), found["iqm"].tolist()
    ([4], [250.75], [1.5])
    """
    there = np.isfinite(values)
    result = {name: np.full(values.shape[1], np.nan) for name in STATISTICS}
    patterns, member = np.unique(there, axis=1, return_inverse=True)  # nearly always one: nothing is missing
    for p in range(patterns.shape[1]):
        seeds, columns = np.flatnonzero(patterns[:, p]), np.flatnonzero(member == p)
        if len(seeds):
            whole = np.ascontiguousarray(values[np.ix_(seeds, columns)])
            found = (*mean_intervals(whole), interquartile_mean(whole), *_trimmed_ends(whole))
            for name, numbers in zip(STATISTICS, found, strict=True):
                result[name][columns] = numbers
    return there.sum(axis=0), result


def interquartile_mean(values: Floats) -> Floats:
    """[m] mean without the least and the largest quarter (rounded down) of [n, m].

    >>> interquartile_mean(np.arange(9.0)[:, None]).tolist()
    [4.0]
    """
    n = len(values)
    return np.asarray(np.sort(values, axis=0)[n // 4 : n - n // 4].mean(axis=0))


def trimmed(values: ArrayLike) -> Interval:
    """Interquartile mean and its interval of one number per seed.

    >>> trimmed([0.0, 1.0, 2.0, 1000.0]).mean
    1.5
    """
    column = np.asarray(values, dtype=np.float64)[:, None]
    low, high = _trimmed_ends(column)[:, 0]
    return Interval(float(interquartile_mean(column)[0]), float(low), float(high))


def chance_of_less(one: ArrayLike, other: ArrayLike) -> Interval:
    """The chance that a run of `one` has the smaller number than a run of `other`, ties counted half; its interval.

    Known as the probability of improvement, or as the statistic of Mann and Whitney over n m.

    >>> chance_of_less([1, 2], [3, 4, 5]).mean, chance_of_less([1.0, 2.0], [1.0, 2.0]).mean
    (1.0, 0.5)
    """
    x, y = (np.asarray(values, dtype=np.float64) for values in (one, other))
    less = (x[:, None] < y) + 0.5 * (x[:, None] == y)
    # In reverse, so that resamples of equally many seeds are not drawn alike on both sides.
    drawn = ((_counts(len(x)) @ less) * _counts(len(y))[::-1]).sum(axis=1) / less.size
    low, high = np.quantile(drawn, ENDS)
    return Interval(float(less.mean()), float(low), float(high))


def _trimmed_ends(values: Floats) -> Floats:
    """[2, m] both ends of the intervals of the interquartile means."""
    n, m = values.shape
    trimmed = np.empty((m, RESAMPLES))
    for j in range(m):
        order = np.argsort(values[:, j], kind="stable")
        _trimmed_means(values[order, j], order, _counts(n), n // 4, trimmed[j])
    return np.asarray(np.quantile(trimmed, ENDS, axis=1))


@lru_cache(maxsize=8)
def _counts(n: int) -> NDArray[np.uint8]:
    """[R, n] how often each resample of n seeds draws each of them (never 256 times)."""
    rng = np.random.default_rng(SEED)
    counts = np.empty((RESAMPLES, n), dtype=np.uint8)
    for row in counts:
        row[:] = np.bincount(rng.integers(n, size=n), minlength=n)
    return counts


@jit
def _trimmed_means(values: Floats, order: NDArray[np.int64], counts: NDArray[np.uint8], cut: int, out: Floats) -> None:
    """out[r]: mean of resample r of n values without its `cut` least and its `cut` largest.

    A resample is given by how often it drew each value, so values are sorted only once.
    values, order: [n] sorted, and the original index of each.  counts: [R, n] by original index; every row sums to n.
    """
    n = len(values)
    for r in range(len(out)):
        drawn = i = 0
        while drawn <= cut:  # n > 2 cut, so it ends
            drawn += counts[r, order[i]]
            i += 1
        total = (min(drawn, n - cut) - cut) * values[i - 1]
        while drawn < n - cut:
            kept = min(counts[r, order[i]], n - cut - drawn)
            total += kept * values[i]
            drawn += counts[r, order[i]]
            i += 1
        out[r] = total / (n - 2 * cut)
