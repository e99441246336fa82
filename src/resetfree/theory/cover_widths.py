"""The smallest widths that we can prove on a continuum of states: the determinants of the data, and a cover of values.

Legend: as in `proved_widths`; n samples of a regression of step h, N = 2^(m+1) the power of two above them, m their
epoch; g = log det Lam - d log reg, rounded up to a whole number; R the length of an interval around V_{h+1}; e the
distance by which parameters are moved, eps by how much V moves; alpha inverse temperature, lam in [0, B].

Corners (`proved_widths`) are as many as there are sets of states: on a continuum they bound nothing. The values that
the pass can produce have finitely many *parameters*, though, and are Lipschitz in them.

**A cover.** V_{h+1} is made of w_r, w_c, b^2 Lam^-1 and lam, b the largest width of step h+1 with at most N samples:
    |w_r| <= (H-h) sqrt(N) / (2 sqrt(reg)),  |w_c| <= sqrt(N) / (2 sqrt(reg)),  |b^2 Lam^-1| <= sqrt(d) b^2 / reg,
the first two because the singular values s / (s^2 + reg) of Lam^-1 Phi^T are at most 1 / (2 sqrt(reg)); and of the
whole number g and the epoch of step h+1, at most m, which are finitely many. Move w_r and w_c by e/2, the symmetric
matrix by e^2/4 and lam by e: widths move by at most e/2 (|sqrt(x) - sqrt(y)| <= sqrt|x - y|), Q_r and Q_c by e,
alpha (Q_r - lam Q_c) by alpha (2 + B) e, the softmax by as much in the sum over actions, and its average of values in
an interval of length R by
    eps = e (1 + R alpha (2 + B) / 2).
Balls of radius r in k dimensions have e-covers of (1 + 2 r / e)^k points, symmetric matrices have d (d+1) / 2, so
    log C = d log(1 + 4 |w_r| / e) + d log(1 + 4 |w_c| / e) + (d (d+1) / 2) log(1 + 8 |M| / e^2) + log(1 + B / (2 e))
            + log(1 + g_max) + log(m + 1).
**Concentration.** For each point of the cover, with probability 1 - delta for all n at once (see `proved_widths`),
    |sum phi (V(s') - P V)| <= (R/2) sqrt(g + 2 log(1/delta))      in the norm of Lam^-1;
V itself differs from its point by at most eps, which adds 2 eps sqrt(n), as Phi (Phi^T Phi + reg)^-1 Phi^T <= 1.
With eps = R / (2 sqrt(N)) that is R at most, and with delta = p' / (2 H (m+1) (m+2) C), rewards and costs, steps and
epochs being all that is in the union besides the cover,
    beta_r = ((H-h)/2 + noise) sqrt(g + 2 log(1/delta)) + (H-h) + sqrt(reg d) (H-h+1),
    beta_c = (1/2) sqrt(g + 2 log(1/delta)) + 1 + sqrt(reg d).
In the last step V is the same in every run: C = 1 and eps = 0. K is in none of it, except through alpha.

**Greedy.** V = max_a clip(w.phi + width, -lam, H-h) of the composite is made of w, M and lam alone and moves by e:
R = H-h+lam, eps = e = 1 / (2 sqrt(N)), and log C lacks one of the two weights. Then beta_r + lam beta_c is above what
is needed for every lam in [0, B].

What is proved holds for plans that are kept: the class does not depend on when a plan was made.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, floor, log, log2, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.problems.contract import Problem
from resetfree.theory.proved_widths import CONCENTRATION

COVER = "the determinants of the data, and a cover of the values"


class CoverWidth(NamedTuple):
    """The constants of a run."""

    d: int
    horizon: int
    p: float  # p', the part of the failure probability
    alpha: float  # inf for the greedy composite
    bound: float  # B
    reg: float
    noise: float  # sub-Gaussian constant of the noise in rewards
    part: float = 1.0  # of all widths; less than 1 only to see where they fail


def cover_width(problem: Problem, d: int, p: float, B: float, alpha: float, reg: float) -> CoverWidth:
    """The constants for a problem; alpha: None of the softmax, inf for the greedy composite."""
    return CoverWidth(d, problem.horizon, CONCENTRATION * p, alpha, B, reg=reg, noise=problem.reward_noise)


def most_growth(c: CoverWidth, n: float) -> float:
    """The largest g after n samples, d log(1 + n / (d reg)), rounded up."""
    return float(ceil(c.d * log(1 + n / (c.d * c.reg))))


def cover_betas(c: CoverWidth, growth: Floats, counts: Floats) -> Floats:
    """[2, H] beta_r and beta_c; growth: [H] g of the regression of each step.  counts: [H] its samples.

    >>> c = CoverWidth(4, 5, 0.0375, 250.0, 16.0, 1.0, 0.0)
    >>> cover_betas(c, np.full(5, 30.0), np.full(5, 10_000.0)).round(1).tolist()[1]
    [20.0, 19.9, 19.7, 19.2, 5.2]
    """
    found = np.empty((2, c.horizon))
    for h in range(c.horizon):
        found[:, h] = _step(c, h, float(ceil(growth[h])), float(counts[h]))
    return c.part * found


@lru_cache(maxsize=4096)  # rewards and costs ask for the same next step: 2^H calls without it
def _step(c: CoverWidth, h: int, g: float, n: float) -> tuple[float, float]:
    """beta_r and beta_c of one step; h from 0."""
    ahead, ridge = float(c.horizon - 1 - h), sqrt(c.reg * c.d)  # ahead: H - h
    if ahead == 0:
        root = sqrt(g + 2 * log(2 * c.horizon / c.p))
        return c.noise * root + ridge, root / 2 + ridge
    m = epoch(n)
    logs = [log_cover(c, h, m, R) + log(2 * c.horizon * (m + 1) * (m + 2) / c.p) for R in (ahead, 1.0)]
    root_r, root_c = (sqrt(g + 2 * one) for one in logs)
    near_r, near_c = (1.0, 0.0) if c.alpha == float("inf") else (ahead, 1.0)  # 2 eps sqrt(n)
    return (ahead / 2 + c.noise) * root_r + near_r + ridge * (ahead + 1), root_c / 2 + near_c + ridge


def epoch(n: float) -> int:
    """M with 2^m <= n < 2^(m+1); 0 without samples."""
    return floor(log2(n)) if n >= 1 else 0


def log_cover(c: CoverWidth, h: int, m: int, R: float) -> float:
    """Log C for V_{h+1} with at most 2^(m+1) samples; h from 0."""
    N = 2.0 ** (m + 1)
    g = most_growth(c, N)
    ahead, greedy = float(c.horizon - 1 - h), c.alpha == float("inf")
    b_r, b_c = _step(c, h + 1, g, N)
    b = b_r + c.bound * b_c if greedy else max(b_r, b_c)
    size, matrix = sqrt(N) / (2 * sqrt(c.reg)), sqrt(c.d) * b * b / c.reg
    if greedy:
        e = 1 / (2 * sqrt(N))
        weights = log(1 + 4 * (ahead + c.bound) * size / e)
    else:
        e = R / (2 * sqrt(N)) / (1 + R * c.alpha * (2 + c.bound) / 2)
        weights = log(1 + 4 * ahead * size / e) + log(1 + 4 * size / e)
    entries = c.d * (c.d + 1) / 2
    finite = log(1 + c.bound / (2 * e)) + log(1 + g) + log(m + 1)
    return c.d * weights + entries * log(1 + 8 * matrix / (e * e)) + finite
