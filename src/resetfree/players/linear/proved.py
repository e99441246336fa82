"""The widths "proved" of Algorithm 1's primal player: which bound applies to a problem, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats, Ints
from resetfree.core.compiled import jit
from resetfree.game.capabilities import PrimalRegretBound, Proof
from resetfree.game.contract import Round
from resetfree.players.linear.regression import Regressed, Samples, add, dimension_of, longer_than_one, no_samples
from resetfree.players.linear.ridge import softmax_plan
from resetfree.players.requirements import check_room, pooled_lacks, sizes
from resetfree.players.tabular.counts import Counts, HasCounts, empty_counts
from resetfree.players.tabular.lazy_passes import Widths
from resetfree.problems.contract import Problem, State
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.cover_widths import COVER, CoverWidth, cover_betas, cover_width, most_growth
from resetfree.theory.delay import doubled_rounds
from resetfree.theory.proved_widths import (
    CONCENTRATION,
    CORNERS,
    SETS,
    DeterminantWidth,
    IntervalWidth,
    determinant_betas,
    determinant_width,
    interval_width,
    kl_lower,
    kl_upper,
    noise_radius,
    overestimates,
    radius,
)

# The pass of Algorithm 1 on counts, with the intervals of `theory.proved_widths` in place of beta times a width.
#
# Legend: as there; t a next state, `dead` the states whose entering is known to be a reset, W the room of a row.

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
    policy: Floats,  # [H, S, A] out
    q_r: Floats,  # [H, S, A] out
    q_c: Floats,  # [H, S, A] out
    v_r: Floats,  # [S] out, at step 1
    v_c: Floats,  # [S] out
) -> None:
    """Q_r and Q_c from intervals of all sets of next states, softmax of alpha (Q_r - lam Q_c), values under it."""
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
        for s in range(n_states):
            best, total = -np.inf, 0.0
            for a in range(n_actions):
                best = max(best, q_r[h, s, a] - lam * q_c[h, s, a])
            for a in range(n_actions):
                exponent = alpha * (q_r[h, s, a] - lam * q_c[h, s, a] - best)  # <= 0: never overflows
                policy[h, s, a] = np.exp(exponent) if exponent > UNDERFLOW else 0.0
                total += policy[h, s, a]
            v_r[s], v_c[s] = 0.0, 0.0
            for a in range(n_actions):
                policy[h, s, a] /= total
                v_r[s] += policy[h, s, a] * q_r[h, s, a]
                v_c[s] += policy[h, s, a] * q_c[h, s, a]


# What Algorithm 1 keeps where its widths are intervals of all sets of next states: counts (see `proved_widths`).


@dataclass
class IntervalState(HasCounts):
    """The counts of all cells, and the constants of this run."""

    k: int  # episodes seen
    shape: tuple[int, int, int] = field(metadata={"saved": False})  # H, S, A
    width: IntervalWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths are intervals
    beta_c: float = field(metadata={"saved": False})

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[Floats, float, float]:
        """The policy [H, S, A], and its estimated V_r and V_c at s1."""
        policy, v_r, v_c, _, _ = self.backward(widths, caps)
        return policy, float(v_r[s1]), float(v_c[s1])

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        horizon, n_states, n_actions = self.shape
        policy, q_r, q_c = np.empty((3, *self.shape))
        v_r, v_c = np.empty((2, n_states))
        interval_plan(
            self.counts, self.n_transitions, self.width, widths.alpha, widths.lam, caps, policy, q_r, q_c, v_r, v_c
        )
        flat = (horizon, n_states * n_actions)
        return policy, v_r, v_c, q_r.reshape(flat), q_c.reshape(flat)

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


# What Algorithm 1 keeps where its widths grow with the determinants of its data (see `proved_widths`).

NO_OLD = np.empty((0, 0, 0))


def whole_pass(
    data: Regressed, betas: Floats, misfit: Floats, widths: Widths, caps: Floats, old: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The pass of Algorithm 1: policy [H, S, A], V_r and V_c [S] at step 1, Q's [H, S*A].

    betas: [2, H] times the width of a pair, for rewards and costs.  misfit: [2, H] what is added besides.
    """
    horizon, n_states, n_actions = data.shape
    policy = np.empty(data.shape)
    q_r, q_c = np.empty((horizon, n_states * n_actions)), np.empty((horizon, n_states * n_actions))
    v_r, v_c = np.empty(n_states), np.empty(n_states)
    made = (policy, q_r, q_c, v_r, v_c)
    (beta_r, beta_c), (z_r, z_c), x = betas, misfit, widths
    bonus = (beta_r, beta_c, z_r, z_c)
    softmax_plan(*data.fitted, *bonus, x.alpha, x.lam, data.known, data.known_last, caps, old, *made)
    return policy, v_r, v_c, q_r, q_c


@dataclass
class DeterminantState:
    """The regression with its determinants, and the constants of this run."""

    k: int  # episodes seen
    data: Samples
    width: DeterminantWidth = field(metadata={"saved": False})
    alpha: float = field(metadata={"saved": False})
    beta_r: float = field(metadata={"saved": False})  # not used: widths grow with the data
    beta_c: float = field(metadata={"saved": False})

    @property
    def shape(self) -> tuple[int, int, int]:
        """H, S, A."""
        return self.data.shape

    def plan(self, s1: State, widths: Widths, caps: Floats) -> tuple[Floats, float, float]:
        """The policy [H, S, A], and its estimated V_r and V_c at s1."""
        policy, v_r, v_c, _, _ = self.backward(widths, caps)
        return policy, float(v_r[s1]), float(v_c[s1])

    def backward(self, widths: Widths, caps: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """See `LinearUCB.backward`."""
        layers, width = len(self.data.log_det), self.width
        samples = self.k * self.shape[0] // layers  # of each regression, at most
        betas = determinant_betas(width, self.data.log_det[self.data.layer_of_step], samples)
        return whole_pass(self.data, betas, np.stack([width.z_r, width.z_c]), widths, caps, NO_OLD)

    def learn(self, round: Round) -> None:
        """Add the steps of an episode to the regression."""
        add(self.data, round.episode)


def no_determinants(
    problem: Problem, name: str, *, pooled: bool, reg: float, width: DeterminantWidth, alpha: float
) -> DeterminantState:
    """No data yet; refuses what is not finite, pooling over steps that differ, and what does not fit in memory."""
    nan = float("nan")
    return DeterminantState(0, no_samples(problem, name, pooled=pooled, reg=reg), width, alpha, beta_r=nan, beta_c=nan)


# --------------------------------------------------------------------------------------------------------------------


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
        return PrimalRegretBound(found.rewards, any_weights=True, per_root_reset=self.B * found.costs_per_root)


@dataclass(frozen=True)
class Covers:
    """Self-normalised widths with a cover of the values, on a continuum of states: see `theory.cover_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    alpha: float
    rare: bool  # whether plans are kept until a determinant has doubled

    @cached_property
    def width(self) -> CoverWidth:
        """Its constants."""
        return cover_width(self.problem, dimension_of(self.problem), self.p, self.B, self.alpha, reg=self.reg)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = self.largest(0.0).max(axis=1).tolist()
        return {"bound": COVER, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}

    def largest(self, samples: float) -> Floats:
        """[2, H] the largest widths after so many samples of a regression."""
        H = self.problem.horizon
        return cover_betas(self.width, np.full(H, most_growth(self.width, samples)), np.full(H, samples))

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        return {"a feature is longer than 1": longer_than_one(self.problem)}

    def proof(self) -> Proof:
        """Linearity, multipliers up to B, and rewards no noisier than the problem says."""
        noise = self.problem.reward_noise
        return Proof(failure=self.p, largest_multiplier=self.B, linear=True, noise=noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret, as in `Determinants.regret`; sqrt(2) times that for kept plans."""
        H, B, d = self.problem.horizon, self.B, dimension_of(self.problem)
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = self.largest(float(samples))
        weights = 2 * (beta_r + B * beta_c) * (sqrt(2.0) if self.rare else 1.0)
        most, chance = H * (H + 1) / 2 + B * H, (1 - CONCENTRATION) * self.p
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": self.reg, "d": d}
        return summed_widths(weights, samples, regressions, largest=most, rounds=rounds, chance=chance, **once)


def summed_widths(
    weights: Floats,  # [H] of the width of each step
    samples: int,  # of a regression
    regressions: int,
    *,
    missed: int,  # rounds that plans may not know
    reg: float,
    d: int,
    largest: float,  # of what a round can add
    rounds: int,
    chance: float,
    misfit: float = 0.0,  # what is added to it
) -> PrimalRegretBound:
    """The expected sum of weights times |phi| in the norm of Lam^-1: see `Determinants.regret`."""
    growth = d * log(1 + samples / (d * reg))
    factor = 2.0 if reg >= 1 else 1 / (reg * log(1 + 1 / reg))
    widths = float(weights.max() if regressions == 1 else weights.sum()) * sqrt(samples * factor * growth)
    if missed:
        widths = sqrt(2.0) * widths + largest * doubled_rounds(missed, regressions * growth)
    most = largest * float(resets_upper(widths / largest, chance)) + misfit
    return PrimalRegretBound(min(most, largest * rounds), any_weights=True)


@dataclass(frozen=True)
class Determinants:
    """Self-normalised widths with the determinants of the data, for features of pairs: see `theory.proved_widths`."""

    problem: Problem
    pooled: bool
    p: float
    B: float
    reg: float
    misfit: tuple[float, float] = (0.0, 0.0)  # how far P and r may be from linear

    @cached_property
    def width(self) -> DeterminantWidth:
        """Its constants."""
        problem, d = self.problem, dimension_of(self.problem)
        return determinant_width(
            problem, d, self.pooled, self.p, problem.reward_noise, reg=self.reg, misfit=self.misfit
        )

    def begin(self, name: str, alpha: float) -> DeterminantState:
        """No data yet."""
        return no_determinants(self.problem, name, pooled=self.pooled, reg=self.reg, width=self.width, alpha=alpha)

    def constants(self) -> dict[str, Any]:
        """For the player's statement: which bound is used, and the widths without data, which grow with them."""
        beta_r, beta_c = determinant_betas(self.width, np.zeros(self.problem.horizon)).max(axis=1).tolist()
        found = {"bound": CORNERS, "beta_r": beta_r, "beta_c": beta_c, "reg": self.reg, "d": dimension_of(self.problem)}
        return found | ({"misfit": list(self.misfit)} if any(self.misfit) else {})

    def lacks(self) -> dict[str, bool]:
        """What a theorem would need, and whether it is missing."""
        long = {"a feature is longer than 1": longer_than_one(self.problem)}
        return pooled_lacks(self.problem, self.pooled) | long

    def proof(self) -> Proof:
        """Linearity up to the misfit, and rewards no noisier than the problem says."""
        needs = Proof(failure=self.p, largest_multiplier=self.B, linear=True, misfit=self.misfit)
        return needs._replace(noise=self.problem.reward_noise, values_are_bounds=True)

    def regret(self, rounds: int, late: int) -> PrimalRegretBound:
        """What the widths add to the primal regret: 2 (beta_r + B beta_c) times the sum of |phi|, over the steps.

        |phi|^2 in the norm of Lam^-1 add up to at most factor d log(1 + n / (d reg)) over n samples of a regression,
        factor such that x <= factor log(1 + x) up to 1/reg. Plans do not know the latest `late` rounds, and if data are
        pooled the steps of their own: sqrt(2) times the widths, and H + B for the rounds of `doubled_rounds`. What is
        expected exceeds what was realised by no more than `anytime.resets_upper` says. Where the problem is only nearly
        linear, z sqrt(n) is in the betas, and 2 (z_r + B z_c) is added in every step of every round.
        """
        H, B, d, reg = self.problem.horizon, self.B, dimension_of(self.problem), self.reg
        samples, regressions = (H * rounds, 1) if self.pooled else (rounds, H)
        beta_r, beta_c = determinant_betas(self.width, np.full(H, d * log(1 + samples / (d * reg))), samples)
        weights, most, chance = 2 * (beta_r + B * beta_c), H * (H + 1) / 2 + B * H, (1 - CONCENTRATION) * self.p
        once: dict[str, Any] = {"missed": late + self.pooled, "reg": reg, "d": d, "largest": most, "rounds": rounds}
        misfit = 2 * rounds * float((self.width.z_r + B * self.width.z_c).sum())
        return summed_widths(weights, samples, regressions, chance=chance, misfit=misfit, **once)
