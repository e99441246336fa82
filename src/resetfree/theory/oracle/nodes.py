"""Exact Regret and Resets on a continuum of states in any dimension: a linear problem seen at the nodes of a rule.

Legend: states [0, 1]^D; x_i, i < N, the nodes of a product of Gauss-Legendre rules on the tenths of every coordinate;
m_ij the weight of node i times the density of nu_j there, each column summing to one; w_h [d] the values of features,
w_h = omega + sum_i m_i V_{h+1}(x_i), so that taking a in x at step h has value phi(x,a).w_h.

**Why d numbers are enough.** P is linear in phi, so of everything that follows a step only d integrals matter, of
V_{h+1} against nu_j; V_r and V_c of a policy at *any* start s follow from w_1 and what the policy does in s.

**What is exact.** Features and densities are polynomials between the tenths, and Gauss's rule integrates them
exactly. Its weights are positive, so that with m in place of nu the problem is again a linear MDP with the same
features, a finite one with the states x_i and s: all that is proved of every policy (V_r - lambda_hat V_c <= V*, the
reduction, the gap to the saddle-point) holds in it to rounding, however rough a policy is between the nodes.

**What is not.** A policy that switches between actions along a surface, or V*, which has kinks, are no polynomials:
their integrals have an error that goes to zero with the spacing of the nodes. `Rule.finer` has twice as many nodes in
every coordinate; by how much values change with it is what is reported as their error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from resetfree.core import Bools, Floats, Ints, InvalidInput, expect
from resetfree.problems.continuum import Continuum, RowPolicy, as_rows

Rows: TypeAlias = Callable[[int, Floats], Floats]  # (h = 1..H, states [n, D]) -> probabilities [n, A]
PER_CELL = {1: 32, 2: 8, 3: 3}  # by D: nodes in a tenth of a coordinate
INSIDE = 1e-12  # how far inside of a cell, in cells, its ends are taken: dangers end there
LATTICE = {1: 33, 2: 9, 3: 3}  # by D: points in a tenth at which largest multipliers are looked for


@dataclass(frozen=True, eq=False)
class NodeRule:
    """Nodes, and what a problem is there."""

    mdp: Continuum
    per_cell: int  # nodes in a tenth of a coordinate
    x: Floats  # [N, D]
    volume: Floats  # [N] weights of the rule; they sum to one
    mass: Floats  # [N, d-1] m
    phi: Floats  # [N, A, d]

    @cached_property
    def finer(self) -> NodeRule:
        """Twice as many nodes in every coordinate."""
        return rule(self.mdp, 2 * self.per_cell)

    @cached_property
    def coarser(self) -> NodeRule:
        """Half as many nodes in every coordinate."""
        return rule(self.mdp, max(self.per_cell // 2, 1))

    def back(self, ahead: Floats) -> Floats:
        """[d-1] the integrals of V against nu_j, from V [N] at the nodes."""
        return np.asarray(ahead @ self.mass)


def rule(mdp: Continuum, per_cell: int | None = None) -> NodeRule:
    """The rule with so many nodes in every tenth of every coordinate (default: by the number of dimensions).

    >>> import resetfree as rf
    >>> found = rule(rf.make("continuous-linear-v0", dimension=2))
    >>> found.x.shape, found.mass.sum(axis=0).round(12).tolist()
    ((6400, 2), [1.0, 1.0, 1.0])
    """
    n = PER_CELL.get(mdp.dimension, 2) if per_cell is None else per_cell
    expect(n >= 1, "'per_cell' of a rule", "be a positive number", n)
    x, weight = np.polynomial.legendre.leggauss(n)
    points = ((np.arange(10)[:, None] + 0.5 * (1.0 + x)) / 10).ravel()
    sides = np.tile(weight / 20, 10)
    states = _grid(points, mdp.dimension)
    volume = _grid(sides, mdp.dimension).prod(axis=1)
    mass = volume[:, None] * mdp.densities(states)
    return NodeRule(mdp, n, states, volume, mass=mass / mass.sum(axis=0), phi=mdp.rows(states))


@dataclass(frozen=True, eq=False)
class NodeSolution:
    """The best reset-free policy, its value and the multipliers, as functions of the state.

    Paper: pi*, hat lambda, V_{r,1}^{pi*}.
    """

    rule: NodeRule = field(repr=False)
    weights: Floats  # [H, d] w_h

    @property
    def mdp(self) -> Continuum:
        """The problem."""
        return self.rule.mdp

    def value(self, states: Any, h: int = 1) -> Floats:
        """[n] V_h(x) = max over safe a of phi(x,a).w_h, of states [n, D]."""
        x = as_rows(states, self.mdp.dimension)
        return np.asarray(_safe(self.mdp.dangers(x), self.mdp.rows(x) @ self.weights[h - 1]).max(axis=1))

    def policy(self, h: int, states: Floats) -> Floats:
        """[n, A] the best safe action (ties: the first) with probability 1."""
        values = _safe(self.mdp.dangers(states), self.mdp.rows(states) @ self.weights[h - 1])
        return np.asarray(np.eye(self.mdp.n_actions)[values.argmax(axis=1)])

    def lambda_hat(self, states: Any) -> Floats:
        """[n] the least y >= 0 with max_pi V_r - y V_c = V*(s): see `quadrature.ContinuousSolution.lambda_hat`."""
        x = as_rows(states, self.mdp.dimension)
        return np.maximum(self._ratios(x, self.mdp.rows(x), 1), self.later_ratio)

    @cached_property
    def later_ratio(self) -> float:
        """The largest ratio at steps 2..H, at nodes and in a lattice up to the ends of dangers; at least 0."""
        steps = range(2, self.mdp.horizon + 1)
        return max((float(self._ratios(x, phi, h).max()) for h in steps for x, phi in self._points), default=0.0)

    @cached_property
    def largest_multiplier(self) -> float:
        """The largest lambda_hat of all states."""
        return max(self.later_ratio, *(float(self._ratios(x, phi, 1).max()) for x, phi in self._points))

    @cached_property
    def _points(self) -> list[tuple[Floats, Floats]]:
        mdp = self.mdp
        inside = np.linspace(INSIDE, 1.0 - INSIDE, LATTICE.get(mdp.dimension, 2))
        lattice = _grid(((np.arange(10)[:, None] + inside) / 10).ravel(), mdp.dimension)
        return [(self.rule.x, self.rule.phi), (lattice, mdp.rows(lattice))]

    def _ratios(self, x: Floats, phi: Floats, h: int) -> Floats:
        """[n] the largest (phi(x,a).w_h - V_h(x)) / phi_d(x,a) over dangerous actions; 0 where there is none."""
        unsafe, values = self.mdp.dangers(x), phi @ self.weights[h - 1]
        gain = values - _safe(unsafe, values).max(axis=1, keepdims=True)
        ratio = np.divide(gain, phi[..., -1], out=np.zeros_like(gain), where=unsafe)
        return np.asarray(np.maximum(ratio.max(axis=1), 0.0))

    def at(self, starts: Any) -> AtStarts:
        """The answer at starts [n] of episodes, numbered in their order."""
        x = as_rows(starts, self.mdp.dimension)
        coarse = solve(self.mdp, self.rule.coarser)
        value, n = self.value(x), len(x)
        error = float(np.abs(value - coarse.value(x)).max(initial=0.0))
        return AtStarts(
            self, np.ones(n, dtype=np.bool_), value, np.zeros(n), lambda_hat=self.lambda_hat(x), error=error
        )


@dataclass(frozen=True, eq=False)
class AtStarts:
    """The oracle's answer at finitely many starts of a continuum, by number: what the claims read of a solution."""

    whole: NodeSolution = field(repr=False)
    feasible: Bools  # [n] action 0 never falls: all of them
    value: Floats  # [n] V*
    cost: Floats  # [n] zeros: the least reset probability
    lambda_hat: Floats  # [n]
    error: float  # by how much V* changes with half of the nodes in every coordinate

    @property
    def mdp(self) -> Continuum:
        """The problem."""
        return self.whole.mdp

    @property
    def starts(self) -> Ints:
        """All of them."""
        return np.arange(len(self.value))

    @property
    def lambda_star(self) -> Floats:
        """[n] lambda_hat + 1."""
        return np.asarray(self.lambda_hat + 1.0)

    def value_of(self, states: Any) -> Floats:
        """[n] V* of any states."""
        return self.whole.value(states)


def solve(mdp: Continuum, at: NodeRule | None = None) -> NodeSolution:
    """Backward induction on d weights; at: the rule (default: `rule(mdp)`).

    >>> import resetfree as rf
    >>> sol = solve(rf.make("continuous-linear-v0", dimension=2))
    >>> sol.value([[0.2, 0.2], [0.8, 0.8]]).round(4).tolist()
    [1.0554, 2.2978]
    """
    here = rule(mdp) if at is None else at
    unsafe, weights = mdp.dangers(here.x), np.tile(mdp.omega, (mdp.horizon, 1))
    for h in reversed(range(1, mdp.horizon)):
        weights[h - 1, :-1] += here.back(_safe(unsafe, here.phi @ weights[h]).max(axis=1))
    return NodeSolution(here, weights)


@dataclass(frozen=True, eq=False)
class NodeValues:
    """The values of a policy from any start.

    Paper: value functions V_{r,1}^pi and V_{c,1}^pi.
    """

    mdp: Continuum = field(repr=False)
    chosen: Rows = field(repr=False)
    reward_weights: Floats  # [H, d]
    cost_weights: Floats  # [H, d]

    def __call__(self, states: Any) -> tuple[Floats, Floats]:
        """V_r and V_c [n] at starts [n, D]."""
        x = as_rows(states, self.mdp.dimension)
        pi, phi = self.chosen(1, x), self.mdp.rows(x)
        both = (self.reward_weights[0], self.cost_weights[0])
        v_r, v_c = ((pi * (phi @ w)).sum(axis=1) for w in both)
        return v_r, v_c


def evaluate(mdp: Continuum, policy: Rows, at: NodeRule | None = None) -> NodeValues:
    """V_r and V_c of a policy; raises InvalidInput if its rows are no distributions."""
    here = rule(mdp) if at is None else at
    reward_weights = np.tile(mdp.omega, (mdp.horizon, 1))
    cost_weights = np.tile(np.eye(mdp.d)[-1], (mdp.horizon, 1))
    for h in reversed(range(1, mdp.horizon)):
        pi = np.asarray(policy(h + 1, here.x), dtype=np.float64)
        if pi.shape != here.phi.shape[:2] or (pi < 0).any() or (np.abs(pi.sum(axis=1) - 1) > 1e-9).any():
            raise InvalidInput(
                f"A policy must give {len(here.x)} states a distribution over {mdp.n_actions} actions each. "
                f"Got shape {pi.shape} at step {h + 1}, or a row that is no distribution, instead."
            )
        for weights in (reward_weights, cost_weights):
            weights[h - 1, :-1] += here.back((pi * (here.phi @ weights[h])).sum(axis=1))
    return NodeValues(mdp, policy, reward_weights, cost_weights)


class NodeEvaluator:
    """V_r and V_c of the policies of a run at their starts; a policy that is kept is integrated once.

    None for a policy that does not answer for many states at once (`continuum.RowPolicy`).
    """

    def __init__(self, mdp: Continuum) -> None:
        self._rule = rule(mdp)
        self._last: tuple[Any, NodeValues] | None = None

    def __call__(self, policy: Any, s1: Any) -> tuple[float, float] | None:
        """(V_r, V_c) of `policy` at `s1`."""
        if not isinstance(policy, RowPolicy):
            return None
        if self._last is None or self._last[0] is not policy:
            self._last = policy, evaluate(self._rule.mdp, policy.rows, self._rule)
        v_r, v_c = self._last[1]([s1])
        return float(v_r[0]), float(v_c[0])


def _safe(unsafe: Bools, values: Floats) -> Floats:
    return np.where(unsafe, -np.inf, values)


def _grid(points: Floats, dimension: int) -> Floats:
    """[n^D, D] all points whose coordinates are among `points` [n]."""
    mesh = np.meshgrid(*[points] * dimension, indexing="ij")
    return np.stack([axis.ravel() for axis in mesh], axis=-1)
