"""Where a reset is expensive, Algorithm 1 with proved widths falls a few times per unsafe edge, for any K: the proof.

Legend: as in `proved_widths`; L_h the states that are lost when they are entered before step h (a reset, or no way to
avoid one for certain), all resets being one outcome; an unsafe edge is (cell, e) with an outcome e in L_(h+1) of
probability g > 0; n samples of a cell, b of them with e; ell = kl_lower(b/n, x_n); theta in (0, 1) chosen beforehand;
an edge is heavy in a round if ell >= theta g for the counts that its plan knows, else light.

**Theorem.** With probability 1 - p', for all rounds at once, where Assumption 1 holds and plans are new:
    (a) the rounds with a reset that came over a light edge are at most the sum over unsafe edges of ceil(b_theta(g));
    (b) the probability, given the past, of a reset over heavy edges alone in round k is at most
        theta^(-J) (1 + log|A| / alpha_k) (H + ... + 1) / lam_k,
        J the largest number of edges from the safe set to a reset that stay in lost states.
Hence Resets <= `resets_upper`((a)) + sum of (b), and neither safe pairs nor a factor H under a root are in it.
  Proof. *A bound in every safe state.* Softmax loses at most log|A| / alpha a step, Q_r >= r + P V_r and Q_c <= P V_c,
  and pi* stays in safe states: backwards from the last step, V_r^k - lam V_c^k >= V* - (H - h + 1) log|A| / alpha >=
  -(H - h + 1) log|A| / alpha in every safe state of step h. As V_r^k <= H - h + 1,
      sum_a pi^k(a|s) Q_c^k(s, a) = V_c^k(s) <= w_h / lam,  w_h = (H - h + 1) (1 + log|A| / alpha).         (1)
  *A reset leaves the safe set.* Every path to a reset enters L at some last time, from a safe state, and stays in it.
  So V_c of the policy is the expected sum over safe states of g(s, a), the probability that the next state is in L
  and that from there a reset comes without leaving L. Let g' be the part of it with heavy edges only: since the rest
  takes a light edge, Resets <= (expected rounds as in (a)) + (expected sums of g').
  *Q_c sees heavy edges.* Q_c = Phi(V_c^k), the integral of kl_lower(Phat(V_c^k > t), x), is monotone in V_c^k. The
  pairs (a, q) with kl(a, q) <= x form a convex set, so kl_lower(., x) is convex and 0 at 0, hence superadditive: for
  a function f that is 0 but in outcomes of heavy edges, kl_lower(Phat(f > t), x) >= theta P(f > t), and therefore
  Phi(f) >= theta P f.
  Backwards through L, with 1 in resets, V_c^k >= theta^(edges left) times the probability of a reset over heavy edges
  in L, and Q_c^k(s, a) >= theta^J g'(s, a). With (1), summed over the steps, that is (b).
  *Light edges become heavy.* For a(n) the least share with kl(a, g) <= x_n, and real n >= 1: x_n falls, so a(n) and
  l(n) = kl_lower(a(n), x_n) grow. Let n_theta be the least n with l(n) >= theta g, and b_theta = n_theta a(n_theta).
  For fixed b, b samples among n with kl(b/n, g) <= x_n: n kl(b/n, q) falls in n for q < b/n, while n x_n grows, so
  ell is least where n is largest, which is where a(n) = b/n; n a(n) grows, so that n is at least n_theta if
  b >= b_theta. Hence a light edge has b < b_theta, and a round of (a) adds at least one to the b of a light edge.  []
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, log
from typing import NamedTuple

import numpy as np

from resetfree.core.arrays import Bools, Floats
from resetfree.core.compiled import jit
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.finite.safety import safe_sets
from resetfree.theory.certificates.anytime import DELTA, resets_upper
from resetfree.theory.proved_widths import IntervalWidth, kl_lower, radius_at

THETAS = 10.0 ** -np.arange(0.5, 6.5, 0.25)
ROUNDING = 1e-11  # of the ends of intervals, which players compute by Newton's method
LARGEST = 300_000  # H*S*A up to which edges are counted


class UnsafeEdges(NamedTuple):
    """The edges of a model that lead where a reset cannot be avoided for certain."""

    chances: Floats  # g of each
    longest: int  # J


@jit
def _kl(a: float, b: float) -> float:
    found = 0.0
    if a > 0.0:
        found += a * np.log(a / b)
    if a < 1.0:
        found += (1.0 - a) * np.log((1.0 - a) / (1.0 - b)) if b < 1.0 else inf
    return found


@jit
def least_share(g: float, x: float) -> tuple[float, float]:
    """Two numbers around the least a with kl(a, g) <= x, as close as floats are.

    >>> [round(a, 4) for a in least_share(0.5, 0.1)]
    [0.2802, 0.2802]
    """
    low, high = 0.0, g
    if _kl(low, g) <= x:
        return 0.0, 0.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        if _kl(middle, g) <= x:
            high = middle
        else:
            low = middle
    return low, high


def falls_while_light(g: float, theta: float, width: IntervalWidth) -> int:
    """ceil(b_theta(g)), at least 1: how often an edge of probability g is taken while it is light, at most.

    >>> [falls_while_light(1.0, theta, IntervalWidth(15.0, 0.0, 0.0)) for theta in (0.5, 1e-2, 1e-4)]
    [25, 4, 2]
    """

    def heavy(n: float) -> bool:
        x = radius_at(width, n)
        return kl_lower(least_share(g, x)[0], x) >= theta * g + ROUNDING

    low, high = 1.0, 1.0
    while not heavy(high):
        low, high = high, 2.0 * high
        if high > 1e15:
            raise OverflowError(f"An edge of probability {g} needs more than 1e15 samples to be seen.")
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if heavy(middle) else (middle, high)
    return max(ceil(high * least_share(g, radius_at(width, high))[1] - 1e-9), 1)


def unsafe_edges(mdp: FiniteMDP, pooled: bool) -> UnsafeEdges | None:
    """The unsafe edges, of cells (s, a) if data are pooled and of (h, s, a) else.

    None where there are too many, or where pooled data are no samples of one outcome (the end of an episode resets).

    >>> import resetfree as rf
    >>> found = unsafe_edges(rf.make("grid-v0"), pooled=True)
    >>> len(found.chances), found.longest
    (18, 1)
    """
    if mdp.horizon * mdp.n_states * mdp.n_actions > LARGEST:
        return None
    if pooled and (mdp.last_reset != mdp.reset).any():
        return None
    safe, chances, longest = safe_sets(mdp), [], 1
    deep = np.zeros(mdp.n_states, dtype=np.int64)  # edges from a lost state to a reset, at most
    seen: dict[tuple[int, int], float] = {}
    for h in range(mdp.n_transitions, 0, -1):
        resets = mdp.last_reset if h == mdp.n_transitions else mdp.reset
        lost = ~safe.states(h + 1)
        here = np.zeros(mdp.n_states, dtype=np.int64)
        for cell, outcome, g in _edges(mdp, h, lost, resets):
            ahead = 1 + (0 if outcome < 0 else int(deep[outcome]))
            here[cell // mdp.n_actions] = max(here[cell // mdp.n_actions], ahead)
            if pooled:
                seen[cell, outcome] = g
            else:
                chances.append(g)
        longest = max(longest, int(here.max(initial=1)))
        deep = here
    return UnsafeEdges(np.array(list(seen.values()) if pooled else chances, dtype=np.float64), longest)


def _edges(mdp: FiniteMDP, h: int, lost: Bools, resets: Bools) -> Iterator[tuple[int, int, float]]:
    """The unsafe edges of step h: the pair s A + a, the outcome (-1 for a reset) and its probability."""
    t, pairs = mdp.transition, mdp.n_states * mdp.n_actions
    first = 0 if t.stationary else (h - 1) * pairs
    for pair in range(pairs):
        if mdp.reset[pair // mdp.n_actions]:
            continue
        row = slice(t.indptr[first + pair], t.indptr[first + pair + 1])
        where, chance = t.indices[row], t.prob[row]
        falls = resets[where]
        if falls.any():
            yield pair, -1, float(min(chance[falls].sum(), 1.0))
        for e in np.flatnonzero(lost[where] & ~falls):
            yield pair, int(where[e]), float(chance[e])


def most_falls(edges: UnsafeEdges, width: IntervalWidth, scale: float, delta: float = DELTA) -> tuple[float, float]:
    """(a) of the theorem and theta, for the theta with the smallest bound if the sum of (b) is scale / theta^J.

    scale: known beforehand, for theta must not depend on data.
    """
    chances, times = np.unique(edges.chances, return_counts=True)
    best = (inf, inf, 0.5)
    for theta in THETAS:
        try:
            counted = float(
                sum(m * falls_while_light(float(g), float(theta), width) for g, m in zip(chances, times, strict=True))
            )
        except OverflowError:
            break  # and for every smaller theta the sum of (b) is larger
        total = float(resets_upper(counted, delta)) + scale / float(theta) ** edges.longest
        best = min(best, (total, counted, float(theta)))
    return best[1], best[2]


def penalised(edges: UnsafeEdges, theta: float, lam: Floats, alpha: Floats, sizes: tuple[int, int, int]) -> float:
    """The sum of (b) over rounds with the multipliers lam [K] and inverse temperatures alpha [K]; each at most 1.

    sizes: H, the number of actions that move the agent, and A.
    """
    horizon, steps, n_actions = sizes
    ahead = float(sum(horizon - h for h in range(steps)))
    with np.errstate(divide="ignore", over="ignore"):
        each = (1.0 + log(n_actions) / alpha) * (ahead / theta**edges.longest) / lam
    return float(np.minimum(each, 1.0).sum())
