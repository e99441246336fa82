"""Bounds on Regret and Resets that need no model and hold after every round at once; usable during a run.

Legend: k rounds so far; N_k resets that happened in them; Resets(k) = sum of V_c^{pi^i}(s_1^i), their expectation given
policies and starts; G_i the reward collected in round i, whose mean is V_r^{pi^i}(s_1^i); delta the probability with
which a bound may fail at any round whatever. Every bound comes from a non-negative supermartingale that starts at 1:
it exceeds 1/delta at some round with probability at most delta (Ville), so a run may be stopped at any time.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Bound, Floats, Positive, Probability, checked, expect

DELTA = 0.01  # default failure probability
SHOWN = 0.05  # of each bound beside a run: terminal, report and studio show the same number
GRID = 32  # exponents tried: enough for 1e15 resets


@checked
def resets_upper(n_resets: ArrayLike, delta: Probability = DELTA) -> Floats:
    """Above Resets(k) for all k with probability at least 1 - delta, from the number of resets alone.

    min over j of (t_j N_k + ln(1/delta_j)) / (1 - exp(-t_j)),  t_j = 2^(1-j),  delta_j = delta / ((j+1)(j+2)).

    Since E exp(-t C) = 1 - (1 - e^-t) p <= exp(-(1 - e^-t) p) for a reset C of probability p, the exponential of
    (1 - e^-t) Resets(k) - t N_k is a supermartingale for each t, and the delta_j add up to delta. No assumption.

    n_resets: any shape, counts so far.

    >>> resets_upper([0, 1, 10, 100], delta=0.05).round(1).tolist()
    [4.3, 6.6, 23.4, 140.1]
    """
    n = _counts(n_resets)
    best = np.full(n.shape, np.inf)
    for t, log_delta in _exponents(delta):
        np.minimum(best, (t * n + log_delta) / -np.expm1(-t), out=best)
    return best


@checked
def resets_lower(n_resets: ArrayLike, delta: Probability = DELTA) -> Floats:
    """Below Resets(k) for all k with probability at least 1 - delta, from the number of resets alone.

    max over j of (t_j N_k - ln(1/delta_j)) / (exp(t_j) - 1) and 0, from E exp(t C) <= exp((e^t - 1) p).

    >>> resets_lower([0, 1, 10, 100], delta=0.05).round(1).tolist()
    [0.0, 0.0, 3.0, 68.6]
    """
    n = _counts(n_resets)
    best = np.zeros(n.shape)
    for t, log_delta in _exponents(delta):
        np.maximum(best, (t * n - log_delta) / np.expm1(t), out=best)
    return best


def resets_interval(n_resets: ArrayLike, k: ArrayLike, delta: Probability = DELTA) -> tuple[Floats, Floats]:
    """Below and above Resets(k) for all k with probability at least 1 - delta, half of it for each side; at most k.

    >>> [side.round(1).tolist() for side in resets_interval([0, 1, 10], [2, 50, 100], delta=0.1)]
    [[0.0, 0.0, 3.0], [2.0, 6.6, 23.4]]
    """
    return resets_lower(n_resets, delta / 2), np.minimum(resets_upper(n_resets, delta / 2), k)


def resets_bound(n_resets: ArrayLike, k: ArrayLike) -> Floats:
    """The bound that is shown beside a run: above Resets(k) for all k with 95 %, from the resets alone; at most k.

    >>> resets_bound([0, 1, 10], [2, 50, 100]).round(1).tolist()
    [2.0, 6.6, 23.4]
    """
    return np.asarray(np.minimum(resets_upper(n_resets, SHOWN), k), dtype=np.float64)


@checked
def mixture_boundary(variance: ArrayLike, delta: Probability = DELTA, rho: Positive = 1.0) -> Floats:
    """What a martingale of sub-Gaussian steps stays within, at all times, with probability at least 1 - delta.

    |S_k| <= sqrt((v_k + rho) ln((v_k + rho) / (rho delta^2))).

    exp(y S - y^2 v / 2) is a supermartingale for every y; averaged over y ~ N(0, 1/rho) it is
    sqrt(rho / (v + rho)) exp(S^2 / (2 (v + rho))), which stays below 1/delta. The boundary is tightest where v is
    about rho ln(1/delta^2), and of the right order everywhere.

    variance: v_k, the steps' sub-Gaussian variances added up, any shape.

    >>> float(mixture_boundary(100.0, delta=0.05, rho=10.0).round(2))
    30.38
    """
    total = np.asarray(variance, dtype=np.float64) + rho
    return np.asarray(np.sqrt(total * np.log(total / (rho * delta**2))))


def return_variance(horizon: int, noise: float | str = 0.0) -> float:
    """Sub-Gaussian variance of what one episode pays: H^2/4 for returns in [0, H], and H sigma^2 more for noise.

    The noise is independent of where the episode goes, so its exponential moment is a factor and variances add up.

    noise: 0, "bernoulli" (the return stays in [0, H]) or the standard deviation sigma of Gaussian noise on each reward.

    >>> return_variance(8), return_variance(8, 0.5)
    (16.0, 18.0)
    """
    sigma = noise if isinstance(noise, int | float) else 0.0
    return horizon**2 / 4.0 + horizon * sigma**2


def upper_sum(s1: ArrayLike, upper: ArrayLike, horizon: int) -> Floats:
    """[K] sum_{i <= k} of the least upper bound on V*(s_1^i) that was given up to round k.

    V* depends on the start alone and is at most H, so each start may use the best of all its rounds.

    s1: [K] starts (states that are not numbers are taken as all different).  upper: [K] claimed to be above V*(s_1^k).

    >>> upper_sum([0, 1, 0], [5.0, 4.0, 3.0], horizon=4).tolist()
    [4.0, 8.0, 10.0]
    """
    starts, named = np.asarray(s1), np.minimum(np.asarray(upper, dtype=np.float64), horizon)
    if starts.ndim != 1 or starts.dtype.kind not in "iu":
        return np.cumsum(named)
    order = np.argsort(starts, kind="stable")
    change = np.empty(len(named))
    for rounds in np.split(order, np.flatnonzero(np.diff(starts[order])) + 1):  # the rounds of one start, in order
        best = np.minimum.accumulate(named[rounds])
        change[rounds] = np.diff(best * np.arange(1, len(rounds) + 1), prepend=0.0)
    return np.cumsum(change)


def regret_upper(
    k: ArrayLike,
    upper: ArrayLike,
    reward: ArrayLike,
    horizon: int,
    delta: float = DELTA,
    noise: float | str = 0.0,
    rho: float | None = None,
) -> Floats:
    """Above Regret(k) for all k with probability at least 1 - delta, wherever `upper` is above sum_{i<=k} V*(s_1^i).

    upper_k - sum_{i<=k} G_i + mixture_boundary(k (H^2/4 + H sigma^2)), since sum (G_i - V_r^{pi^i}) is a martingale.

    k: rounds so far.  upper: see `upper_sum`.  reward: sum of the G_i so far.  All of one shape.
    rho: where the boundary is tightest (default H^2: after about 50 rounds for delta = 0.01); must not depend on data.

    >>> float(regret_upper(100, 400.0, 390.0, horizon=4).round(1))
    82.0
    """
    v = np.asarray(k, dtype=np.float64) * return_variance(horizon, noise)
    boundary = mixture_boundary(v, delta, float(horizon**2) if rho is None else rho)
    return np.asarray(np.asarray(upper, dtype=np.float64) - np.asarray(reward, dtype=np.float64) + boundary)


@checked
def regret_lower(n_resets: ArrayLike, bound: Bound, delta: float = DELTA) -> Floats:
    """Below Regret(k) for all k with probability at least 1 - delta: -B times `resets_upper`.

    Regret(k) >= -sum lambda_hat(s_1^i) V_c^{pi^i}(s_1^i) >= -B Resets(k) where B is at least every lambda_hat.

    >>> float(regret_lower(0, bound=2.0, delta=0.05).round(1))
    -8.5
    """
    return np.asarray(-bound * resets_upper(n_resets, delta))


def _exponents(delta: float) -> list[tuple[float, float]]:
    """t_j and ln(1/delta_j)."""
    return [(2.0 ** (1 - j), float(np.log((j + 1) * (j + 2) / delta))) for j in range(GRID)]


def _counts(n_resets: ArrayLike) -> NDArray[np.float64]:
    n = np.asarray(n_resets, dtype=np.float64)
    expect((n >= 0).all(), "'n_resets'", "be numbers of resets, which are not negative", got="others")
    return n
