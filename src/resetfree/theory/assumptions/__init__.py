"""The paper's assumptions, each a check that returns a witness when it fails, and the repair of what fails.

`linearity` has the check of the features phi and the distances to the nearest linear problem; here are the dual class,
which multiplier functions contain lambda*, and all assumptions together, on finite problems and on a continuum.

Legend: xi [S, d] features of starts; I the starts; lambda_hat(s) the smallest optimal multiplier of s; theta [d] with
<xi(s), theta> >= lambda_hat(s) + 1 on I and >= 0 at every state, reset states too: the conditions of the paper's U, and
of the set that the dual players have (`sets.for_features`); B the least |theta|.
Every function that is at least lambda_hat + 1 is a lambda* (the set of optimal multipliers is [lambda_hat, infinity)),
so the inequality is what the assumption needs; the paper's equality is reported beside it.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Floats, NotCertifiable, arguments
from resetfree.problems import FiniteMDP
from resetfree.problems.continuum import Continuum
from resetfree.problems.finite.safety import (
    AssumptionReport,
    Finding,
    close,
    feasibility,
    largest_closed_set,
    reachable_starts,
    safe_sets,
    unsafe_pairs,
)
from resetfree.theory.assumptions.linearity import known_features, linearity
from resetfree.theory.oracle import nodes
from resetfree.theory.oracle.dynamic_programming import solve
from resetfree.theory.sets import norm

__all__ = [
    "AssumptionReport",
    "Finding",
    "check",
    "check_continuum",
    "close",
    "dual_class",
    "feasibility",
    "largest_closed_set",
    "linearity",
    "reachable_starts",
    "unsafe_pairs",
]

TOLERANCE = 1e-9
LARGEST_WORK = 2e9  # kernel steps that a check takes by default: about ten seconds
PASSES = 8  # backward passes that one multiplier takes, about
BATCH = 64  # constraints that may join the working set at a time


def dual_class(mdp: FiniteMDP, xi: ArrayLike | None = None, starts: ArrayLike | None = None) -> Finding:
    """Whether some theta has <xi(s), theta> >= lambda_hat(s) + 1 on every start, and the smallest B = |theta|.

    Paper: bounded, linear dual variable (assumption).

    xi: [S, d] (default: the problem's own, else the constant 1, for which B = max lambda_hat + 1 is least of all).
    starts: the states to check (default: the feasible ones in I; too many of them is "not checked").

    >>> import resetfree as rf
    >>> round(dual_class(rf.make("grid-v0")).detail["B"], 7)
    38.8664632
    """
    chosen = mdp.xi if xi is None else xi
    if starts is not None:
        return _finding(mdp, chosen, np.unique(arguments.array(starts, "'starts' of check", np.int64)), 0, chosen=True)
    found = reachable_starts(mdp).states
    feasible = found & safe_sets(mdp).states(1)
    return _finding(mdp, chosen, np.flatnonzero(feasible), int((found & ~feasible).sum()), chosen=False)


def least_norm(rows: Floats, bounds: Floats) -> tuple[Floats | None, NDArray[np.int64]]:
    """The theta of least norm with rows @ theta >= bounds, and the rows that decide it; None if there is none.

    Least-distance programming (Lawson and Hanson): u = argmin_{u >= 0} |[rows^T; bounds^T] u - e_last|, whose residual
    is zero iff nothing satisfies the rows (u is then the proof), and else points along (theta, -1). Rows join a working
    set as they are violated, so that many rows in few dimensions stay cheap.

    rows: [n, d].  bounds: [n].

    >>> theta, deciding = least_norm(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 3.0]))
    >>> theta.round(6).tolist(), deciding.tolist()
    ([1.5, 1.5], [1])
    >>> least_norm(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0]))[0] is None
    True
    """
    d = rows.shape[1]
    scale = float(np.abs(bounds).max(initial=0.0))
    theta: Floats = np.zeros(d)
    nothing: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    if not (bounds > 0).any():
        return theta, nothing
    goal = bounds / scale  # the numbers that decide feasibility are of order one whatever the multipliers are
    working, deciding = nothing, nothing
    while True:
        short = goal - rows @ theta
        short[working] = -np.inf  # solved for already; what is left of them is rounding
        worst = np.argsort(-short)[:BATCH]
        worst = worst[short[worst] > TOLERANCE]
        if not len(worst):
            return np.asarray(theta * scale), deciding
        working = np.concatenate([working, worst])
        found, active = _least_distance(rows[working], goal[working])
        deciding = working[active]
        if found is None:
            return None, deciding
        theta = found


def _least_distance(rows: Floats, bounds: Floats) -> tuple[Floats | None, NDArray[np.int64]]:
    from scipy.optimize import nnls  # slow to import

    stacked = np.vstack([rows.T, bounds])
    target = np.zeros(len(stacked))
    target[-1] = 1.0
    u, _ = nnls(stacked, target, maxiter=30 * stacked.shape[1])
    residual = stacked @ u - target
    active: NDArray[np.int64] = np.flatnonzero(u > 0)
    order = active[np.argsort(-u[active] * np.abs(bounds[active]))]
    if residual @ residual < 1e-14:  # = 1 / (1 + |theta|^2), so theta would be larger than 1e7 times the bounds
        return None, order
    # The active rows hold with equality: solving for them again gives back the digits that nnls lost.
    theta: Floats = np.asarray(np.linalg.lstsq(rows[active], bounds[active], rcond=None)[0], dtype=np.float64)
    if (rows @ theta - bounds).min() < -1e-7:
        theta = -residual[:-1] / residual[-1]
    return theta, order


def least_norm_equal(rows: Floats, values: Floats, others: Floats) -> Floats | None:
    """The theta of least norm with rows @ theta == values and others @ theta >= 0; None if there is none.

    rows: [n, d].  values: [n].  others: [m, d].
    """
    theta = np.linalg.lstsq(rows, values, rcond=None)[0]
    scale = float(np.abs(values).max(initial=1.0))
    if np.abs(rows @ theta - values).max(initial=0.0) > 1e-8 * scale:
        return None
    short = -(others @ theta)
    if (short <= TOLERANCE * scale).all():
        return np.asarray(theta)
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    rank = int((s > s.max() * max(rows.shape) * np.finfo(float).eps).sum())
    free = np.linalg.svd(vt[:rank])[2][rank:].T  # [d, k]; theta is orthogonal to it, so the norms add up
    if not free.shape[1]:
        return None
    move, _ = least_norm(others @ free, short)
    return None if move is None else np.asarray(theta + free @ move)


def _finding(mdp: FiniteMDP, xi: ArrayLike | None, starts: NDArray[np.int64], left_out: int, chosen: bool) -> Finding:
    """The finding of `dual_class` for given feasible starts [n].

    left_out: how many possible starts have no multiplier, because they admit no reset-free policy.
    chosen: whether the caller chose the starts (then they are computed, whatever it takes).
    """
    features = None if xi is None else known_features(xi, "xi", (mdp.n_states,))
    t = mdp.transition
    work = float(len(starts)) * t.nnz * (mdp.horizon if t.stationary else 1) * PASSES
    detail: dict[str, Any] = {"starts": len(starts), "left_out": left_out, "kernel_steps": work}
    note = f" Left out, without a reset-free policy and so a multiplier: {left_out} of them." if left_out else ""
    if not len(starts):
        return Finding(
            "dual class", None, f"No start has a multiplier, so there is nothing to bound.{note}", None, detail
        )
    if work > LARGEST_WORK and not chosen:
        sentence = (
            f"Not checked: multipliers of {len(starts)} starts would take about {work:.0e} steps. "
            f"Choose some with the argument starts=.{note}"
        )
        return Finding("dual class", None, sentence, None, detail)
    wanted = solve(mdp, starts=starts).lambda_hat[starts] + 1.0
    top = int(starts[np.argmax(wanted)])
    if not np.isfinite(wanted).all():
        sentence = f"The multiplier of state {mdp.state_names[top]} exceeds what a float can hold.{note}"
        return Finding("dual class", None, sentence, None, {**detail, "beyond_floats": top})
    detail |= {"largest_lambda_star": float(wanted.max()), "largest_at": top}
    if features is None:
        detail |= {"B": float(wanted.max()), "theta": [float(wanted.max())], "d": 1, "equality_B": None}
        if np.ptp(wanted) <= TOLERANCE * wanted.max():
            detail["equality_B"] = detail["B"]
        sentence = (
            f"With xi = 1 the least B is the largest lambda_hat + 1 = {detail['B']:.9g}, at state "
            f"{mdp.state_names[top]}; no other xi with norm at most 1 has a smaller one.{note}"
        )
        return Finding("dual class", True, sentence, None, detail)
    return _fitted(mdp, features, starts, wanted, detail, note=note)


def _fitted(
    mdp: FiniteMDP, xi: Floats, starts: NDArray[np.int64], wanted: Floats, detail: dict[str, Any], note: str
) -> Finding:
    """Least norm over the features given."""
    least = np.zeros(mdp.n_states)
    least[starts] = wanted
    theta, deciding = least_norm(xi, least)
    equal = least_norm_equal(xi[starts], wanted, np.delete(xi, starts, axis=0))
    sizes = np.linalg.norm(xi, axis=1)
    detail |= {"d": xi.shape[1], "largest_xi": float(sizes.max())}
    for kind, vector in (("", theta), ("equality_", equal)):
        detail |= {f"{kind}B": None if vector is None else norm(vector), f"{kind}theta": vector}
    if sizes.max() > 1 + TOLERANCE:
        witness = int(np.argmax(sizes))
        sentence = (
            f"xi must have norm at most 1. Got {sizes.max():.6g} at state {mdp.state_names[witness]} instead.{note}"
        )
        return Finding("dual class", False, sentence, witness, detail)
    if theta is None:
        proof = [int(s) for s in deciding if least[s] > 0]
        witness = proof[0]
        sentence = (
            f"No theta makes <xi(s), theta> at least lambda_hat(s) + 1 on all {len(starts)} starts and non-negative "
            f"everywhere; it fails at state {mdp.state_names[witness]}, which needs {wanted[starts == witness][0]:.6g}."
            f"{note}"
        )
        return Finding("dual class", False, sentence, witness, {**detail, "proof": proof})
    literal = (
        "equality cannot be had" if equal is None else f"with equality it is {detail['equality_B']:.9g}"
    )  # lambda* = lambda_hat + 1 exactly, as the paper writes it
    sentence = f"The least B is {detail['B']:.9g} (d = {xi.shape[1]}); {literal}.{note}"
    return Finding("dual class", True, sentence, None, detail)


ROUNDING = 1e-9
EXACT = 5  # nodes in a tenth of a coordinate that integrate the densities exactly


def check_continuum(mdp: Continuum) -> AssumptionReport:
    """Feasibility, linearity and the dual class of constant multipliers.

    >>> import resetfree as rf
    >>> print(check_continuum(rf.make("continuous-linear-v0", dimension=2)))
    Assumptions of 'continuous-linear-v0'
      feasibility: holds. Action 0 never falls, so every state of the continuum admits a reset-free policy.
      linearity: holds. Features lie in the simplex and lead to 3 distributions and the reset state; d = 4.
      dual class: holds. With xi = 1 the least B is the largest lambda_hat + 1 = 8.68174778.
    """
    return AssumptionReport(mdp.name, (feasible(mdp), linear(mdp), constant_multipliers(mdp)))


def feasible(mdp: Continuum) -> Finding:
    """Whether some action never falls, at any node: then no state is a dead end."""
    fall = mdp.rows(nodes.rule(mdp).x)[..., -1].max(axis=0)
    if fall[0] > 0:
        return Finding("feasibility", False, f"Action 0 falls with a probability of up to {fall[0]:.6g}.")
    return Finding(
        "feasibility", True, "Action 0 never falls, so every state of the continuum admits a reset-free policy."
    )


def linear(mdp: Continuum) -> Finding:
    """Whether phi lies in the simplex and every nu_j is a distribution; then |phi| <= 1 and |mu| <= sqrt(d)."""
    at = nodes.rule(mdp, EXACT)
    total = at.volume @ mdp.densities(at.x)
    off = float(np.abs(total - 1.0).max(initial=0.0))
    if at.phi.min() < 0 or np.abs(at.phi.sum(axis=-1) - 1).max() > ROUNDING or off > ROUNDING:
        why = f"Features leave the simplex, or a component has a mass that differs from 1 by {off:.3g}."
        return Finding("linearity", False, why)
    why = f"Features lie in the simplex and lead to {mdp.d - 1} distributions and the reset state; d = {mdp.d}."
    return Finding("linearity", True, why)


def constant_multipliers(mdp: Continuum) -> Finding:
    """The least B for xi = 1: the largest lambda_hat + 1."""
    top = nodes.solve(mdp).largest_multiplier + 1.0
    why = f"With xi = 1 the least B is the largest lambda_hat + 1 = {top:.9g}."
    return Finding("dual class", True, why, detail={"B": top, "largest_lambda_star": top})


def check(
    mdp: FiniteMDP | Continuum,
    phi: ArrayLike | None = None,
    xi: ArrayLike | None = None,
    starts: ArrayLike | None = None,
) -> AssumptionReport:
    """All three assumptions; `bool(report)` is True if feasibility holds and no assumption is found to fail.

    On a continuum of states: see `check_continuum`, with the problem's own features and xi = 1.

    phi: [S, A, d] (default: the problem's own, else one-hot).  xi, starts: see `dual_class`.

    >>> import resetfree as rf
    >>> print(check(rf.make("grid-v0")))
    Assumptions of 'grid-v0'
      feasibility: holds. From every reachable start (10) some policy is never reset.
      linearity: holds. One-hot features make every finite problem linear: mu is P itself, with norm sqrt(d), and omega
        is r. Nothing was computed; d = 50.
      dual class: holds. With xi = 1 the least B is the largest lambda_hat + 1 = 38.8664632, at state 0,2; no other xi
        with norm at most 1 has a smaller one.
    """
    if isinstance(mdp, Continuum):
        return check_continuum(mdp)
    if not isinstance(mdp, FiniteMDP):
        raise NotCertifiable(
            f"The assumptions are checked on finite problems, whose model is known. Got {type(mdp).__name__} instead."
        )
    return AssumptionReport(mdp.name, (feasibility(mdp), linearity(mdp, phi), dual_class(mdp, xi, starts)))
