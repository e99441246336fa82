"""The largest sum of overestimates of reward that any order of visits has, where the model is known.

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

from __future__ import annotations

from collections.abc import Callable
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.compiled import jit
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.first_falls import least_share
from resetfree.theory.proved_widths import IntervalWidth, kl_upper

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
    times: NDArray[np.int64]  # cells of each kind
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
