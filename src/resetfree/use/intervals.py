"""Confidence intervals of an evaluation, each with one sentence on when it holds.

Legend: n numbers x_i; alpha = 1 - confidence, the probability with which an interval may miss.
"""

import numpy as np
from scipy.special import betaincinv, stdtrit

from resetfree.core.arrays import Floats

CELLS = 4000  # of the grid of candidate means
EXPONENTS = 20

CLOPPER_PEARSON = "exact for independent episodes (Clopper-Pearson)"
BETTING = "holds for any independent returns in [0, H] (betting against every mean)"
STUDENT = "approximate (Student's t): right for many episodes"
MARTINGALE = "of the policy's value from the starts that occurred; holds for any dependence (martingale)"
COUNTED = "of the resets expected from the starts that occurred; holds for any dependence (martingale)"


def clopper_pearson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a probability: every p under which the count is neither too small nor too large.

    >>> [round(x, 4) for x in clopper_pearson(0, 100, 0.95)], [round(x, 4) for x in clopper_pearson(3, 10, 0.95)]
    ([0.0, 0.0362], [0.0667, 0.6525])
    """
    half = (1.0 - confidence) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, n - successes + 1, half))
    high = 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1.0 - half))
    return low, high


def student(x: Floats, confidence: float) -> tuple[float, float]:
    """Mean -+ t s / sqrt(n); infinite for fewer than two numbers.

    >>> [round(end, 3) for end in student(np.array([1.0, 2.0, 3.0]), 0.95)]
    [-0.484, 4.484]
    """
    n = len(x)
    if n < 2:
        return -np.inf, np.inf
    half = float(stdtrit(n - 1, (1.0 + confidence) / 2.0)) * float(x.std(ddof=1)) / np.sqrt(n)
    return float(x.mean() - half), float(x.mean() + half)


def bounded_mean(x: Floats, confidence: float) -> tuple[float, float]:
    """Every mean m in [0, 1] against which bets on x did not win 1/alpha.

    K_n(m) = max(prod (1 + l_i(m) (x_i - m)), prod (1 - l'_i(m) (x_i - m))) / 2 with stakes that depend on the numbers
    before: if m is the mean, half the sum of the two products is a martingale that starts at 1, and so exceeds
    1/alpha with probability at most alpha.

    x: [n] independent, with one mean, in [0, 1].

    >>> x = np.random.default_rng(0).random(400)
    >>> [round(end, 2) for end in bounded_mean(x, 0.95)]
    [0.5, 0.57]
    """
    n, alpha = len(x), 1.0 - confidence
    grid = np.linspace(0.0, 1.0, CELLS + 1)
    up, down = np.full(len(grid), 0.5), np.full(len(grid), 0.5)
    most_up, most_down = 0.5 / np.maximum(grid, 1e-300), 0.5 / np.maximum(1.0 - grid, 1e-300)
    lost = np.zeros(len(grid), dtype=np.bool_)
    total, squares, variance = 0.5, 0.25, 0.25
    with np.errstate(over="ignore"):
        for i, value in enumerate(x):
            stake = np.sqrt(2.0 * np.log(2.0 / alpha) / (n * variance))
            up *= 1.0 + np.minimum(stake, most_up) * (value - grid)
            down *= 1.0 - np.minimum(stake, most_down) * (value - grid)
            lost |= np.maximum(up, down) >= 1.0 / alpha
            total += value
            squares += (value - total / (i + 2)) ** 2
            variance = squares / (i + 2)
    kept = np.flatnonzero(~lost)
    if not len(kept):  # probability at most alpha if the numbers have one mean
        return float(np.mean(x)), float(np.mean(x))
    return float(grid[max(kept[0] - 1, 0)]), float(grid[min(kept[-1] + 1, CELLS)])  # ends lie between grid points


def running_mean(x: Floats, confidence: float) -> tuple[float, float]:
    """An interval for (1/n) sum E[x_i | x_1 .. x_{i-1}], whatever the dependence.

    |sum x_i - sum E[x_i | ...]| <= min over l of (psi(l) V + ln(2 / alpha_l)) / l, with psi(l) = -ln(1 - l) - l,
    V = sum (x_i - the prediction from those before)^2, l = 1/2, 1/4, .. and alpha_l that add up to alpha.

    x: [n] in [0, 1], in order of time.

    >>> [round(end, 2) for end in running_mean(np.full(400, 0.3), 0.95)]
    [0.28, 0.32]
    """
    n, alpha = len(x), 1.0 - confidence
    before = np.concatenate([[0.5], (0.5 + np.cumsum(x)[:-1]) / np.arange(2, n + 1)])
    spread = float(((x - before) ** 2).sum())
    best = np.inf
    for j in range(1, EXPONENTS + 1):
        rate = 0.5**j
        psi = -np.log1p(-rate) - rate
        best = min(best, (psi * spread + np.log(2.0 * j * (j + 1) / alpha)) / rate)
    middle, half = float(np.mean(x)), float(best) / n
    return max(0.0, middle - half), min(1.0, middle + half)
