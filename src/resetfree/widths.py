"""How wide the confidence bonus of Algorithm 1 must be: the paper's formula, and an explicit width with proof.

Legend: d dimension of phi, H horizon, K episodes, A actions, B bound on the multiplier, p failure probability, R range
of the targets (H for rewards, 1 for costs), alpha inverse temperature of the softmax.
"""

from __future__ import annotations

from math import log, sqrt

from resetfree.errors import InvalidInput


def softmax_alpha(episodes: int, horizon: int, n_actions: int, bound: float) -> float:
    """The inverse temperature, alpha = log|A| K / (2 (1 + B + H)).

    Paper: alpha of Algorithm 1.

    >>> softmax_alpha(1000, 4, 2, 5.0) == log(2) * 1000 / 20
    True
    """
    return log(n_actions) * episodes / (2.0 * (1.0 + bound + horizon))


def paper_beta(constant: float, d: int, horizon: int, episodes: int, n_actions: int, p: float) -> float:
    """The printed width, beta = C d H sqrt(log(4 log|A| d K H / p)), for a constant C that the paper leaves open.

    Paper: beta of Algorithm 1.

    >>> round(paper_beta(1.0, 4, 5, 10_000, 3, 0.05))
    82
    """
    inside = 4.0 * log(n_actions) * d * episodes * horizon / p
    return constant * d * horizon * sqrt(max(log(inside), 0.0) if inside > 0 else 0.0)


def theory_beta(
    d: int, horizon: int, episodes: int, bound: float, p: float, alpha: float, target_range: float
) -> float:
    """The width for which optimism is proved: both directions of the Bellman inequality hold with probability 1 - p.

    With eps = d R / K, e = eps / (1 + R alpha (2 + B)) and W = 2 R sqrt(d K), the values that the pass can produce have
    a cover of log-size
        log N = 2 d log(1 + 4 W / e) + d^2 log(1 + 8 sqrt(d) beta^2 / e^2) + log(1 + 2 B / e)
    (softmax is 1-Lipschitz from the largest difference to the summed one), and beta solves
        beta = sqrt(4 R^2 [(d/2) log(1 + K) + log N + log(4 H K / p)] + 8 K^2 eps^2) + sqrt(d) (1 + R).
    For ridge 1, features of norm at most 1 and measures of total variation at most sqrt(d).

    >>> alpha = softmax_alpha(10_000, 5, 3, 5.0)
    >>> [round(theory_beta(4, 5, 10_000, 5.0, 0.05, alpha, R)) for R in (5.0, 1.0)]
    [332, 66]
    """
    if min(d, horizon, episodes) < 1 or not (0 < p < 1 and bound >= 0 and alpha >= 0 and target_range > 0):
        raise InvalidInput("The arguments of theory_beta must be positive, with 0 < p < 1. Got others instead.")
    eps = d * target_range / episodes
    e = eps / (1.0 + target_range * alpha * (2.0 + bound))
    weights = 2.0 * target_range * sqrt(d * episodes)
    beta, last = 1.0, 0.0
    while abs(beta - last) > 1e-10 * beta:  # a contraction: beta enters through its logarithm
        last = beta
        cover = (
            2 * d * log(1 + 4 * weights / e)
            + d * d * log(1 + 8 * sqrt(d) * beta * beta / (e * e))
            + log(1 + 2 * bound / e)
        )
        inside = d / 2 * log(1 + episodes) + cover + log(4 * horizon * episodes / p)
        beta = sqrt(4 * target_range**2 * inside + 8 * (episodes * eps) ** 2) + sqrt(d) * (1 + target_range)
    return beta
