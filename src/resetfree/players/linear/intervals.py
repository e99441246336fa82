"""Intervals of all sets of next states in Algorithm 1: the pass on counts, the state, and what is proved with them.

Legend: as in `theory.proved_widths`; t a next state, `is_reset` the states whose entering is known to be a reset, W the
room of a row.
"""

from dataclasses import dataclass, field
from functools import cached_property, partial
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, Ints, jit
from resetfree.game.capabilities import FallsBound, PrimalRegretBound
from resetfree.game.contract import Proof, Round
from resetfree.players import check_room, sizes
from resetfree.players.linear.pair_values import Widths
from resetfree.players.linear.regression import WholePass
from resetfree.players.tabular.counts import ALL, Counts, HasCounts, empty_counts
from resetfree.problems import FiniteMDP, Problem
from resetfree.theory.proved_widths import (
    EACH_SUM,
    SETS,
    IntervalWidth,
    interval_width,
    kl_lower,
    kl_upper,
    noise_radius,
    overestimates,
    radius,
)
from resetfree.theory.visit_sums import interval_distance, most_falls, most_overestimated, penalised, unsafe_edges

UNDERFLOW = -745.0  # exp of less is zero


@jit
def descending(
    successor: NDArray[np.int32],  # [W] of a cell
    seen: Ints,  # [W] how often; 0 marks a free place
    is_reset: Bools,  # [S]
    v: Floats,  # [S]
    at_reset: float,  # the value of a reset
    values: Floats,  # [W] out
    times: Floats,  # [W] out
) -> int:
    """The values of what was seen, from the largest to the smallest, and how often; returns their number."""
    n = 0
    for j in range(len(seen)):
        if seen[j] == 0:
            break
        t = successor[j]
        value = at_reset if is_reset[t] else v[t]
        i = n
        while i > 0 and values[i - 1] < value:
            values[i], times[i] = values[i - 1], times[i - 1]
            i -= 1
        values[i], times[i] = value, float(seen[j])
        n += 1
    return n


@jit
def largest_mean(values: Floats, times: Floats, n: int, total: float, x: float, highest: float) -> float:
    """The integral of the largest P(V > t); highest: of all values, whether seen or not."""
    mean, above, cum = 0.0, max(highest, values[0]), 0.0
    for j in range(n):
        if above > values[j]:
            mean += (above - values[j]) * kl_upper(cum / total, x)
        above = values[j]
        cum += times[j]
    return float(mean + above)


@jit
def smallest_mean(values: Floats, times: Floats, n: int, total: float, x: float, lowest: float) -> float:
    """The integral of the smallest P(V > t); lowest: of all values, whether seen or not."""
    mean, cum = 0.0, 0.0
    for j in range(n):
        cum += times[j]
        below = values[j + 1] if j + 1 < n else min(lowest, values[j])
        if values[j] > below:
            mean += (values[j] - below) * kl_lower(min(cum / total, 1.0), x)
    return float(mean + min(lowest, values[n - 1]))


@jit
def interval_plan(
    c: Counts,
    n_transitions: int,
    width: IntervalWidth,
    alpha: float,
    lam: float,
    caps: Floats,  # [H] the largest Q_r of each step
    allowed: Bools,  # [1 or H, S, A] the actions among which the softmax chooses, or [0, 0, 0] for all of them
    policy: Floats,  # [H, S, A] out
    q_r: Floats,  # [H, S, A] out
    q_c: Floats,  # [H, S, A] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """Q_r and Q_c from intervals of all sets of next states, softmax of alpha (Q_r - lam Q_c), values under it.

    An action that moves nothing (the last one of a literal episode) cannot be reset, and is allowed in any case; so are
    all actions of a state that has no allowed one.
    """
    horizon, n_states, n_actions = policy.shape
    values, times = np.empty(c.seen.shape[3]), np.empty(c.seen.shape[3])
    v_r[:] = 0.0
    v_c[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        layer = h if len(c.tried) > 1 else 0
        is_reset = c.known_last if h == n_transitions - 1 else c.known
        highest, lowest = 0.0, 1.0
        for t in range(n_states):
            if not is_reset[t]:
                highest, lowest = max(highest, v_r[t]), min(lowest, v_c[t])
        for s in range(n_states):
            for a in range(n_actions):
                tried, moved = c.tried[layer, s, a], c.moved[layer, s, a]
                pay, cost = 1.0, 0.0
                if tried > 0:
                    pay = c.earned[layer, s, a] / tried
                    if width.noise > 0.0:
                        pay = min(pay + noise_radius(width, tried), 1.0)
                if h < n_transitions and moved == 0:
                    pay += highest
                    cost = lowest
                elif h < n_transitions:
                    row, seen, x = c.successor[layer, s, a], c.seen[layer, s, a], radius(width, moved)
                    n = descending(row, seen, is_reset, v_r, 0.0, values, times)
                    pay += largest_mean(values, times, n, float(moved), x, highest)
                    n = descending(row, seen, is_reset, v_c, 1.0, values, times)
                    cost = smallest_mean(values, times, n, float(moved), x, lowest)
                q_r[h, s, a] = max(min(pay, caps[h]), 0.0)
                q_c[h, s, a] = max(min(cost, 1.0), 0.0)
        may = min(h, len(allowed) - 1) if h < n_transitions else -1
        for s in range(n_states):
            best, total, some = -np.inf, 0.0, False
            if may >= 0:
                for a in range(n_actions):
                    some = some or allowed[may, s, a]
            for a in range(n_actions):
                if not some or allowed[may, s, a]:
                    best = max(best, q_r[h, s, a] - lam * q_c[h, s, a])
            for a in range(n_actions):
                exponent = alpha * (q_r[h, s, a] - lam * q_c[h, s, a] - best)  # <= 0: never overflows
                policy[h, s, a] = 1.0
                if some and not allowed[may, s, a]:
                    policy[h, s, a] = 0.0
                elif exponent < 0.0:
                    policy[h, s, a] = np.exp(exponent) if exponent > UNDERFLOW else 0.0
                total += policy[h, s, a]
            v_r[s], v_c[s] = 0.0, 0.0
            for a in range(n_actions):
                policy[h, s, a] /= total
                v_r[s] += policy[h, s, a] * q_r[h, s, a]
                v_c[s] += policy[h, s, a] * q_c[h, s, a]


@dataclass
class IntervalState(WholePass, HasCounts):
    """The counts of all cells, and the constants of this run."""

    k: int  # episodes seen
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    width: IntervalWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths are intervals
    beta_c: float = field(metadata={"saved": False})

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        horizon, n_states, n_actions = self.shape
        policy, q_r, q_c = np.empty((3, *self.shape))
        v_r, v_c = np.empty((2, n_states))
        fixed = (self.counts, self.n_transitions, self.width, widths.alpha, widths.lam, caps, self.among)
        interval_plan(*fixed, policy, q_r, q_c, v_r, v_c)
        flat = (horizon, n_states * n_actions)
        return policy, v_r, v_c, q_r.reshape(flat), q_c.reshape(flat)

    @property
    def among(self) -> Bools:
        """The actions among which the softmax chooses: all."""
        return ALL

    def learn(self, round: Round) -> None:
        """Count the steps of an episode."""
        self.absorb(round.episode)


def no_intervals(problem: Problem, name: str, *, pooled: bool, width: IntervalWidth, alpha: float) -> IntervalState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    rows = sizes(problem, pooled, name)
    size = 100 * rows[0] * rows[1] * rows[2]
    check_room(problem, name, size, "counts", "" if pooled else "pool the steps if the dynamics allow it")
    shape, nan = (problem.horizon, *rows[1:]), float("nan")
    return IntervalState(
        **empty_counts(problem, rows), k=0, shape=shape, width=width, alpha=alpha, beta_r=nan, beta_c=nan
    )


@dataclass(frozen=True)
class Intervals:
    """Intervals of all sets of next states, for one-hot features: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float

    @cached_property
    def width(self) -> IntervalWidth:
        """Its constants."""
        return interval_width(self.problem, self.pooled, self.p, self.problem.reward_noise)

    def begin(self, name: str, alpha: float) -> IntervalState:
        """No data yet."""
        return no_intervals(self.problem, name, pooled=self.pooled, width=self.width, alpha=alpha)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and L."""
        return {"bound": SETS, "L": self.width.log_term, "noise": self.width.noise}

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        pooled = self.pooled and self.problem.end_resets
        return {"data are pooled over the steps, and the end of an episode can call for a reset": pooled}

    def proof(self) -> Proof:
        """No linearity, and rewards no noisier than the problem says."""
        noise = self.problem.reward_noise
        return Proof(failure=self.p, largest_multiplier=self.B, noise=noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """D + B sqrt(Y H Resets), what the widths add to the primal regret; late: the largest delay of a plan."""
        found = overestimates(self.problem, self.width, self.pooled, self.p, rounds=rounds, late=late)
        root, rewards = self.B * found.costs_per_root, found.rewards
        return PrimalRegretBound(rewards, any_weights=True, per_root_reset=root, regret=rewards)

    def regret_with_model(self, mdp: FiniteMDP, rounds: int) -> float:
        """D where the model is known: see `theory.visit_sums`."""
        width, noise = self.width, None
        if width.noise > 0:
            noise = partial(_both_sides, width)
        sums = interval_distance(width)
        return most_overestimated(mdp, sums, pooled=self.pooled, rounds=rounds, noise=noise, delta=EACH_SUM * self.p)

    def falls(self, mdp: FiniteMDP, lam: Floats, alpha: Floats, planned: Floats) -> FallsBound | None:
        """How many unsafe edges are tried before they are expensive: see `theory.visit_sums`.

        alpha: [K] inverse temperatures; planned: those of all episodes that were planned, which theta is chosen for.
        """
        edges = unsafe_edges(mdp, self.pooled)
        if edges is None or self.B <= 0:
            return None
        sizes = (mdp.horizon, mdp.n_transitions, mdp.n_actions)
        scale = penalised(edges._replace(longest=0), 1.0, np.full(len(planned), self.B), planned, sizes)
        counted, theta = most_falls(edges, self.width, scale)
        return FallsBound(counted, penalised(edges, theta, lam, alpha, sizes))


def _both_sides(width: IntervalWidth, n: float) -> float:
    """How far a mean reward and its upper end can be from the truth, together."""
    return 2 * width.noise * sqrt((n + 1) * (log(n + 1) + 2 * width.noise_log)) / n
