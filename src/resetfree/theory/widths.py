"""How wide the confidence bonus of Algorithm 1 must be: the paper's formula, and an explicit width with proof.

Legend: d dimension of phi, H horizon, K episodes, A actions, B bound on the multiplier, p failure probability, R range
of the targets (H for rewards, 1 for costs), alpha inverse temperature of the softmax.
"""

from math import log, sqrt

from resetfree.core import NonNegative, Positive, PositiveInt, Probability, checked


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


@checked
def theory_beta(
    d: PositiveInt,
    horizon: PositiveInt,
    episodes: PositiveInt,
    bound: NonNegative,
    p: Probability,
    alpha: NonNegative,
    target_range: Positive,
) -> float:
    """The width for which optimism is proved: both directions of the Bellman inequality hold with probability 1 - p.

    For ridge 1, features of norm at most 1, measures of total variation at most sqrt(d), targets within an interval of
    length R (H for rewards, 1 for costs; rewards may be random within [0, 1]: only the length enters), and multipliers
    up to B.

    Regression is on V_r(s') or V_c(s'), which depends on the data, so concentration must hold for all functions that
    the pass can produce at once. There is one class for both: V_r = <pi, Q_r> and V_c = <pi, Q_c> share the policy
    pi = softmax(alpha (Q_r - lam Q_c)), so each depends on w_r, w_c, Lam^-1 and lam, whichever is averaged:
        Q_r = clip(w_r.phi + beta_r |phi|, 0, H-h+1),  Q_c = clip(w_c.phi - beta_c |phi|, 0, 1),
        |phi|^2 = phi.Lam^-1 phi,  |w_r| <= 2 H sqrt(d K),  |w_c| <= 2 sqrt(d K) <= 2 R sqrt(d K),  0 <= lam <= B.
    With b the larger width, cover M = b^2 Lam^-1, whose Frobenius norm is at most sqrt(d) b^2. Where w_r and w_c are
    moved by at most e/2, M by at most e^2/4 and lam by at most e, both widths move by at most e/2, hence
        Q_r and Q_c by at most e,  alpha (Q_r - lam Q_c) by at most alpha (2 + B) e,
    pi by as much in the sum over actions (softmax is 1-Lipschitz from the largest difference to the summed one), and
    the average of values in [0, R] by at most (1 + R alpha (2 + B)) e. This is eps = d R / K for
    e = eps / (1 + R alpha (2 + B)), and balls of radius r in n dimensions have e-covers of size (1 + 2 r / e)^n, so
        log N = d log(1 + 8 H sqrt(d K) / e) + d log(1 + 8 R sqrt(d K) / e) + d^2 log(1 + 8 sqrt(d) b^2 / e^2)
                + log(1 + 2 B / e).
    Self-normalised concentration for every function of the cover, step and episode, eps for the others, and sqrt(d)
    (1 + R) for the ridge require
        beta >= sqrt(4 R^2 [(d/2) log(1 + K) + log N + log(4 H K / p)] + 8 K^2 eps^2) + sqrt(d) (1 + R).
    beta_r solves this with b = beta_r, and beta_c with the same b: the rewards enter the policy, and with it the costs'
    class, at their own size. beta_r is the larger: for costs R^2 is H^2 times smaller, and e at most H times, which
    only its logarithm feels.

    >>> alpha = softmax_alpha(10_000, 5, 3, 5.0)
    >>> [round(theory_beta(4, 5, 10_000, 5.0, 0.05, alpha, R)) for R in (5.0, 1.0)]
    [332, 68]
    """
    rewards = float(horizon)
    widest = 0.0
    if target_range != rewards:
        widest = theory_beta(d, horizon, episodes, bound, p, alpha=alpha, target_range=rewards)
    eps = d * target_range / episodes
    e = eps / (1.0 + target_range * alpha * (2.0 + bound))
    weights = [2.0 * size * sqrt(d * episodes) for size in (rewards, target_range)]
    beta, last = 1.0, 0.0
    while abs(beta - last) > 1e-10 * beta:  # a contraction: beta enters through its logarithm
        last = beta
        b = max(beta, widest)
        cover = (
            sum(d * log(1 + 4 * size / e) for size in weights)
            + d * d * log(1 + 8 * sqrt(d) * b * b / (e * e))
            + log(1 + 2 * bound / e)
        )
        inside = d / 2 * log(1 + episodes) + cover + log(4 * horizon * episodes / p)
        beta = sqrt(4 * target_range**2 * inside + 8 * (episodes * eps) ** 2) + sqrt(d) * (1 + target_range)
    return beta
