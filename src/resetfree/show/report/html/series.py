"""Curves over the episodes, as they are shown: at which episodes, with which interval over seeds, growing how fast.

Legend: K rounds; a curve is [n, P], the exact values of n runs after the P episodes that are shown: nothing in between
is averaged or smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.studies.statistics import Interval, interval, mean_intervals

POINTS = 160  # of a curve: more cannot be seen, and would only make the file large
FIRST = 4  # exponents are fitted on the last three quarters, K/4 .. K
EARLIEST = 100  # rounds below which an axis is always linear
FEWEST = 16  # rounds below which nothing is fitted


def shown(n_rounds: int, log: bool) -> NDArray[np.int64]:
    """Episodes that are shown: all of a short run, else evenly spread on a linear or logarithmic axis, ends included.

    >>> shown(5, log=True).tolist(), len(shown(100_000, log=False))
    ([1, 2, 3, 4, 5], 160)
    """
    if n_rounds <= POINTS:
        return np.arange(1, n_rounds + 1)
    spread = np.geomspace if log else np.linspace
    return np.unique(np.rint(spread(1, n_rounds, POINTS)).astype(np.int64))


def early(values: Sequence[Floats], n_rounds: int) -> bool:
    """Whether nearly all change lies in the first tenth of the episodes: a linear axis would show a cliff and a line.

    >>> early([np.minimum(np.arange(1000.0), 20.0)], 1000), early([np.arange(1000.0)], 1000)
    (True, False)
    """
    if n_rounds < EARLIEST:
        return False
    mean = np.mean([v[:n_rounds] for v in values], axis=0)
    change = float(np.ptp(mean))
    return change > 0 and float(np.abs(mean[n_rounds // 10 :] - mean[-1]).max()) <= 0.1 * change


@dataclass(frozen=True, eq=False)
class Curve:
    """A measure over seeds at some episodes."""

    k: NDArray[np.int64]  # [P]
    mean: Floats  # [P]
    low: Floats  # [P] 95 % bootstrap interval of the mean; the mean itself where there is one run only
    high: Floats  # [P]


def curve(values: Sequence[Floats], k: NDArray[np.int64]) -> Curve:
    """Mean and interval after the episodes k, of one array [K] per run; the same numbers as `statistics.interval`."""
    at = np.stack([np.asarray(v, dtype=np.float64)[k - 1] for v in values])
    if len(at) == 1:
        return Curve(k, at[0], at[0], at[0])
    mean, low, high = mean_intervals(at)
    return Curve(k, mean, np.minimum(low, mean), np.maximum(high, mean))


@dataclass(frozen=True)
class Growth:
    """How fast a measure grows late in the runs: f(k) ~ k^exponent, by least squares of log f on log k."""

    exponent: Interval  # mean over the runs that have one, with its 95 % bootstrap interval
    first: int
    last: int  # range of k that was used
    n: int  # runs that have one
    without: int  # runs that have none: the measure is not positive there


def growth(values: Sequence[Floats], n_rounds: int) -> Growth | None:
    """The late growth exponent over K/4 .. K (1 linear, 1/2 as sqrt(K), 0 flat); None where no run has one.

    >>> k = np.arange(1.0, 1001)
    >>> growth([3 * np.sqrt(k), 5 * np.sqrt(k)], 1000).exponent.mean.__round__(6)
    0.5
    """
    if n_rounds < FEWEST:
        return None
    first = n_rounds // FIRST
    k = np.unique(np.rint(np.geomspace(first, n_rounds, POINTS)).astype(np.int64))
    late = [v[k - 1] for v in values]
    slopes = [float(np.polyfit(np.log(k), np.log(f), 1)[0]) for f in late if (f > 0).all()]
    if not slopes:
        return None
    return Growth(interval(slopes), int(first), int(n_rounds), len(slopes), len(late) - len(slopes))
