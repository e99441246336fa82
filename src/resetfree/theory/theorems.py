"""Every statement of the reduction about a known problem, as a function that computes both sides.

Legend: pi* the best reset-free policy, V* its value; lambda_hat(s) the smallest optimal multiplier of start s,
lambda* = lambda_hat + 1; L^k(pi, lambda) = V_r^pi(s_1^k) - lambda(s_1^k) V_c^pi(s_1^k); R_p and R_d the regrets of
the primal and the dual player; Abar the actions after which a reset is still avoidable for certain.
Maxima over all policies are computed by dynamic programming, one pass per start, never by sampling.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import AssumptionViolated, Bools, Floats, InvalidInput, NotCertifiable, expect, whole
from resetfree.core.certificate import Certificate, Kind, Status, over_rounds
from resetfree.problems import FiniteMDP, check_model
from resetfree.problems.finite.tabular_policy import random_policy, uniform
from resetfree.theory.assumptions import reachable_starts
from resetfree.theory.oracle.dynamic_programming import (
    Solution,
    Temptation,
    can_leave,
    can_reset,
    evaluate,
    solve,
    temptation,
)
from resetfree.theory.oracle.linear_program import best_value, unseen_value
from resetfree.theory.oracle.nodes import AtStarts
from resetfree.theory.regret import Rounds, Solved, best_values, dual_regret, primal_regret, regret, resets

TOLERANCE = 1e-9  # per unit of value (the horizon) or of cumulative sum
SMALLER = 1e-6  # how far below lambda_hat a multiplier is tried, relatively
LARGEST_PROGRAM = 30_000  # H*S*A up to which `certify_problem` solves the linear program
ALGEBRA = "holds for any policies, multipliers and starts, since V_c of pi* is zero: a check of arithmetic"
SIGNS = "holds for any multipliers and costs that are not negative: a check of arithmetic"
RANDOM_POLICIES = 5  # of each kind that `certify_problem` tries
EQUIVALENCE = "the best reset-free policy for the whole sequence of starts earns the sum of V*"


def shared_saddle_point(mdp: FiniteMDP, solution: Solution | None = None) -> list[Certificate]:
    """One policy pi* and one function lambda_hat are a saddle-point for every feasible start at once.

    Paper: existence of a shared saddle-point (theorem).

    V_r^{pi*} - lambda V_c^{pi*} >= V_r^{pi*} - lambda_hat V_c^{pi*} >= V_r^pi - lambda_hat V_c^pi, all lambda and pi.
    The first is an equality because V_c^{pi*} = 0, which is decided on the support; in the second the maximum over all
    pi is computed for each start in `solution.starts` (default: every feasible one).

    >>> import resetfree as rf
    >>> all(c.holds for c in shared_saddle_point(rf.make("grid-v0")))
    True
    """
    known = solve(mdp) if solution is None else solution
    return [*_optimal_policy_is_safe(mdp, known), _saddle(mdp, known, known.lambda_hat, "lambda_hat")]


def second_saddle_point(mdp: FiniteMDP, solution: Solution | None = None) -> list[Certificate]:
    """So are pi* and lambda* = lambda_hat + 1.

    Paper: second saddle-point lambda* = lambda_hat + 1 (corollary).
    """
    known = solve(mdp) if solution is None else solution
    return [*_optimal_policy_is_safe(mdp, known), _saddle(mdp, known, known.lambda_star, "lambda_hat + 1")]


def saddle_point(mdp: FiniteMDP, multipliers: ArrayLike, solution: Solution | None = None) -> Certificate:
    """Whether pi* and a given multiplier function [S] satisfy the second inequality; below lambda_hat it fails."""
    known = solve(mdp) if solution is None else solution
    function = np.asarray(multipliers, dtype=np.float64)
    if function.shape != (mdp.n_states,) or not (function[known.starts] >= 0).all():
        raise InvalidInput(
            f"The 'multipliers' of saddle_point must be numbers that are not negative, of shape ({mdp.n_states},). "
            f"Got shape {function.shape} instead."
        )
    return _saddle(mdp, known, function, "the given multipliers")


def _optimal_policy_is_safe(mdp: FiniteMDP, known: Solution) -> list[Certificate]:
    """V_c^{pi*} = 0 and V_r^{pi*} = V*, of pi* evaluated like any other policy."""
    starts = known.starts
    unsafe = starts[can_reset(mdp, known.policy)[starts]]
    values = evaluate(mdp, known.policy)
    off = np.abs(values.v_r - known.value)[starts]
    i = int(np.argmax(off)) if len(off) else 0
    safe = "pi* cannot be reset from any start (number of starts from which it can, by the support)"
    best = "pi* earns V* from every start (largest difference)"
    tolerance, detail = TOLERANCE * mdp.horizon, {"starts": len(starts)}
    return [
        Certificate(safe, len(unsafe), 0.0, 0.0, "==", witness=_name_first(mdp, unsafe), detail=detail),
        Certificate(best, off.max(initial=0.0), 0.0, tolerance, "==", witness=_name_first(mdp, starts[i:])),
    ]


def _saddle(mdp: FiniteMDP, known: Solution, multipliers: Floats, what: str) -> Certificate:
    """The second inequality at every start; where it fails by less than values show, in the multipliers themselves."""
    starts, beyond = _with_multiplier(known.starts, multipliers)
    claim = f"no policy has V_r - y V_c above V*, from any start, for y = {what}"
    if not len(starts):
        return _nothing_to_ask(claim, beyond)
    y = multipliers[starts]
    excess, need = _temptation(known, starts, y)
    i = int(np.argmax(excess))
    detail: dict[str, Any] = {"starts": len(starts), **beyond}
    more = need - y
    j = int(np.argmax(more > SMALLER / 10 * y))
    if excess[i] <= TOLERANCE * mdp.horizon and more[j] > SMALLER / 10 * y[j]:  # too little to see in values
        detail |= {"in": "multipliers", "start": int(starts[j])}
        return Certificate(claim, need[j], y[j], SMALLER / 10 * y[j], witness=_name(mdp, starts[j]), detail=detail)
    value = known.value[starts[i]]
    detail |= {"multiplier": float(y[i]), "start": int(starts[i])}
    where = _name(mdp, starts[i])
    return Certificate(claim, value + excess[i], value, TOLERANCE * mdp.horizon, witness=where, detail=detail)


def _with_multiplier(starts: NDArray[np.int64], multipliers: Floats) -> tuple[NDArray[np.int64], dict[str, int]]:
    """The starts whose multiplier is a float, and, for the record, how many exceed every float."""
    finite = np.isfinite(multipliers[starts])
    return starts[finite], {} if finite.all() else {"beyond_floats": int((~finite).sum())}


def _nothing_to_ask(claim: str, beyond: dict[str, int], kind: Kind = "<=") -> Certificate:
    if beyond:
        return Certificate.not_applicable(claim, "the multiplier of every start exceeds what a float can hold")
    return Certificate(claim, 0.0, 0.0, 0.0, kind, detail={"starts": 0})


def _temptation(known: Solution, starts: NDArray[np.int64], multipliers: Floats) -> Temptation:
    """[n] what the best of all policies has of more than pi*, from each start, for its own multiplier."""
    excess, need = np.empty(len(starts)), np.empty(len(starts))
    for y in np.unique(multipliers):  # starts that share a multiplier share a pass
        found = temptation(known.mdp, float(y), known.policy)
        here = np.flatnonzero(multipliers == y)
        excess[here], need[here] = found.excess[starts[here]], found.need[starts[here]]
    return Temptation(excess, need)


def least_multiplier(mdp: FiniteMDP, solution: Solution | None = None) -> Certificate:
    """A multiplier smaller than lambda_hat(s) fails at s: some policy has V_r - y V_c above V*(s).

    Paper: hat lambda in argmin_y max_pi V_r - y V_c, its least element.

    For each start with lambda_hat > 0 a policy is found that needs a multiplier of at least (V_r - V*) / V_c, and this
    is claimed to be above y = lambda_hat (1 - 1e-6); so every y up to there fails, as V_c >= 0.
    """
    known = solve(mdp) if solution is None else solution
    starts, beyond = _with_multiplier(known.starts[known.lambda_hat[known.starts] > 0], known.lambda_hat)
    claim = "from every start with lambda_hat > 0 some policy needs a multiplier above (1 - 1e-6) lambda_hat"
    if not len(starts):
        return _nothing_to_ask(claim, beyond, "==")
    tried = known.lambda_hat[starts] * (1 - SMALLER)
    needed = _temptation(known, starts, tried).need
    i = int(np.argmin(needed / tried))
    detail = {"starts": len(starts), "lambda_hat": float(known.lambda_hat[starts[i]]), "start": int(starts[i])}
    return Certificate(claim, tried[i], needed[i], 0.0, "<", witness=_name(mdp, starts[i]), detail={**detail, **beyond})


def regret_equivalence(mdp: FiniteMDP, starts: ArrayLike, solution: Solution | None = None) -> Certificate:
    """The best of the policies that avoid resets in all episodes earns V* in each: max sum_k V_r^pi = sum_k V*(s_1^k).

    Paper: regret as a comparison with pi* (corollary).

    starts: [K]. The left side is a linear program over occupancies, which knows nothing of pi*.
    Raises AssumptionViolated for a start without a reset-free policy.
    """
    known = solve(mdp, starts=[]) if solution is None else solution
    states = np.atleast_1d(np.asarray(starts, dtype=np.int64))
    expect(len(states), "'starts' of regret_equivalence", "name at least one state", got="none")
    _require_feasible(mdp, known, states)
    n = len(states)
    left = n * best_value(mdp, np.bincount(states, minlength=mdp.n_states) / n)
    tolerance = n * (1e-7 * mdp.horizon + unseen_value(mdp))  # the linear program's own
    return Certificate(EQUIVALENCE, left, known.value[states].sum(), tolerance, "==", detail={"starts": n})


def _require_feasible(mdp: FiniteMDP, known: Solution, states: NDArray[np.int64]) -> None:
    bad = states[~known.feasible[states]]
    if len(bad):
        why = f"No reset-free policy exists from state {_name(mdp, bad[0])}."
        raise AssumptionViolated(why, assumption="feasibility", witness=int(bad[0]))


def restricted_policies(mdp: FiniteMDP, policy: ArrayLike, solution: Solution | None = None) -> list[Certificate]:
    """From a feasible start a policy keeps to Abar if and only if its reset probability is zero.

    Paper: restricted policies are the reset-free ones (lemma).

    Both sides are decided on the support, where a probability that underflows still counts; the second certificate
    holds the numbers against it. V_c = 0.0 of a policy that can be reset is underflow: counted, not claimed.
    """
    known = solve(mdp, starts=[]) if solution is None else solution
    feasible = np.flatnonzero(known.feasible)
    leaves, reset = can_leave(mdp, policy, known.safe)[feasible], can_reset(mdp, policy)[feasible]
    v_c = evaluate(mdp, policy).v_c[feasible]
    differ = feasible[leaves != reset]
    kept = np.where(leaves, 0.0, v_c)
    i = int(np.argmax(kept)) if len(kept) else 0
    underflowed = int((leaves & (v_c == 0)).sum())
    detail = {"starts": len(feasible), "restricted": int((~leaves).sum()), "underflowed": underflowed}
    same = "a policy keeps to Abar from a feasible start iff it cannot be reset (starts where the two differ)"
    zero = "V_c is exactly zero from every feasible start from which the policy keeps to Abar (largest V_c)"
    most = kept.max(initial=0.0)
    return [
        Certificate(same, len(differ), 0.0, 0.0, "==", witness=_name_first(mdp, differ), detail=detail),
        Certificate(zero, most, 0.0, 0.0, "==", witness=_name_first(mdp, feasible[i:]), detail=detail),
    ]


def every_restricted_policy(mdp: FiniteMDP, solution: Solution | None = None) -> list[Certificate]:
    """The lemma for all policies at once, step by step, from feasible states of every step.

    Paper: restricted policies are the reset-free ones (lemma), for every policy.

    If: the policy that may take every action of Abar has the largest support of all that keep to it, so if it cannot be
    reset, none can. Only if: after an action outside Abar every continuation can be reset. Where that is so is worked
    out here from the support alone (a state is lost if each of its actions can lead to a reset or to a lost state),
    and shares nothing with how Abar was found.
    """
    known = solve(mdp, starts=[]) if solution is None else solution
    layers = [mdp.transition.matrix(layer) for layer in range(mdp.transition.n_layers)]
    lost: Bools = np.zeros(mdp.n_states, dtype=np.bool_)  # after the last step nothing is left to go wrong
    differ: dict[bool, list[str]] = {True: [], False: []}
    counted = {True: 0, False: 0}
    for h in range(mdp.horizon, 0, -1):
        harmful = np.zeros((mdp.n_states, mdp.n_actions), dtype=np.bool_)
        if h <= mdp.n_transitions:
            possible = layers[0 if mdp.transition.stationary else h - 1]
            possible.data[:] = 1.0
            bad = lost | (mdp.last_reset if h == mdp.n_transitions else mdp.reset)
            harmful = (possible @ bad.astype(np.float64) > 0).reshape(harmful.shape)
        lost = np.asarray(harmful.all(axis=1))
        resets = mdp.last_reset if h == mdp.n_transitions + 1 > 1 else mdp.reset  # an arrival there is a reset
        allowed, here = known.safe.actions(h), ~(lost | resets)[:, None]
        for inside in (True, False):
            counted[inside] += int((here & (allowed == inside)).sum())
            for s, a in np.argwhere(here & (allowed == inside) & (harmful == inside)):
                differ[inside].append(f"step {h}, {_name(mdp, s)}, action {mdp.action_names[a]}")
    claims = {
        True: "no action of Abar leads where some policy that keeps to Abar can be reset (actions that do)",
        False: "after every action outside Abar every policy can be reset (actions after which some cannot)",
    }
    found = []
    for inside, claim in claims.items():
        where, detail = next(iter(differ[inside]), None), {"actions": counted[inside]}
        found.append(Certificate(claim, len(differ[inside]), 0.0, 0.0, "==", witness=where, detail=detail))
    return found


def saddle_gap(rounds: Rounds, solution: Solved) -> list[Certificate]:
    """sum_k L^k(pi*, lambda') - L^k(pi^k, lambda^k) <= R_p(pi*) for lambda' = lambda_hat and lambda_hat + 1.

    Paper: gap to the saddle-point is at most the primal regret (lemma).

    In truth an equality, for any rounds and any lambda', since V_c of pi* is zero: an identity.
    """
    hat, v_c = _multipliers(rounds, solution), solution.cost[rounds.s1]
    best = best_values(rounds, solution)
    played = rounds.v_r - rounds.lam * rounds.v_c
    right = primal_regret(rounds, solution)
    tolerance = _rounding(rounds, solution, hat)
    found = []
    for name, multiplier in (("lambda_hat", hat), ("lambda_hat + 1", hat + 1.0)):
        claim = f"the gap to the saddle-point (pi*, {name}) is at most R_p(pi*)"
        left = np.cumsum(best - multiplier * v_c - played)
        found.append(_over_rounds(claim, left, right, tolerance, "<=", status="identity", why=ALGEBRA))
    return found


def reduction(rounds: Rounds, solution: Solved) -> list[Certificate]:
    """Regret and Resets are bounded by the players' regrets, for any policies, multipliers and feasible starts.

    Paper: regret reduction (theorem), and its two lemmas.

    Regret <= R_p(pi*) + R_d(0), in truth an equality; Resets <= R_p(pi*) + R_d(lambda*), where in truth
    R_p(pi*) + R_d(lambda*) = Regret + sum lambda*(s_1^k) V_c^{pi^k}; Regret >= -sum lambda_hat(s_1^k) V_c^{pi^k};
    R_d(0) <= 0 for multipliers that are not negative; and for one constant multiplier C > max lambda_hat,
    Resets <= R_p / (C - max lambda_hat). Each is claimed after every round; the first round at which one fails is
    shown, else the last. `solution` should hold the multipliers of the starts: `solve(mdp, starts=...)`.

    What is true for all values of the policies is an identity. The others rest on V_r - lambda_hat V_c <= V*, which is
    true of every policy.
    Raises AssumptionViolated naming a start without a reset-free policy.
    """
    hat = _multipliers(rounds, solution)
    star = hat + 1.0
    total, n_resets = regret(rounds, solution), resets(rounds)
    r_p = primal_regret(rounds, solution)
    r_zero, r_star = dual_regret(rounds, 0.0), dual_regret(rounds, at_starts=star)
    tolerance = _rounding(rounds, solution, hat)
    equal, crossed = "R_p(pi*) + R_d(lambda*) equals Regret + sum of lambda* V_c", total + np.cumsum(star * rounds.v_c)
    least, lowest = "Regret is at least minus the sum of lambda_hat V_c", -np.cumsum(hat * rounds.v_c)
    claims: list[tuple[str, Floats, Floats, Floats, Kind, Status, str]] = [
        ("Regret is at most R_p(pi*) + R_d(0)", total, r_p + r_zero, tolerance, "<=", "identity", ALGEBRA),
        ("Resets are at most R_p(pi*) + R_d(lambda*)", n_resets, r_p + r_star, tolerance, "<=", "proved", ""),
        ("Regret equals R_p(pi*) + R_d(0)", total, r_p + r_zero, tolerance, "==", "identity", ALGEBRA),
        (equal, r_p + r_star, crossed, tolerance, "==", "identity", ALGEBRA),
        (least, lowest, total, tolerance, "<=", "proved", ""),
    ]
    if (rounds.lam >= 0).all():
        claims.append(("R_d(0) is never positive", r_zero, np.zeros(len(rounds)), tolerance, "<=", "identity", SIGNS))
    constant = rounds.lam[0] if len(rounds) and (rounds.lam == rounds.lam[0]).all() else -np.inf
    if len(rounds) and constant > hat.max():
        margin = constant - hat.max()
        name = "Resets are at most R_p(pi*) / (C - max lambda_hat), for fixed C"
        claims.append((name, n_resets, r_p / margin, tolerance / margin, "<=", "proved", ""))
    return [_over_rounds(*claim) for claim in claims]


def _multipliers(rounds: Rounds, solution: Solved) -> Floats:
    """[K] lambda_hat(s_1^k); those that the solution does not hold are computed now."""
    best_values(rounds, solution)  # names a start that is not feasible
    wanted = np.unique(rounds.s1)
    if not isinstance(solution, AtStarts) and not np.isin(wanted, solution.starts).all():
        solution = solve(solution.mdp, starts=wanted)
    return np.asarray(solution.lambda_hat[rounds.s1])


def _rounding(rounds: Rounds, solution: Solved, hat: Floats) -> Floats:
    """[K] what rounding may do to sums of k terms: a share of their size."""
    size = solution.mdp.horizon + (np.abs(rounds.lam) + hat + 1.0) * np.abs(rounds.v_c)
    return np.asarray(TOLERANCE * np.cumsum(size))


def _over_rounds(
    claim: str, left: Floats, right: Floats, tolerance: Floats, kind: Kind, status: Status, why: str
) -> Certificate:
    """The claim after the first round at which it fails, else after the last."""
    if len(left):
        return over_rounds(claim, left, right, tolerance, kind, status=status, why=why)
    return Certificate(claim, 0.0, 0.0, 0.0, kind, detail={"rounds": 0}, status=status, why=why)


def certify_problem(mdp: FiniteMDP, *, starts: ArrayLike | None = None, seed: int = 0) -> list[Certificate]:
    """Every statement about a problem alone: saddle-points, least multipliers, corollary and lemma.

    starts: states to check (default: every feasible one). The linear program of the corollary, over the feasible
    possible starts, is left out where H*S*A is larger than 30,000.
    """
    check_model(mdp, "Certifying a problem")
    known = solve(mdp, starts)
    rng = np.random.default_rng(whole(seed, "'seed' of certify_problem", 0))
    found = [*shared_saddle_point(mdp, known), least_multiplier(mdp, known), *second_saddle_point(mdp, known)[2:]]
    tried = [restricted_policies(mdp, policy, known) for policy in _various(mdp, known, rng)]
    found += [_worst(certificates) for certificates in zip(*tried, strict=True)]
    found += every_restricted_policy(mdp, known)
    if mdp.horizon * mdp.n_states * mdp.n_actions <= LARGEST_PROGRAM:
        states = np.flatnonzero(reachable_starts(mdp).states & known.feasible) if starts is None else known.starts
        if len(states):
            try:
                found.append(regret_equivalence(mdp, states, known))
            except NotCertifiable as error:
                found.append(Certificate.not_applicable(EQUIVALENCE, str(error)))
    return found


def _worst(certificates: Sequence[Certificate]) -> Certificate:
    """Of one claim about many policies the one that is farthest from true, with the number tried."""
    worst = min(certificates, key=lambda c: c.slack)
    restricted = sum(c.detail["restricted"] for c in certificates)
    return replace(worst, detail={**worst.detail, "policies": len(certificates), "all_restricted": restricted})


def _various(mdp: FiniteMDP, known: Solution, rng: np.random.Generator) -> list[Floats]:
    """Distinct policies of every kind: pi*, all of A, all of Abar, always one action, and random ones.

    Random are rows in A and in Abar, dense and sparse, single actions, and pi* with one step given over to chance.
    """
    one_hot, abar = np.eye(mdp.n_actions), known.safe_actions.astype(np.float64)
    abar = np.where(abar.any(axis=2, keepdims=True), abar, 1.0)
    best = one_hot[known.policy]
    found = [best, uniform(mdp), abar]
    found += [np.broadcast_to(one_hot[a], best.shape) for a in range(min(mdp.n_actions, RANDOM_POLICIES))]
    for _ in range(RANDOM_POLICIES):
        dense = random_policy(mdp, rng)
        sparse = np.where(dense < dense.max(axis=2, keepdims=True) / 4, 0.0, dense)
        slip, h = best.copy(), rng.integers(mdp.horizon)
        slip[h] = dense[h]
        single = one_hot[rng.integers(mdp.n_actions, size=best.shape[:2])]
        found += [dense, sparse, abar * dense + 1e-3 * abar, single, slip]
    rows = (np.ascontiguousarray(policy / policy.sum(axis=2, keepdims=True)) for policy in found)
    return list({policy.tobytes(): policy for policy in rows}.values())


def _name_first(mdp: FiniteMDP, states: NDArray[np.int64]) -> str | None:
    """The name of the first of these states; None if there are none."""
    return _name(mdp, states[0]) if len(states) else None


def _name(mdp: FiniteMDP, state: np.integer[Any] | int) -> str:
    return f"{mdp.state_names[int(state)]} (index {int(state)})"
