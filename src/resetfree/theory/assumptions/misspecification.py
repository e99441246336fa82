"""How far a finite problem is from being linear, and its multipliers from a class of functions: measured, not assumed.

Legend: N pairs (s, a) outside the reset set with features phi [N, d]; eps_P the largest sum over s' of |P - <phi, mu>|,
eps_r the largest |r - <phi, omega>|; I the starts that some behaviour can bring about; lambda_hat the least optimal
multipliers; lambda_c(s) = <xi(s), theta> a function of the dual player's class, eps the largest lambda_hat + 1 -
lambda_c on I (0 if none is positive); R_p, R_d the players' regrets; k data, Lam = reg + sum of phi phi'.

**Multipliers.** For any policies, multipliers and starts in I:  (1 - eps) Resets <= R_p(pi*) + R_d(lambda_c).
  Proof. R_p(pi*) + R_d(lambda_c) = Regret + sum of lambda_c V_c, and Regret >= - sum of lambda_hat V_c by the
  saddle-point: so it is at least the sum of (lambda_c - lambda_hat) V_c >= (1 - eps) Resets.  []
So a class without lambda*, or a B that is a little too small, costs the factor 1 / (1 - eps) in Resets, eps K at most
beyond (R_p + R_d(lambda_c)), and nothing in Regret, whose comparator 0 is in every class. At eps >= 1 nothing is left:
lambda_c may be below lambda_hat, where being reset can pay.

**Dynamics and rewards.** Regress on targets V(s') or r + V(s') with V in an interval of length R: R = H for rewards, 1
for costs. The mean of a datum differs from a linear function of phi by at most z = eps_r + R eps_P (costs: z = eps_P).
That bias b_i adds to the error of the fit at any phi at most z sqrt(k) |phi|_{Lam^-1}, and z at the point itself.
  Proof. |phi' Lam^-1 sum phi_i b_i| <= z sum |phi' Lam^-1 phi_i| <= z sqrt(k) (sum (phi' Lam^-1 phi_i)^2)^(1/2) <=
  z sqrt(k) |phi|_{Lam^-1}, since sum phi_i phi_i' <= Lam.  []
So with widths beta + z sqrt(K) (beta solved with these in its cover) and z more at each point both directions of every
Bellman inequality hold as before, and the primal part of the rate grows by
  2 H (z_r + B z_c) K (1 + sqrt(2 d ln(1 + K/d))),
twice the additions along each episode: a term of order eps K sqrt(d), which no K makes small. A player may
widen itself so (`theory.proved_widths`, nearly linear): it says for which eps (`Proof.misfit`), and `certify` measures
both and calls proved what rests on them where they suffice. The ridge's part of the widths needs |mu|, |omega| <=
sqrt(d), so eps is measured to functions of that size (`nearest_linear`). Where a player does not widen itself and
eps > 0, `certify` calls tuned what rests on linearity.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.arrays import Floats
from resetfree.core.certificate import Certificate
from resetfree.core.errors import NotCertifiable
from resetfree.problems.finite.mdp import FiniteMDP, check_model
from resetfree.problems.finite.safety import reachable_starts
from resetfree.theory.assumptions.linearity import known_features
from resetfree.theory.oracle.dynamic_programming import solve


class Misspecification(NamedTuple):
    """Distances to the nearest linear problem that was found: upper bounds on the least ones."""

    transition: float  # eps_P, by least squares
    reward: float  # eps_r, by a linear program: the least there is


def misspecification(mdp: FiniteMDP, phi: ArrayLike | None = None) -> Misspecification:
    """eps_P and eps_r of a problem for features phi [S, A, d] (default: its own, else one-hot, with which both are 0).

    >>> import resetfree as rf
    >>> near, far = (misspecification(rf.make("random-linear-v0", epsilon=eps)) for eps in (0.0, 0.1))
    >>> near.transition < 1e-9, near.reward < 1e-9, 0.05 < far.transition <= 0.2, 0.01 < far.reward <= 0.1
    (True, True, True, True)
    """
    check_model(mdp, "A distance to linear problems")
    chosen = mdp.phi if phi is None else phi
    if chosen is None:
        return Misspecification(0.0, 0.0)
    features = known_features(chosen, "phi", (mdp.n_states, mdp.n_actions))
    rows = features[~mdp.reset].reshape(-1, features.shape[2])
    pairs, t = np.flatnonzero(np.repeat(~mdp.reset, mdp.n_actions)), mdp.transition
    moved = 0.0
    for layer in range(min(t.n_layers, mdp.n_transitions)):
        matrix = t.matrix(layer)[pairs].toarray()
        fit = np.linalg.lstsq(rows, matrix, rcond=None)[0]
        moved = max(moved, float(np.abs(matrix - rows @ fit).sum(axis=1).max()))
    rewards = mdp.reward.reshape(len(mdp.reward), -1)[:, pairs]
    return Misspecification(moved, max(_least_largest(rows, reward) for reward in rewards))


def nearest_linear(mdp: FiniteMDP) -> Misspecification:
    """eps_P and eps_r to a linear problem with the norms of the assumption, |mu| (total variation), |omega| <= sqrt(d).

    The best fits, shortened to sqrt(d) where they are longer.

    >>> import resetfree as rf
    >>> [round(x, 3) for x in nearest_linear(rf.make("random-linear-v0", epsilon=0.1))]
    [0.156, 0.047]
    """
    check_model(mdp, "A distance to linear problems")
    if mdp.phi is None:
        return Misspecification(0.0, 0.0)
    features = known_features(mdp.phi, "phi", (mdp.n_states, mdp.n_actions))
    rows = features[~mdp.reset].reshape(-1, features.shape[2])
    pairs, t, limit = np.flatnonzero(np.repeat(~mdp.reset, mdp.n_actions)), mdp.transition, sqrt(rows.shape[1])
    moved = paid = 0.0
    for layer in range(min(t.n_layers, mdp.n_transitions)):
        matrix = t.matrix(layer)[pairs].toarray()
        mu = np.linalg.lstsq(rows, matrix, rcond=None)[0]
        mu *= min(1.0, limit / max(float(np.linalg.norm(np.abs(mu).sum(axis=1))), limit))
        moved = max(moved, float(np.abs(matrix - rows @ mu).sum(axis=1).max()))
    for reward in mdp.reward.reshape(len(mdp.reward), -1)[:, pairs]:
        omega = _best_fit(rows, reward)
        omega *= min(1.0, limit / max(float(np.linalg.norm(omega)), limit))
        paid = max(paid, float(np.abs(reward - rows @ omega).max()))
    return Misspecification(moved, paid)


def _least_largest(rows: Floats, target: Floats) -> float:
    """The least max |target - rows w| over w."""
    return float(np.abs(target - rows @ _best_fit(rows, target)).max())


def _best_fit(rows: Floats, target: Floats) -> Floats:
    """The w with the least max |target - rows w|: a linear program in w and the maximum."""
    from scipy.optimize import linprog  # slow to import, and seldom needed

    ones = np.ones((len(rows), 1))
    above = np.vstack([np.hstack([rows, -ones]), np.hstack([-rows, -ones])])
    limits = [(None, None)] * rows.shape[1] + [(0, None)]
    cost = np.eye(1, rows.shape[1] + 1, rows.shape[1])[0]
    found = linprog(cost, A_ub=above, b_ub=np.concatenate([target, -target]), bounds=limits, method="highs")
    return np.asarray(found.x[:-1])


def nearest_multipliers(mdp: FiniteMDP, xi: Floats, cap: float) -> tuple[Floats, Floats]:
    """The theta [d'] with |theta_i| <= cap of the least eps, and lambda_hat + 1 [S], nan where no episode starts.

    >>> import resetfree as rf
    >>> theta, wanted = nearest_multipliers(rf.make("grid-v0"), np.ones((12, 1)), 38.0)
    >>> round(float(theta[0]), 6), round(float(np.nanmax(wanted - theta[0])), 4)
    (38.0, 0.8665)
    """
    from scipy.optimize import linprog  # slow to import, and seldom needed

    starts = np.flatnonzero(reachable_starts(mdp).states)
    wanted = np.full(mdp.n_states, np.nan)
    wanted[starts] = solve(mdp, starts=starts).lambda_hat[starts] + 1.0
    if not np.isfinite(wanted[starts]).all():
        raise NotCertifiable("The multiplier of some start exceeds what a float can hold.")
    d = xi.shape[1]
    above = np.hstack([-xi[starts], -np.ones((len(starts), 1))])  # <xi, theta> + eps >= lambda_hat + 1
    limits = [(-cap, cap)] * d + [(0, None)]
    found = linprog(np.eye(1, d + 1, d)[0], A_ub=above, b_ub=-wanted[starts], bounds=limits, method="highs")
    if found.x is None:  # the solver takes numbers above 1e20 for infinite
        raise NotCertifiable("The multipliers are too large for the linear program that finds the nearest function.")
    return np.asarray(found.x[:-1]), wanted


def ridge_bias(data: ArrayLike, bias: ArrayLike, phi: ArrayLike, reg: float = 1.0) -> Certificate:
    """What biased data [k, d] add to a ridge regression's error at phi [d], against z sqrt(k) |phi|_{Lam^-1}.

    >>> ridge_bias(np.ones((4, 1)), np.full(4, 0.1), [1.0]).holds
    True
    """
    rows, b, point = (np.asarray(x, dtype=np.float64) for x in (data, bias, phi))
    inverse = np.linalg.inv(reg * np.eye(rows.shape[1]) + rows.T @ rows)
    most = np.abs(b).max(initial=0.0) * np.sqrt(len(b)) * np.sqrt(point @ inverse @ point)
    claim = "biased data move a ridge regression by at most z sqrt(k) |phi|"
    return Certificate(claim, abs(float(point @ inverse @ (rows.T @ b))), float(most))
