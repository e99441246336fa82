"""What proved widths cost over a run: falls per unsafe edge, and the largest sum of overestimates of any visits.

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

**The largest sum of overestimates of reward that any order of visits has, where the model is known.**
Legend: as in `proved_widths`. After n >= 1 samples of a cell a step adds at most (H - h) d(n) + 2 noise, d(n) the
largest distance of a set's probability from what a player takes for it; 1 before. d differs from cell to cell: the
probability g = P(E) of a set is one of few sums of a row, and the distance is of order sqrt(g (1 - g) / n), or 1/n
where g is 0 or 1.

**Two players.** Intervals (Algorithm 1): kl(Phat(E), g) <= x_n, so Phat(E) is at most a(g), the largest share with
    kl(a, g) <= x_n, and the upper end that the player takes at most kl_upper(a(g), x_n), which grows in the share: d(n)
    is the largest kl_upper(a(g), x_n) - g. A bonus (elimination with the width of its proof): the player takes
    Phat V + (H - h) sqrt(L_b / 2n), so d(n) is the largest a(g) - g, and sqrt(L_b / 2n). V may depend on the data in
    both: V is the integral of [V > t] over an interval of length H - h.
**Visits.** d falls in n. So m visits add up to the most where they take the m largest of all terms of all cells (those
    of a cell come in its order); a plan that misses the last `lag` visits of a cell has the first term lag + 1 times.
    Terms are put together in blocks of n that are at most 1 % long, each as large as its first one, so that a sum is
    too large by that and never too small. Weights H - h and expected sums are as in `proved_widths`.
"""

from collections.abc import Callable, Iterator
from math import ceil, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from resetfree.core import Bools, Floats, Ints, jit
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.safety import safe_sets
from resetfree.theory.certificates.anytime import DELTA, resets_upper
from resetfree.theory.proved_widths import IntervalWidth, kl_lower, kl_upper, radius_at

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
    return max(ceil(high * least_share(g, radius_at(width, high))[1]), 1)


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


def most_falls(edges: UnsafeEdges, width: IntervalWidth, scale: float) -> tuple[float, float]:
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
        total = float(resets_upper(counted, DELTA)) + scale / float(theta) ** edges.longest
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


MANY = 8  # outcomes of a cell, from which on its sets are not gone through one by one
FINE = 1.01  # of blocks

Distance = Callable[[Floats, float], float]  # of a cell with these sums of its row, after n samples


@jit
def _above(sums: Floats, x: float, whole: bool) -> float:
    """The largest a(g) - g, or kl_upper(a(g), x) - g if `whole`."""
    most = 0.0
    for g in sums:
        share = 1.0 - least_share(1.0 - g, x)[0] if g < 1.0 else 1.0
        most = max(most, (kl_upper(share, x) if whole else share) - g)
    return min(most, 1.0)


def interval_distance(width: IntervalWidth) -> Distance:
    """Of the intervals of Algorithm 1."""

    def distance(sums: Floats, n: float) -> float:
        x = (width.log_term + log(2.0) + 0.5 * log(n)) / n
        general = min(sqrt(2 * x), 1.0)
        return min(general, _above(sums, x, True)) if len(sums) else general

    return distance


def bonus_distance(log_term: float, bonus: float) -> Distance:
    """Of a bonus sqrt(L_b / 2n), where all sets are within intervals with this L."""

    def distance(sums: Floats, n: float) -> float:
        x = (log_term + log(2.0) + 0.5 * log(n)) / n
        general = min(sqrt(x / 2), 1.0)
        return min(sqrt(bonus / (2 * n)) + (min(general, _above(sums, x, False)) if len(sums) else general), 1.0)

    return distance


class CellKinds(NamedTuple):
    """The cells of one step, or of all steps, in which an action can be taken."""

    sums: list[Floats]  # of each kind of cell, the probabilities of sets; empty for a row of many outcomes
    times: Ints  # cells of each kind
    log_sets: float  # the logarithm of the number of sets of all these cells


def cells_of(mdp: FiniteMDP, h: int) -> CellKinds:
    """The cells (s, a) of step h = 1 .. H, reset states being one outcome."""
    t, pairs = mdp.transition, mdp.n_states * mdp.n_actions
    first = 0 if t.stationary else (min(h, mdp.n_transitions) - 1) * pairs
    resets = mdp.last_reset if h == mdp.n_transitions else mdp.reset
    kinds: dict[tuple[float, ...], int] = {}
    sets = 0.0
    for pair in range(pairs):
        if mdp.reset[pair // mdp.n_actions]:
            continue
        row = slice(t.indptr[first + pair], t.indptr[first + pair + 1]) if h <= mdp.n_transitions else slice(0, 0)
        falls = resets[t.indices[row]]
        chances = [*t.prob[row][~falls].tolist(), *([float(t.prob[row][falls].sum())] if falls.any() else [])]
        sets += 2.0 ** (max(len(chances), 1) - 1) - 1
        kind = tuple(sorted(chances)) if len(chances) <= MANY else ()
        kinds[kind] = kinds.get(kind, 0) + 1
    return CellKinds(
        [_sums(kind) for kind in kinds], np.array(list(kinds.values()), dtype=np.int64), log(max(sets, 1.0))
    )


def _sums(chances: tuple[float, ...]) -> Floats:
    """The probabilities of all sets of outcomes that can be, and of the set of those that cannot."""
    found = {0.0} if chances else set()
    for g in chances:
        found |= {min(one + g, 1.0) for one in found}
    return np.array(sorted(found))


def blocks(most: int) -> tuple[Floats, Floats]:
    """The first n of each block, and how many n it has, up to `most`.

    >>> [part.tolist() for part in blocks(3)]
    [[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]
    """
    first, n = [], 1
    while n <= most:
        first.append(n)
        n = max(n + 1, int(n * FINE))
    return np.array(first, dtype=np.float64), np.diff([*first, max(most, first[-1] if first else 0) + 1]).astype(float)


def largest_sums(cells: CellKinds, distance: Distance, visits: list[int], lag: int) -> list[float]:
    """For each number of visits, the largest sum of 1 before the first sample is known and of d(n) after that."""
    first, length = blocks(max(visits, default=0))
    values, counts = [np.ones(1)], [np.array([float(cells.times.sum()) * (lag + 1)])]
    for sums, m in zip(cells.sums, cells.times.tolist(), strict=True):
        values.append(np.array([distance(sums, n) for n in first]))
        counts.append(m * length)
    value, count = np.concatenate(values), np.concatenate(counts)
    order = np.argsort(-value, kind="stable")
    reached, total = np.cumsum(count[order]), np.cumsum(count[order] * value[order])
    reached, total = np.append(0.0, reached), np.append(0.0, total)
    return [float(np.interp(m, reached, total)) for m in visits]


def sum_over_steps(
    cells: list[CellKinds],  # [H] of each step; of the first one, if data are pooled
    distance: Distance,
    *,
    pooled: bool,
    rounds: int,
    noise: Callable[[float], float] | None,  # what noise adds after n samples
    delta: float,
) -> float:
    """Above the expected sum of V_r^k - V_r^{pi^k} over so many rounds with plans that are new: see `proved_widths`."""
    H, lag = len(cells), len(cells) - 1 if pooled else 0
    if pooled:
        D = sum(largest_sums(cells[0], distance, [j * rounds for j in range(1, H)], lag))
        D += _noise_sum(cells[0], lag, H * rounds, noise)
    else:
        of_kind: dict[int, tuple[float, float]] = {}  # steps may share their cells
        D = 0.0
        for h, one in enumerate(cells):
            if id(one) not in of_kind:
                of_kind[id(one)] = (largest_sums(one, distance, [rounds], 0)[0], _noise_sum(one, 0, rounds, noise))
            D += (H - 1 - h) * of_kind[id(one)][0] + of_kind[id(one)][1]
    largest = H * (H + 1) / 2.0
    return min(largest * float(resets_upper(D / largest, delta)), largest * rounds)


def most_overestimated(
    mdp: FiniteMDP,
    distance: Distance,
    *,
    pooled: bool,
    rounds: int,
    noise: Callable[[float], float] | None,
    delta: float,
) -> float:
    """`sum_over_steps` of a model."""
    alike = pooled or mdp.stationary
    cells = [cells_of(mdp, 1)] * mdp.horizon if alike else [cells_of(mdp, h) for h in range(1, mdp.horizon + 1)]
    return sum_over_steps(cells, distance, pooled=pooled, rounds=rounds, noise=noise, delta=delta)


def _noise_sum(cells: CellKinds, lag: int, visits: int, noise: Callable[[float], float] | None) -> float:
    """1 for each visit before the first sample is known, and what noise adds after that."""
    n_cells = int(cells.times.sum())
    if noise is None or not n_cells:
        return float(min(n_cells * (lag + 1), visits))
    alike = CellKinds([np.empty(0)], np.array([n_cells]), 0.0)
    return largest_sums(alike, lambda _, n: min(noise(n), 1.0), [visits], lag)[0]
