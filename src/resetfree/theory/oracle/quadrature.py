"""Exact answers of a problem with continuous states: piecewise polynomials, integrated by Gauss-Legendre.

Legend: w_h(j) = omega_j + integral of V_{h+1} d nu_j, so that taking a in s at step h has value phi(s,a).w_h; pieces
the intervals between breakpoints (ends of the I_a, switches between safe actions), on each of which one action is best
and V_h is a quadratic; h = 1..H.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Floats, InvalidInput
from resetfree.problems.zoo.continuous_linear import ContinuousLinearMDP, ContinuousPolicy, bernstein


@dataclass(frozen=True, eq=False)
class Pieces:
    """Where which safe action is best at one step."""

    ends: Floats  # [n + 1], from 0 to 1
    actions: NDArray[np.int64]  # [n]


@dataclass(frozen=True, eq=False)
class ContinuousSolution:
    """The best reset-free policy, its value and the multipliers, as functions of the state.

    Paper: pi*, hat lambda, V_{r,1}^{pi*}.
    """

    mdp: ContinuousLinearMDP = field(repr=False)
    weights: Floats  # [H, d] w_h
    pieces: tuple[Pieces, ...] = field(repr=False)  # one per step

    def value(self, s: ArrayLike, h: int = 1) -> Floats:
        """[...] V_h(s) = max over safe a of phi(s,a).w_h."""
        return np.asarray(self._safe_values(h, s).max(axis=-1))

    def action(self, h: int, s: ArrayLike) -> NDArray[np.int64]:
        """[...] the best safe action (ties: the first)."""
        return np.asarray(self._safe_values(h, s).argmax(axis=-1))

    def policy(self, h: int, s: ArrayLike) -> Floats:
        """[..., A] the same as probabilities: what rollouts and `evaluate` take."""
        return np.asarray(np.eye(self.mdp.n_actions)[self.action(h, s)])

    @property
    def breakpoints(self) -> Floats:
        """Every end of a piece at any step: between them, `policy` is constant."""
        return np.unique(np.concatenate([step.ends for step in self.pieces]))

    def lambda_hat(self, s: ArrayLike) -> Floats:
        """[...] the least y >= 0 with max_pi V_r - y V_c = V*(s).

        For a safe action let gain = phi(s,a).w_h - V_h(s) <= 0; for an unsafe one, ratio = gain / phi_d(s,a).
        lambda_hat(s) = max(0, ratios in s at step 1, supremum of the ratios at steps 2..H).

        Proof. V_h is defined in every state that is not a reset state. So V_r^pi(s) - V*(s) is the sum over steps of
        E_pi[gain_h(s_h, a_h)], and V_c^pi(s) the sum of E_pi[phi_d(s_h, a_h)]: a quotient of sums is at most the
        largest quotient of terms. Conversely deviate once, at s in step 1, or at step h near x and nowhere else: the
        quotient is the ratio there, because an agent that survives it continues with V_{h+1}. States near x are
        reached, as every nu_j has a positive density.
        """
        values = self.mdp.phi(s) @ self.weights[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (values - self.value(s)[..., None]) / self.mdp.risk
        first = np.where(self.mdp.unsafe(s), ratio, 0.0).max(axis=-1)
        return np.asarray(np.maximum(first, self.later_ratio))

    @cached_property
    def later_ratio(self) -> float:
        """The supremum of the ratios at steps 2..H, at least 0: what every start pays."""
        return max((self._largest_ratio(h) for h in range(2, self.mdp.horizon + 1)), default=0.0)

    @cached_property
    def largest_multiplier(self) -> float:
        """The supremum of lambda_hat over all states."""
        return max(self.later_ratio, self._largest_ratio(1))

    def _safe_values(self, h: int, s: ArrayLike) -> Floats:
        if not 1 <= h <= self.mdp.horizon:
            raise InvalidInput(f"A step must lie in 1..{self.mdp.horizon}. Got {h} instead.")
        return np.where(self.mdp.unsafe(s), -np.inf, self.mdp.phi(s) @ self.weights[h - 1])

    def _largest_ratio(self, h: int) -> float:
        """Supremum over x of one step's ratios, at least 0; a single state at an end has no mass and does not count.

        On a piece the ratio of an unsafe action is a quadratic: its largest value on the closed piece is the
        supremum on the open one.
        """
        mdp, w = self.mdp, self.weights[h - 1]
        safe = mdp.control @ w[:-1]  # [A, 3] Bernstein coefficients of phi(.,a).w outside I_a
        best, pieces = 0.0, self.pieces[h - 1]
        for low, high, b in zip(pieces.ends[:-1], pieces.ends[1:], pieces.actions, strict=True):
            for a in np.flatnonzero(mdp.unsafe(0.5 * (low + high))):
                q = mdp.risk[a]
                ratio = ((1.0 - q) * safe[a] + q * w[-1] - safe[b]) / q
                best = max(best, _largest(ratio, low, high))
        return best


def solve(mdp: ContinuousLinearMDP) -> ContinuousSolution:
    """Backward induction: w_H = omega, V_h = max over safe a of phi.w_h, w_{h-1}(j) = omega_j + integral of V_h d nu_j.

    All integrands are polynomials between breakpoints, and the nodes are as many as make Gauss-Legendre exact.

    >>> import resetfree as rf
    >>> sol = solve(rf.make("continuous-linear-v0"))
    >>> sol.value([0.2, 0.8]).round(6).tolist(), sol.lambda_hat([0.2, 0.8]).round(6).tolist()
    ([0.992409, 2.964943], [15.45205, 14.299578])
    """
    degree = 2 + int((mdp.shape.sum(axis=1) - 2).max())
    weights = np.tile(mdp.omega, (mdp.horizon, 1))
    pieces: list[Pieces] = []
    for h in reversed(range(mdp.horizon)):
        step = _best_pieces(mdp, weights[h])
        pieces.insert(0, step)
        if h > 0:
            x, mass = _nodes(step.ends, degree // 2 + 1)
            action = step.actions[np.searchsorted(step.ends, x) - 1]
            value = (bernstein(x) * (mdp.control @ weights[h, :-1])[action]).sum(axis=1)
            weights[h - 1, :-1] += (mass * value) @ mdp.density(x)
    return ContinuousSolution(mdp, weights, tuple(pieces))


@dataclass(frozen=True, eq=False)
class PolicyValues:
    """The values of a policy, as functions of the start.

    Paper: value functions V_{r,1}^pi and V_{c,1}^pi.
    """

    mdp: ContinuousLinearMDP = field(repr=False)
    chosen: ContinuousPolicy = field(repr=False)
    reward_weights: Floats  # [H, d] taking a in s at step h has value phi(s,a).reward_weights[h-1]
    cost_weights: Floats  # [H, d] and is reset with probability phi(s,a).cost_weights[h-1]

    def v_r(self, s: ArrayLike) -> Floats:
        """[...] expected reward of an episode from s."""
        return self._mean(s, self.reward_weights[0])

    def v_c(self, s: ArrayLike) -> Floats:
        """[...] probability of a reset in it."""
        return self._mean(s, self.cost_weights[0])

    def _mean(self, s: ArrayLike, w: Floats) -> Floats:
        x = np.asarray(s, dtype=np.float64)
        return np.asarray((self.chosen(1, x) * (self.mdp.phi(x) @ w)).sum(axis=-1))


def evaluate(
    mdp: ContinuousLinearMDP, policy: ContinuousPolicy, breakpoints: Iterable[float] = (), nodes: int = 32
) -> PolicyValues:
    """V_r and V_c of a policy that is smooth between its breakpoints.

    policy: a function (h, states [n]) -> probabilities [n, A]. breakpoints: where it is not smooth, at any step; the
    ends of the I_a need not be among them. nodes: per piece; exact for a policy that is a polynomial of degree
    2 * nodes - 3 - max(a_j + b_j - 2) or less there, and converging exponentially for one that is analytic.

    Raises InvalidInput for a breakpoint outside [0, 1] or a policy whose rows are no distributions.
    """
    given = np.array(list(breakpoints), dtype=np.float64)
    if not ((given >= 0) & (given <= 1)).all():
        raise InvalidInput(f"The 'breakpoints' of evaluate must lie in [0, 1]. Got {given.tolist()} instead.")
    x, mass = _nodes(np.unique(np.concatenate([[0.0, 1.0], mdp.danger.ravel(), given])), nodes)
    phi, to_feature = mdp.phi(x), mass[:, None] * mdp.density(x)
    reward_weights = np.tile(mdp.omega, (mdp.horizon, 1))
    cost_weights = np.tile(np.eye(mdp.d)[-1], (mdp.horizon, 1))
    for h in reversed(range(1, mdp.horizon)):
        rows = np.asarray(policy(h + 1, x), dtype=np.float64)
        if rows.shape != (len(x), mdp.n_actions) or (rows < 0).any() or (np.abs(rows.sum(axis=1) - 1) > 1e-9).any():
            raise InvalidInput(
                f"A policy must give {len(x)} states a distribution over {mdp.n_actions} actions each. "
                f"Got shape {rows.shape} at step {h + 1}, or a row that is no distribution, instead."
            )
        reward_weights[h - 1, :-1] += (rows * (phi @ reward_weights[h])).sum(axis=1) @ to_feature
        cost_weights[h - 1, :-1] += (rows * (phi @ cost_weights[h])).sum(axis=1) @ to_feature
    return PolicyValues(mdp, policy, reward_weights, cost_weights)


def _best_pieces(mdp: ContinuousLinearMDP, w: Floats) -> Pieces:
    """The upper envelope of the safe actions' quadratics phi(.,a).w."""
    values = mdp.control @ w[:-1]  # [A, 3]
    fixed = np.unique(np.concatenate([[0.0, 1.0], mdp.danger.ravel()]))
    ends, actions = [0.0], []
    for low, high in pairwise(fixed.tolist()):
        safe = np.flatnonzero(~mdp.unsafe(0.5 * (low + high)))
        cuts = {low, high}
        for i, a in enumerate(safe):
            for b in safe[:i]:
                cuts.update(x for x in _roots(values[a] - values[b]) if low < x < high)
        points = sorted(cuts)
        for left, right in pairwise(points):
            here = values[safe] @ bernstein(0.5 * (left + right))
            ends.append(right)
            actions.append(int(safe[np.argmax(here)]))
    return Pieces(np.array(ends), np.array(actions, dtype=np.int64))


def _power(coefficients: Floats) -> tuple[float, float, float]:
    """c_0 + c_1 x + c_2 x^2 from Bernstein coefficients [3]."""
    b_0, b_1, b_2 = (float(b) for b in coefficients)
    return b_0, 2.0 * (b_1 - b_0), b_0 - 2.0 * b_1 + b_2


def _roots(coefficients: Floats) -> list[float]:
    """Real roots of a quadratic in Bernstein form, without cancellation; none if it is constant."""
    c_0, c_1, c_2 = _power(coefficients)
    square = c_1 * c_1 - 4.0 * c_2 * c_0
    if square < 0:
        return []
    big = -0.5 * (c_1 + np.copysign(np.sqrt(square), c_1))
    return [float(top / bottom) for top, bottom in ((big, c_2), (c_0, big)) if abs(bottom) > abs(top) * 1e-300]


def _largest(coefficients: Floats, low: float, high: float) -> float:
    """The largest value on [low, high] of a quadratic in Bernstein form."""
    _, c_1, c_2 = _power(coefficients)
    points = [low, high]
    if c_2 < 0 and low < -0.5 * c_1 / c_2 < high:
        points.append(-0.5 * c_1 / c_2)
    return float((bernstein(points) @ coefficients).max())


def _nodes(ends: Floats, n: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre points and weights on every piece, n each."""
    x, weight = np.polynomial.legendre.leggauss(n)
    half = 0.5 * np.diff(ends)[:, None]
    return (ends[:-1, None] + half * (1.0 + x)).ravel(), (half * weight).ravel()
