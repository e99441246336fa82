"""The smallest widths that we can prove for Algorithm 1, and the rates that follow from them; they know no K.

Legend: S states, A actions, B bound on the multipliers; a cell is a triple (h, s, a), or a pair (s, a) where data are
pooled; n samples of a cell; an outcome of a cell is the next state, all reset states being one outcome; P(E) the
probability of a set E of outcomes, Phat(E) its share of the samples; p failure probability, L the logarithm of the
union bound; V_r^k, V_c^k the player's values, with V_r = 0 and V_c = 1 in reset states; x_n = (L + log(2 sqrt(n))) / n.

**Intervals of all sets** (one-hot features; `interval_width`). With probability 1 - p', for all cells, all n and all
sets E of outcomes at once,  kl(Phat(E), P(E)) <= x_n,  kl that of two coins.
  One set of one cell: the samples of a cell, in the order of its visits, are independent draws of its outcome, whatever
  the learner does, so n Phat(E) counts tosses of one coin P(E). Toss by toss, the probability that a mixture of all
  coins (with the density 1 / (pi sqrt(q (1 - q)))) gives to what was seen, divided by the probability that the coin
  P(E) gives to it, is a martingale that begins at 1: it ever reaches 1/delta with probability at most delta (Ville).
  The mixture is at least 1 / (2 sqrt(n)) times the largest probability that any coin gives (Krichevsky and Trofimov;
  Willems, Shtarkov and Tjalkens, 1995), which is exp(n kl(Phat(E), P(E))) times that of the coin P(E).
  All of them: a set and its complement have the same kl, and at most S outcomes of a cell have a positive
  probability (reset states are one), so there are M = 2^(S-1) - 1 sets and L = log(M cells / p'). Nothing else is in
  the union: not n, not K, not the multiplier, and not V, which may depend on the data in any way.

**Values.** V(s') is the integral over t of [V(s') > t], hence P V of P(V > t): for sets in an interval each,
    Q_r = rhat + integral of the largest P(V_r > t) allowed  >= r + P V_r,
    Q_c = integral of the smallest P(V_c > t) allowed        <= P V_c       (`kl_upper`, `kl_lower`)
for every V at once. Unseen reset states do no harm: they are not among the samples, and have probability zero as
outcomes of their own. So V_r^k lies above and V_c^k below the values of the policy played, and the softmax of
alpha (Q_r - lam Q_c) is within H log|A| / alpha of the best composite, for any alpha > 0 and lam >= 0.

**How far they are from the truth**, in a step after n visits of its cell:
    Q_r - (r + P V_r) <= (H - h) d_n + [n = 0],  d_n = min(1, sqrt(2 x_n)), d_0 = 1: by Pinsker's inequality Phat(E) is
    within sqrt(x/2) of P(E), and the end of the interval within sqrt(x/2) of Phat(E);
    P V_c - Q_c <= sqrt(y_n P V_c),  y_n = min(1, 8 x_n), y_0 = 1: kl(a, b) >= (a - b)^2 / (2 max(a, b)), so the lower
    end of the interval of E is at least P(E) - sqrt(8 P(E) x), and the integral over t of sqrt(P(V_c > t)), over an
    interval of length 1, is at most the root of the integral.
V_c^k is below that of the policy, so P V_c is at most the probability q of a reset from this step on, and the q of an
episode add up to at most H V_c^{pi^k}(s_1) in expectation. With Cauchy's inequality over all steps and episodes
    sum of V_r^k - V_r^{pi^k} <= D,   sum of V_c^{pi^k} - V_c^k <= sqrt(Y H Resets),
D and Y the expected sums of (H - h) d_n + [n = 0] and of y_n. The realised sums are at most what they are if the visits
of a step are spread evenly over its cells, as d_n and y_n fall. Where data are pooled, a weight H - h is a sum of
ones, [H - h >= j] for j = 1 .. H - 1; at most (H - j) K visits have the j-th one, and the d_n of any m visits add up to
at most T(m), those of m visits spread evenly: together T(K) + ... + T((H - 1) K). The sums expected given the past
exceed the realised ones by no more than `anytime.resets_upper` says, for terms in [0, 1] as for coins:
exp(-t X) <= 1 - (1 - exp(-t)) X. Hence
    R_p(pi*) <= sum of H log|A| / alpha_k + D + B sqrt(Y H Resets),
with any weights in [0, B] in place of the multipliers: the cost's part grows with the root of Resets, not of K.
p is split in p' = 3p/4 (with noisy rewards half of it for them) and p/8 for each of the two sums.

**Determinants and corners** (features of dimension d, linear problems; `determinant_betas`). Regression needs
|sum phi (V(s') - P V)| in the norm of Lam^-1 for values that depend on the data. It is convex in V, so its largest
value over all V in [0, R]^S is at a corner, a function that is 0 or R in each outcome. Corners are fixed functions,
and for a fixed one with probability 1 - delta, for all rounds at once (Abbasi-Yadkori, Pal and Szepesvari, 2011, for
steps that are R/2-sub-Gaussian by Hoeffding's lemma; g = log det Lam - d log reg is that of the data, not its largest),
    |sum phi (V(s') - P V)| <= (R/2) sqrt(g + 2 log(1/delta)).
A function and its complement differ by a constant, which has no error: M = 2^(S-1) - 1 corners for reward and cost
together, as theirs differ by the factor R only; one where V is the same in every run, which is so in the last step
(V_r = 0, and V_c = 1 in reset states); 2^S for noisy rewards, whose noise has no complement and adds to R/2. No cover,
no alpha and no B enter. With the ridge's part, sqrt(reg) times |w| <= sqrt(d) (1 + R) for rewards, R = H - h, and
sqrt(d) for costs,
    beta_r = ((H - h)/2 + noise) sqrt(g + 2 log(N / p')) + sqrt(reg d) (H - h + 1),
    beta_c = (1/2) sqrt(g + 2 log(N / p')) + sqrt(reg d),
N the corners of all regressions. The rate is that of the paper's theorem with these widths, g at its largest,
d log(1 + K / (d reg)). Pooled, a regression needs samples of one function of s': not where the end of an episode can
be a reset, nor where its last action leads nowhere (a sample without s' is not one with V(s') = 0). For far more
states than d^2 the width "theory", which covers values instead, is smaller.

**Nearly linear** (`determinant_width` with a `misfit`). Where P is within eps_P and r within eps_r of linear (legend of
`assumptions.linearity`), the corners are as before, with the true P; what is new is that the mean of a datum
differs from a linear function by at most z = eps_r + (H - h) eps_P for rewards and eps_P for costs. By the lemma there
that moves a fit on n data by at most z sqrt(n) |phi|, and z at the point itself:
    beta_r + z_r sqrt(n), beta_c + z_c sqrt(n),  Q_r = clip(fit + width + z_r), Q_c = clip(fit - width - z_c)
are on the same sides of the truth as before, and the rate grows by what that adds on both sides in every step.

**The smallest widths that we can prove on a continuum of states: the determinants of the data, and a cover of values.**
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

from functools import lru_cache
from math import ceil, exp, expm1, floor, log, log1p, log2, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core import Floats, jit
from resetfree.problems import Problem
from resetfree.theory.certificates.anytime import resets_upper

SETS = "intervals of all sets of next states"
CORNERS = "the determinants of the data, and corners in place of a cover"
CONCENTRATION, EACH_SUM = 0.75, 0.125  # of p
ENOUGH = 1e-13  # a step of Newton's method that needs no other after it


@jit
def kl_upper(share: float, x: float) -> float:
    """The largest q with kl(share, q) <= x, for coins; never below it but by rounding.

    kl(share, .) is convex and grows to the right of `share`, so Newton's steps from a point to the right of the
    solution stay to the right of it. The first point is the least of three bounds: kl(a, b) >= 2 (a - b)^2,
    kl(a, b) >= (a - b)^2 / (2 b) and kl(a, b) >= (1 - a) log(1 / (1 - b)) - h(a), h the entropy of a coin.

    >>> [round(kl_upper(share, 0.1), 4) for share in (0.0, 0.3, 1.0)]
    [0.0952, 0.521, 1.0]
    """
    if share >= 1.0:
        return 1.0
    if share <= 0.0:
        return -expm1(-x)
    left = 1.0 - share
    entropy = -share * log(share) - left * log(left)
    q = min(share + sqrt(x / 2.0), share + x + sqrt(x * (x + 2.0 * share)))
    q = min(q, -expm1(-(x + entropy) / left))
    for _ in range(60):
        if q <= share or q >= 1.0:
            break
        over = -entropy - share * log(q) - left * log1p(-q) - x
        step = over * q * (1.0 - q) / (q - share)
        if step <= ENOUGH:
            break
        q -= step
    return min(max(q, share), 1.0)


@jit
def kl_lower(share: float, x: float) -> float:
    """The smallest q with kl(share, q) <= x, for coins; never above it but by rounding.

    >>> [round(kl_lower(share, 0.1), 4) for share in (0.0, 0.3, 1.0)]
    [0.0, 0.1291, 0.9048]
    """
    return 1.0 - kl_upper(1.0 - share, x)


class IntervalWidth(NamedTuple):
    """The constants of `Intervals of all sets`."""

    log_term: float  # L
    noise: float  # sub-Gaussian constant of the noise in rewards
    noise_log: float  # log(cells / p'') for the noise
    part: float = 1.0  # of all radii; less than 1 only to see where they fail


@jit
def radius(width: IntervalWidth, n: int) -> float:
    """x_n = (L + log(2 sqrt(n))) / n, the radius of the intervals in kl after n >= 1 samples."""
    return width.part * (width.log_term + log(2.0) + 0.5 * log(n)) / n


def radius_at(width: IntervalWidth, n: float) -> float:
    """x_n for a real n >= 1, as proofs need it; the same radii for whole numbers."""
    return width.part * (width.log_term + log(2.0) + 0.5 * log(n)) / n


@jit
def noise_radius(width: IntervalWidth, n: int) -> float:
    """How far the mean of n >= 1 noisy rewards is from its expectation: `anytime.mixture_boundary` with rho = noise^2.

    noise sqrt((n + 1) (log(n + 1) + 2 log(cells / p''))) / n.
    """
    return width.part * width.noise * sqrt((n + 1.0) * (log(n + 1.0) + 2.0 * width.noise_log)) / n


def log_corners(n_outcomes: int) -> float:
    """The logarithm of M = 2^(S-1) - 1, and 0 for a single outcome.

    >>> [round(np.exp(log_corners(m))) for m in (1, 2, 3, 5)]
    [1, 1, 3, 15]
    """
    pairs = (n_outcomes - 1) * log(2.0)
    return pairs + log1p(-exp(-pairs)) if n_outcomes > 1 else 0.0


def interval_width(problem: Problem, pooled: bool, p: float, noise: float) -> IntervalWidth:
    """L for a problem: of all sets of outcomes and all cells; with noise, half of the probability is for rewards.

    >>> import resetfree as rf
    >>> [round(interval_width(rf.make("grid-v0").problem(), pooled, 0.05, 0.0).log_term, 1) for pooled in (False, True)]
    [17.1, 15.0]
    """
    assert problem.n_states is not None
    n_cells = (1 if pooled else problem.horizon) * problem.n_states * problem.n_actions
    log_sets = log_corners(problem.n_states)
    log_cells = log(n_cells / (CONCENTRATION * p * (0.5 if noise > 0 else 1.0)))
    return IntervalWidth(log_sets + log_cells, noise, log_cells)


class Overestimates(NamedTuple):
    """Above the sums of V_r^k - V_r^{pi^k} and of V_c^{pi^k} - V_c^k after some rounds."""

    rewards: float
    costs_per_root: float  # times sqrt(Resets)


def overestimates(
    problem: Problem, width: IntervalWidth, pooled: bool, p: float, rounds: int, late: int
) -> Overestimates:
    """D and sqrt(Y H), after `rounds` of plans of which none was more than `late` rounds old.

    A plan knows the counts of the rounds that it rests on: of the visits of a cell so far it may miss the last `late`,
    and if data are pooled H in each of these rounds and H - 1 in its own. So the terms of the first `lag` visits count
    once more, as those of the first one, and the rest move on by as much. In Y there are (S - 1) A cells of a step:
    no action is taken in a reset state, and without one all V_c are zero, unless the end of an episode can be a reset.
    """
    assert problem.n_states is not None
    H, cells = problem.horizon, problem.n_states * problem.n_actions
    lag, visits = (H * (late + 1) - 1, H * rounds) if pooled else (late, rounds)
    live = cells if problem.end_resets else cells - problem.n_actions
    n = np.arange(1, max(visits // max(live, 1) + 2 - lag, 1), dtype=np.float64)
    x = (width.log_term + np.log(2.0) + 0.5 * np.log(n)) / n

    def most(among: int, later: Floats, visits: int = visits) -> float:
        """The largest sum over so many visits of so many cells, of 1 at first and later on of these terms."""
        terms = np.concatenate([np.ones(lag + 1), later])
        whole, rest = divmod(visits, max(among, 1))
        return float(among * terms[:whole].sum() + rest * terms[whole])

    steps = 1 if pooled else H  # of so many visits each
    reward_noise = np.zeros_like(n)
    if width.noise > 0:
        reward_noise = np.minimum(2 * width.noise * np.sqrt((n + 1) * (np.log(n + 1) + 2 * width.noise_log)) / n, 1.0)
    d_n = np.minimum(np.sqrt(2 * x), 1.0)
    # With the weights H - h: T(K) + T(2 K) + ..., or each step by itself.
    D = sum(most(cells, d_n, j * rounds) for j in range(1, H)) if pooled else H * (H - 1) / 2 * most(cells, d_n)
    D += steps * most(cells, reward_noise)
    Y = steps * most(live, np.minimum(8 * x, 1.0))
    D_largest, delta = H * (H + 1) / 2.0, EACH_SUM * p
    expected_D = D_largest * float(resets_upper(D / D_largest, delta))
    expected_Y = H * float(resets_upper(Y / H, delta))
    return Overestimates(min(expected_D, D_largest * rounds), sqrt(min(expected_Y, H * rounds) * H))


class DeterminantWidth(NamedTuple):
    """The constants of `Determinants and corners`, step by step [H]."""

    sigma_r: Floats  # (H - h)/2 + noise
    sigma_c: Floats  # 1/2, or 0 where nothing follows
    log_r: Floats  # log(N / p') for rewards
    log_c: Floats
    ridge_r: Floats
    ridge_c: Floats
    z_r: Floats  # how far a datum's mean is from linear, for rewards
    z_c: Floats


def determinant_width(
    problem: Problem, d: int, pooled: bool, p: float, noise: float, reg: float, misfit: tuple[float, float] = (0.0, 0.0)
) -> DeterminantWidth:
    """The constants for a problem; data pooled over the steps are one regression, whose corners are those of all.

    misfit: eps_P and eps_r, how far P and r may be from linear.
    """
    assert problem.n_states is not None
    H, corners = problem.horizon, log_corners(problem.n_states)
    ahead = np.arange(H - 1, -1, -1.0)  # H - h
    moves = np.arange(H) < problem.n_transitions
    fixed = ~moves if pooled else ~moves | (ahead == 0)  # where V is the same in every run
    part = CONCENTRATION * p * (0.5 if noise > 0 else 1.0)
    log_c = np.where(fixed, 0.0, corners) + log((1 if pooled else H) / part)
    log_r = log_c if noise == 0 else np.where(fixed, 0.0, problem.n_states * log(2.0)) + log(H / part)
    root = sqrt(reg * d)
    return DeterminantWidth(
        sigma_r=ahead / 2 + noise,
        sigma_c=np.where(moves, 0.5, 0.0),
        log_r=log_r,
        log_c=log_c,
        ridge_r=root * (ahead + 1),
        ridge_c=np.where(moves, root, 0.0),
        z_r=misfit[1] + ahead * misfit[0],
        z_c=np.where(moves, misfit[0], 0.0),
    )


def determinant_betas(width: DeterminantWidth, growth: Floats, samples: int = 0) -> Floats:
    """[2, H] beta_r and beta_c.

    growth: [H] g, the growth of log det Lam in the regression of each step.  samples: n, or more, of each of them.
    """
    beta_r = width.sigma_r * np.sqrt(growth + 2 * width.log_r) + width.ridge_r + width.z_r * sqrt(samples)
    beta_c = width.sigma_c * np.sqrt(growth + 2 * width.log_c) + width.ridge_c + width.z_c * sqrt(samples)
    return np.stack([beta_r, beta_c])


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
