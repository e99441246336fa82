"""Linear programs over occupancies: a second way to the exact answers, sharing nothing with dynamic programming.

Legend: x_h(s,a) probability that step h is reached without a reset, in state s, with action a; reset states of step h
those whose arrival there is a reset; y a multiplier; v_h(s) an upper bound on max_pi V_r - y V_c from step h on.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from resetfree.core import AssumptionViolated, Bools, Floats, Fraction, InvalidInput, NotCertifiable, check
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.transitions import ROW_SUM_TOLERANCE, row_sums

TOLERANCE = 1e-10  # the tightest that HiGHS accepts
OPTIONS = {"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE}
SMALLEST_SEEN = 1e-9  # HiGHS drops matrix entries up to this size
REACHED = 1e-9  # occupancies below this are the solver's rounding
INFEASIBLE, ROUNDED = 2, 4  # SciPy's status of a program without a solution, and of a solver that lost its way


class ConstrainedPolicy(NamedTuple):
    """A best policy under a bound on the reset probability."""

    value: float
    policy: Floats  # [H, S, A]


def best_value(mdp: FiniteMDP, start_weights: ArrayLike) -> float:
    """The best expected reward without any reset, from a distribution over starts.

    max sum x_h(s,a) r_h(s,a)  subject to  x >= 0, sum_a x_1(s,a) = start(s), sum_a x_{h+1}(s',a) = sum_{s,a} x_h(s,a)
    P_h(s'|s,a) for s' that is no reset state, and no mass into reset states.

    Paper: V_{r,1}^{pi*}, as the value of max_pi V_r subject to V_c = 0.

    start_weights: [S], a distribution outside the reset set; for one start, its indicator.
    What can lead to a reset is decided on the support; a probability that the solver does not see changes the value by
    at most `unseen_value`.
    Raises AssumptionViolated naming a start from which no reset-free policy exists, InvalidInput for weights that are
    no distribution.

    >>> import resetfree as rf
    >>> round(best_value(rf.make("grid-v0"), np.eye(12)[3]), 9)
    8.0
    """
    weights = _check_weights(mdp, start_weights)
    found = _reset_free(mdp, weights)
    if found.status == INFEASIBLE:
        # The program for all starts does not show which one fails; one program for each start does.
        alone = [s for s in np.flatnonzero(weights) if _reset_free(mdp, np.eye(mdp.n_states)[s]).status == INFEASIBLE]
        witness = int((alone or np.flatnonzero(weights))[0])
        why = f"No reset-free policy exists from state {mdp.state_names[witness]} (index {witness})."
        raise AssumptionViolated(why, assumption="feasibility", witness=witness)
    return -float(_finished(found).fun)


def constrained_value(mdp: FiniteMDP, start_weights: ArrayLike, threshold: float) -> ConstrainedPolicy:
    """The best expected reward with a reset probability of at most `threshold`, and a policy that has both.

    The policy is the normalised occupancy, uniform where it is zero. For a positive threshold it depends on the
    start, which is why the paper requires zero.

    start_weights: [S], as in `best_value`. threshold: in [0, 1]. Raises as `best_value`, and NotCertifiable where a
    probability is too small for the solver.
    """
    weights = _check_weights(mdp, start_weights)
    _check_visible(mdp)
    check(threshold, Fraction, "'threshold' of constrained_value")
    resets = _reset_probability(mdp).reshape(1, -1)
    x_max = np.ones(resets.shape[1])
    found = _maximise(mdp, weights, x_max, A_ub=sparse.csr_array(resets), b_ub=[threshold])
    if found.status == INFEASIBLE:
        witness = int(np.flatnonzero(weights)[0])
        why = f"No policy has a reset probability of {threshold} or less when started as given, for example from state "
        why += f"{mdp.state_names[witness]} (index {witness})."
        raise AssumptionViolated(why, assumption="feasibility", witness=witness)
    x = np.maximum(_finished(found).x, 0.0).reshape(mdp.horizon, mdp.n_states, mdp.n_actions)
    mass = x.sum(axis=2, keepdims=True)
    reached = mass > REACHED
    policy = np.where(reached, x / np.where(reached, mass, 1.0), 1.0 / mdp.n_actions)
    return ConstrainedPolicy(-float(found.fun), policy)


def least_multiplier(mdp: FiniteMDP, start: int, value: float) -> float:
    """The least y >= 0 for which no policy has V_r - y V_c above `value` from `start`.

    min y  subject to  v_1(start) <= value  and, for all h, s, a,
    v_h(s) >= r_h(s,a) + sum_{s' no reset} P_h(s'|s,a) v_{h+1}(s') - y sum_{s' reset} P_h(s'|s,a).

    Paper: hat lambda(s), for `value` = V_{r,1}^{pi*}(s).

    Raises AssumptionViolated where no y will do, InvalidInput for a start that is none, NotCertifiable where a
    probability is too small for the solver.

    >>> import resetfree as rf
    >>> mdp = rf.make("grid-v0")
    >>> round(least_multiplier(mdp, 2, best_value(mdp, np.eye(12)[2])), 6)
    37.866463
    """
    if not 0 <= start < mdp.n_states or mdp.reset[start]:
        raise InvalidInput(f"A start of '{mdp.name}' must be a state outside the reset set. Got {start} instead.")
    _check_visible(mdp)
    h_max, n_states, n_actions = mdp.horizon, mdp.n_states, mdp.n_actions
    own = sparse.kron(sparse.eye_array(n_states), np.ones((n_actions, 1)))  # v_h(s) once per action
    blocks: list[list[Any]] = [[None] * h_max for _ in range(h_max)]
    for h in range(h_max):
        blocks[h][h] = -own
        if h + 1 < h_max:
            blocks[h][h + 1] = _survive(mdp, h)
    resets, reward = _reset_probability(mdp).reshape(-1, 1), _reward(mdp).ravel()
    acting = np.repeat(np.tile(~mdp.reset, h_max), n_actions)  # no action is taken in a reset state
    above = sparse.hstack([sparse.block_array(blocks), sparse.csr_array(-resets)], format="csr")[acting]
    at_start = sparse.csr_array(([1.0], ([0], [start])), shape=(1, above.shape[1]))
    bounds = np.tile([-np.inf, np.inf], (above.shape[1], 1))
    bounds[:-1][np.tile(mdp.reset, h_max)] = 0.0
    bounds[-1, 0] = 0.0
    found = _minimised(
        np.append(np.zeros(above.shape[1] - 1), 1.0),
        A_ub=sparse.vstack([above, at_start], format="csr"),
        b_ub=np.append(-reward[acting], value),
        bounds=bounds,
    )
    if found.status == INFEASIBLE:
        where = f"state {mdp.state_names[start]} (index {start})"
        why = f"No multiplier keeps every policy from {where} at {value} or less."
        raise AssumptionViolated(why, assumption="feasibility", witness=int(start))
    return float(_finished(found).fun)


def _reset_free(mdp: FiniteMDP, weights: Floats) -> Any:
    """The program of `best_value`.

    The reset probability is a sum of terms x_h(s,a) P_h(reset|s,a) that are not negative: it is zero if and only if
    each of them is. Written as bounds x_h(s,a) <= 0 the solver's tolerance cannot buy reward with a little of it.
    """
    return _maximise(mdp, weights, np.where(_may_be_lost(mdp), 0.0, 1.0))


def _may_be_lost(mdp: FiniteMDP) -> Bools:
    """[H*S*A] whether an action can lead (on the support) to a reset, or to a state all of whose actions can.

    Mass there would have nowhere to go, which the flow forbids as well; but it does so in probabilities, of which the
    solver drops the smallest.
    """
    result = np.zeros((mdp.horizon, mdp.n_states * mdp.n_actions), dtype=np.bool_)
    lost = np.zeros(mdp.n_states, dtype=np.bool_)
    for h in range(mdp.n_transitions - 1, -1, -1):
        possible = _layer(mdp, h)
        possible.data[:] = 1.0  # a probability that underflowed to 0.0 is stored, and possible
        result[h] = possible @ np.maximum(_is_reset(mdp, h), lost) > 0
        lost = result[h].reshape(mdp.n_states, -1).all(axis=1)
    return result.ravel()


def unseen_value(mdp: FiniteMDP) -> float:
    """By how much the probabilities that the solver drops can change an expected reward: H per unit of lost mass.

    >>> import resetfree as rf
    >>> unseen_value(rf.make("grid-v0"))
    0.0
    """
    t = mdp.transition
    dropped = row_sums(t.indptr, np.where(t.prob <= SMALLEST_SEEN, t.prob, 0.0))
    return float(dropped.max(initial=0.0)) * mdp.n_transitions * mdp.horizon


def _maximise(mdp: FiniteMDP, weights: Floats, x_max: Floats, **more: Any) -> Any:
    """Maximise expected reward over occupancies x [H*S*A] that flow from `weights` [S]."""
    h_max = mdp.horizon
    leaving = sparse.kron(sparse.eye_array(mdp.n_states), np.ones((1, mdp.n_actions)))
    blocks: list[list[Any]] = [[None] * h_max for _ in range(h_max)]
    for h in range(h_max):
        blocks[h][h] = leaving
        if h + 1 < h_max:
            blocks[h + 1][h] = -_survive(mdp, h).T
    arriving = np.zeros((h_max, mdp.n_states))
    arriving[0] = weights
    return _minimised(
        -_reward(mdp).ravel(),
        A_eq=sparse.block_array(blocks, format="csr"),
        b_eq=arriving.ravel(),
        bounds=np.stack([np.zeros(len(x_max)), x_max], axis=1),
        **more,
    )


def _minimised(*program: Any, **parts: Any) -> Any:
    """The answer of the dual simplex; where rounding makes it fail, that of an interior-point method with crossover."""
    from scipy.optimize import linprog

    found = linprog(*program, **parts, method="highs-ds", options=OPTIONS)
    return linprog(*program, **parts, method="highs-ipm", options=OPTIONS) if found.status == ROUNDED else found


def _finished(found: Any) -> Any:
    """The solver's answer, if it has one."""
    if found.status != 0:
        raise NotCertifiable(f"The linear program must be solved to the end. Got this instead: {found.message}")
    return found


def _is_reset(mdp: FiniteMDP, h: int) -> Floats:
    """[S] 1.0 where arriving after step h (from 0) is a reset."""
    return (mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset).astype(np.float64)


def _layer(mdp: FiniteMDP, h: int) -> Any:
    return mdp.transition.matrix(0 if mdp.transition.stationary else h)


def _survive(mdp: FiniteMDP, h: int) -> Any:
    """Sparse [S*A, S]: P_h without the arrivals that are resets (h from 0)."""
    return _layer(mdp, h) @ sparse.diags_array(1.0 - _is_reset(mdp, h))


def _reset_probability(mdp: FiniteMDP) -> Floats:
    """[H*S*A] probability that an action's transition ends in a reset; 0 where the last action moves nothing."""
    result = np.zeros((mdp.horizon, mdp.n_states * mdp.n_actions))
    for h in range(mdp.n_transitions):
        result[h] = _layer(mdp, h) @ _is_reset(mdp, h)
    return result.ravel()


def _reward(mdp: FiniteMDP) -> Floats:
    return np.broadcast_to(mdp.reward, (mdp.horizon, mdp.n_states, mdp.n_actions))


def _check_weights(mdp: FiniteMDP, start_weights: ArrayLike) -> Floats:
    weights = np.asarray(start_weights, dtype=np.float64)
    if weights.shape != (mdp.n_states,) or not (weights >= 0).all() or abs(weights.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InvalidInput(
            f"The 'start_weights' must be a distribution over {mdp.n_states} states. "
            f"Got shape {weights.shape} with sum {weights.sum():.12g} instead."
        )
    if weights[mdp.reset].any():
        bad = int(np.flatnonzero(mdp.reset & (weights > 0))[0])
        raise InvalidInput(
            f"The 'start_weights' must lie outside the reset set. Got weight on reset state {bad} instead."
        )
    return weights


def _check_visible(mdp: FiniteMDP) -> None:
    """Refuse probabilities that the solver would drop."""
    if (mdp.transition.prob <= SMALLEST_SEEN).any():
        raise NotCertifiable(
            f"The linear program sees probabilities above {SMALLEST_SEEN:g} only. "
            f"Got {mdp.transition.prob.min():.6g} in '{mdp.name}' instead."
        )
