"""The paper's lemmas, each as something that runs, and the counterexamples to what it leaves out.

Legend: V_r, V_c values of a policy, V_c^* the least reset probability over all policies, V* the best reset-free value;
Q_r, Q_c [H, S, A] a learner's estimates, pi the softmax of alpha (Q_r - lam Q_c), V_r^Q = <pi, Q_r>, V_c^Q = <pi, Q_c>;
r + P V and P V one step of the true model (arriving in a reset state has value 0 and cost 1); g(y) the maximum over all
policies of V_r - y V_c; R_p, R_d the players' regrets.
"""

from collections.abc import Sequence
from math import log
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import Floats, InvalidInput, PositiveInt, Probability, Rule, check, expect
from resetfree.core.certificate import Certificate, over_rounds
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.backward import exponential_weights
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.registry import make
from resetfree.theory.oracle.dynamic_programming import Solution, Values, best_response, evaluate, solve, temptation
from resetfree.theory.oracle.fractions import ZERO, evaluate_exactly, exact_model, exact_policy, solve_exactly
from resetfree.theory.oracle.linear_program import best_value, constrained_value, unseen_value
from resetfree.theory.regret import Rounds, dual_regret, primal_regret

TOLERANCE = 1e-9  # per unit of value
FAR = 1e6  # times lambda_hat + 1: a multiplier as good as infinite


def softmax(x: ArrayLike) -> Floats:
    """Softmax of each row [n, A], by the kernel that the players use."""
    rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
    if not (rows.ndim == 2 and rows.size and np.isfinite(rows).all()):
        raise InvalidInput(f"The rows of softmax must be finite numbers of shape [n, A]. Got {rows.shape} instead.")
    result = np.empty((1, *rows.shape))
    exponential_weights(rows[None], 1.0, result)
    return np.asarray(result[0])


def softmax_gap(q: ArrayLike, alpha: float) -> Certificate:
    """max_a q(a) - <softmax(alpha q), q> is at most log|A| / alpha, in every row [n, A].

    Paper: first softmax lemma, behind Lemma 3 of Ghosh et al.: the factor log|A| / alpha of every step.

    >>> softmax_gap([[0.0, 1.0, 1.0]], alpha=10.0).holds
    True
    """
    rows = np.atleast_2d(np.asarray(q, dtype=np.float64))
    expect(alpha > 0, "'alpha' of softmax_gap", "be a positive number", got=f"{alpha}")
    gap = rows.max(axis=1) - (softmax(alpha * rows) * rows).sum(axis=1)
    i = int(np.argmax(gap))
    tolerance = 1e-12 * (1.0 + float(np.abs(rows).max()))
    claim = "the largest value exceeds its mean under the softmax by at most log|A| / alpha"
    bound = log(rows.shape[1]) / alpha
    return Certificate(claim, gap[i], bound, tolerance, witness=f"row {i}", detail={"rows": len(rows)})


def softmax_lipschitz(x: ArrayLike, y: ArrayLike) -> Certificate:
    """The summed difference of softmax(x) and softmax(y) is at most the largest difference of x and y, rows [n, A].

    Paper: second softmax lemma, behind Lemma 4 of Ghosh et al.: the cover of the values needs a Lipschitz softmax.

    Proof. Along the segment the derivative in direction v is p_i (v_i - <p, v>), whose summed size is the mean distance
    of v from its mean under p, at most max |v|. Proved widths use the constant 1; others may be found with 2.
    """
    a, b = (np.atleast_2d(np.asarray(rows, dtype=np.float64)) for rows in (x, y))
    expect(a.shape == b.shape, "rows of softmax_lipschitz", "have one shape", got=f"{a.shape} and {b.shape}")
    moved, by = np.abs(softmax(a) - softmax(b)).sum(axis=1), np.abs(a - b).max(axis=1)
    i = int(np.argmax(moved - by))
    claim = "softmax moves by at most what its argument moves by (sum against maximum)"
    return Certificate(claim, moved[i], by[i], 1e-12, "<=", witness=f"row {i}", detail={"rows": len(a)})


class _Planned(NamedTuple):
    """A learner's estimates beside the truth of one step."""

    policy: Floats  # [H, S, A]
    v_r: Floats  # [H, S]
    v_c: Floats  # [H, S]
    true_r: Floats  # [H, S, A] r + P V_r^Q
    true_c: Floats  # [H, S, A] P V_c^Q


def _planned(mdp: FiniteMDP, q_r: Floats, q_c: Floats, lam: float, alpha: float) -> _Planned:
    shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
    if q_r.shape != shape or q_c.shape != shape or not lam >= 0 or not alpha > 0:
        raise InvalidInput(
            f"The estimates must have shape {shape}, with lam >= 0 and alpha > 0. Got {q_r.shape}, {q_c.shape}, "
            f"{lam} and {alpha} instead."
        )
    policy = softmax(alpha * (q_r - lam * q_c).reshape(-1, mdp.n_actions)).reshape(shape)
    v_r, v_c = (policy * q_r).sum(axis=2), (policy * q_c).sum(axis=2)
    true_r, true_c = np.broadcast_to(mdp.reward, shape).copy(), np.zeros(shape)
    for h in range(mdp.n_transitions):
        after = (v_r[h + 1], v_c[h + 1]) if h + 1 < mdp.horizon else (np.zeros(mdp.n_states),) * 2
        true_r[h] += _expected(mdp, h, after[0], 0.0)
        true_c[h] += _expected(mdp, h, after[1], 1.0)
    return _Planned(policy, v_r, v_c, true_r, true_c)


def _expected(mdp: FiniteMDP, h: int, after: Floats, at_reset: float) -> Floats:
    """[S, A] the mean of `after` [S] behind the transition of step h (from 0), `at_reset` where it is a reset."""
    is_reset = mdp.last_reset if h == mdp.n_transitions - 1 else mdp.reset
    matrix = mdp.transition.matrix(0 if mdp.transition.stationary else h)
    return np.asarray(matrix @ np.where(is_reset, at_reset, after)).reshape(mdp.n_states, mdp.n_actions)


def composite_optimism(mdp: FiniteMDP, q_r: Floats, q_c: Floats, lam: float, alpha: float) -> list[Certificate]:
    """If Q_r is at least, and Q_c at most, one true step of its own values, no policy has more value than the softmax.

    Paper: Lemma 3 of Ghosh et al., for any comparator: the composite of one episode, whose sum over episodes is T_1.

    The first two certificates are what it rests on (the confidence event); the third is the maximum over ALL policies,
    from the worst start: V_r^pi - lam V_c^pi <= V_r^Q - lam V_c^Q + H log|A| / alpha.
    """
    planned, acting = _planned(mdp, q_r, q_c, lam, alpha), ~mdp.reset
    tolerance = TOLERANCE * (mdp.horizon + lam)
    response = best_response(mdp, lam)
    most = (response.v_r - lam * response.v_c)[acting]
    upper = (planned.v_r - lam * planned.v_c)[0, acting] + mdp.horizon * log(mdp.n_actions) / alpha
    i = int(np.argmax(most - upper))
    claim = "no policy has V_r - lam V_c above the planned one by more than H log|A| / alpha"
    start = mdp.state_names[int(np.flatnonzero(acting)[i])]
    return [
        _tightest("Q_r is at least one true step of its own values", planned.true_r, q_r, acting, tolerance),
        _tightest("Q_c is at most one true step of its own values", q_c, planned.true_c, acting, tolerance),
        Certificate(claim, most[i], upper[i], tolerance, witness=start),
    ]


def _tightest(claim: str, left: Floats, right: Floats, acting: Any, tolerance: float) -> Certificate:
    slack = np.where(acting[None, :, None], right - left, np.inf)
    at = np.unravel_index(int(np.argmin(slack)), slack.shape)
    where = f"step {at[0] + 1}, state {at[1]}, action {at[2]}"
    return Certificate(claim, left[at], right[at], tolerance, witness=where)


def overestimates(mdp: FiniteMDP, q_r: Floats, q_c: Floats, lam: float, alpha: float) -> list[Certificate]:
    """What the planned values promise beyond the policy's true ones is the sum of the gaps of one step, on its path.

    Paper: Lemma 4 of Ghosh et al.: overestimates are sums of bonuses along the episodes, before these are bounded.

    V_r^Q - V_r^pi = E_pi sum_h (Q_r - r - P V_r^Q)(s_h, a_h), and likewise for the cost, for any Q; the largest
    difference of the two sides over all starts. With gaps of at most 2 beta |phi| the elliptical bound gives the rate.
    """
    planned, acting = _planned(mdp, q_r, q_c, lam, alpha), ~mdp.reset
    gaps = {"reward": q_r - planned.true_r, "cost": q_c - planned.true_c}
    truth = evaluate(mdp, planned.policy)
    found = []
    for what, promised, true in (("reward", planned.v_r[0], truth.v_r), ("cost", planned.v_c[0], truth.v_c)):
        total = _along(mdp, planned.policy, gaps[what])
        off = np.where(acting, np.abs((promised - true) - total), 0.0)
        s = int(np.argmax(off))
        claim = f"the {what}'s overestimate is the expected sum of its one-step gaps (largest difference)"
        tolerance = TOLERANCE * mdp.horizon * (1.0 + float(np.abs(gaps[what]).max()))
        found.append(Certificate(claim, off[s], 0.0, tolerance, "==", witness=mdp.state_names[s]))
    return found


def _along(mdp: FiniteMDP, policy: Floats, step: Floats) -> Floats:
    """[S] E_pi sum_h step_h(s_h, a_h) until a reset or the end, from every start."""
    after = np.zeros(mdp.n_states)
    for h in range(mdp.horizon - 1, -1, -1):
        now = step[h] + _expected(mdp, h, after, 0.0) if h < mdp.n_transitions else step[h]
        after = np.where(mdp.reset, 0.0, (policy[h] * now).sum(axis=1))
    return after


def performance_difference(mdp: FiniteMDP, policy: ArrayLike) -> list[Certificate]:
    """V_c^pi - V_c^* = E_pi sum_h (Q_c^* - V_c^*)(s_h, a_h) from every start, in exact fractions.

    Paper: performance difference lemma (Kakade and Langford), which carries the lemma on restricted policies.

    The equality is an identity (it telescopes for any function in place of V_c^*); that no Q_c^* is below its V_c^* is
    what makes V_c^* the least, and is what the lemma on restricted policies draws from it.

    Raises InvalidInput for problems too large for fractions, and what `exact_model` raises.
    """
    model, rows = exact_model(mdp), exact_policy(mdp, policy)
    v_c, least = evaluate_exactly(mdp, policy).v_c, solve_exactly(mdp, starts=[]).least_cost
    n = mdp.n_states
    nothing, after = [ZERO] * n, [ZERO] * n
    lowest, where = ZERO, None
    for h in reversed(range(mdp.horizon)):
        now = [ZERO] * n
        for s in range(n):
            for a, weight in enumerate(rows[h][s] if not mdp.reset[s] else ()):
                advantage = model.act(h, s, a, nothing, least[h + 1]).v_c - least[h][s]
                if advantage < lowest:
                    lowest, where = advantage, f"step {h + 1}, state {mdp.state_names[s]}, {mdp.action_names[a]}"
                if weight:
                    onwards = model.act(h, s, a, after, nothing).v_r - model.reward[h % len(model.reward)][s][a]
                    now[s] += weight * (advantage + onwards)
        after = now
    starts = [s for s in range(n) if not mdp.reset[s]]
    worst = max(starts, key=lambda s: abs(v_c[s] - least[0][s] - after[s]))
    same = "V_c less the least V_c is the expected sum of the advantages, as fractions (largest difference)"
    off = float(abs(v_c[worst] - least[0][worst] - after[worst]))
    detail = {"starts": len(starts), "largest": float(max(after))}
    signs = "no advantage over the least V_c is negative (lowest one)"
    return [
        Certificate(same, off, 0.0, 0.0, "==", witness=mdp.state_names[worst], detail=detail),
        Certificate(signs, 0.0, float(lowest), 0.0, witness=where),
    ]


def comparator_pair(
    rounds: Rounds,
    v_r_hat: ArrayLike,
    v_c_hat: ArrayLike,
    comparator: Values,
    at_starts: ArrayLike,
    *,
    online: ArrayLike,
    soft: ArrayLike,
) -> list[Certificate]:
    """R_p(pi_c) + R_d(lambda_c) for any pair of comparators: an identity, and the bound by what plans overestimate.

    Paper: the appendix's lemma for any comparator pair pi_c, lambda_c.

    The sum is sum_k L^k(pi_c, lam^k) - L^k(pi^k, lambda_c), in which L^k(pi^k, lam^k) has gone: an identity. And it is
    at most online + soft + sum_k (V_r^k - V_r^{pi^k}) + lambda_c(s_1^k) (V_c^{pi^k} - V_c^k), if the dual player's
    regret on its feedback is at most `online` and the composite of each plan is optimistic.

    v_r_hat, v_c_hat: [K] the plans' values V_r^k, V_c^k, the dual player's feedback.  comparator: values of pi_c.
    at_starts: [K] lambda_c(s_1^k).  online, soft: [K] the bounds 1.5 B sqrt(k) and k H log|A| / alpha.
    """
    lam_c, hat_r, hat_c = (np.asarray(x, dtype=np.float64) for x in (at_starts, v_r_hat, v_c_hat))
    both = primal_regret(rounds, comparator) + dual_regret(rounds, at_starts=lam_c)
    pair = comparator.v_r[rounds.s1] - rounds.lam * comparator.v_c[rounds.s1]
    crossed = np.cumsum(pair - (rounds.v_r - lam_c * rounds.v_c))
    over = np.cumsum(hat_r - rounds.v_r + lam_c * (rounds.v_c - hat_c))
    size = np.cumsum(np.abs(pair) + np.abs(rounds.v_r) + (np.abs(lam_c) + np.abs(rounds.lam)) * (1.0 + rounds.v_c))
    bound = np.asarray(online) + np.asarray(soft) + over
    same = "R_p(pi_c) + R_d(lambda_c) is the sum of the crossed Lagrangians"
    most = "R_p(pi_c) + R_d(lambda_c) is at most the dual bound, the softmax's share and the overestimates"
    return [
        over_rounds(same, both, crossed, TOLERANCE * size, "=="),
        over_rounds(most, both, bound, TOLERANCE * size),
    ]


def strong_duality(mdp: FiniteMDP, solution: Solution | None = None) -> list[Certificate]:
    """max_pi min_y and min_y max_pi of V_r - y V_c are equal at every start: each CMDP by itself has no duality gap.

    Paper: each CMDP's primal and dual optimal values match (linear program).

    The left side is a linear program over occupancies, which knows no multiplier; the right is g(lambda_hat), dynamic
    programming over all policies, which knows no constraint. That g is nowhere smaller is tried around lambda_hat.
    """
    known = solve(mdp) if solution is None else solution
    starts = known.starts[np.isfinite(known.lambda_hat[known.starts])]
    claims = ("max min equals min max of V_r - y V_c, from the worst start", "g(y) is at least V* for every y tried")
    if not len(starts):
        return [Certificate(claim, 0.0, 0.0, detail={"starts": 0}) for claim in claims]
    primal = np.array([best_value(mdp, np.eye(1, mdp.n_states, int(s))[0]) for s in starts])
    hat = known.lambda_hat[starts]
    dual = _g(known, starts, hat)
    i = int(np.argmax(np.abs(primal - dual)))
    tolerance = 1e-7 * mdp.horizon + unseen_value(mdp)  # the linear program's own
    tried = np.stack([_g(known, starts, factor * hat + more) for factor in (0.0, 0.5, 1.0, 2.0) for more in (0.0, 1.0)])
    j = int(np.argmin((tried - primal).min(axis=0)))
    names, detail = mdp.state_names, {"starts": len(starts)}
    return [
        Certificate(claims[0], primal[i], dual[i], tolerance, "==", witness=names[starts[i]], detail=detail),
        Certificate(claims[1], primal[j], tried[:, j].min(), tolerance, witness=names[starts[j]]),
    ]


def _g(known: Solution, starts: Any, multipliers: Floats) -> Floats:
    """[n] g(y) of each start at its own y, as the best policy's excess over a baseline plus the baseline's value."""
    baseline, result = evaluate(known.mdp, known.policy).v_r, np.empty(len(starts))
    for i, (s, y) in enumerate(zip(starts.tolist(), multipliers.tolist(), strict=True)):
        result[i] = baseline[s] + temptation(known.mdp, y, known.policy).excess[s]
    return result


def no_slater(mdp: FiniteMDP, solution: Solution | None = None) -> list[Certificate]:
    """No policy is strictly feasible at threshold zero, so multipliers have no upper end: every y >= lambda_hat is one.

    Paper: Slater's condition does not hold for these CMDPs, and the proof does not use it.

    Slater needs a policy with V_c < 0. The least V_c over ALL policies is computed (V_c alone, without rewards); the
    witness is a start at which it is exactly zero. A set of optimal multipliers that has no upper end is the other face
    of it: with slack e they would be at most H / e.
    """
    known = solve(mdp) if solution is None else solution
    starts = known.starts[np.isfinite(known.lambda_hat[known.starts])]
    claims = (
        "the least V_c over all policies is zero at every feasible start, never below (largest difference)",
        "g(y) is V* for y a million times lambda_hat + 1 as well (largest difference)",
    )
    if not len(starts):
        return [Certificate(claim, 0.0, 0.0, 0.0, "==", detail={"starts": 0}) for claim in claims]
    least = best_response(mdp.replace(reward=np.zeros((mdp.n_states, mdp.n_actions))), 1.0).v_c[starts]
    i = int(np.argmax(np.abs(least)))
    off = np.abs(_g(known, starts, FAR * known.lambda_star[starts]) - known.value[starts])
    j = int(np.argmax(off))
    names, detail = mdp.state_names, {"starts": len(starts)}
    return [
        Certificate(claims[0], least[i], 0.0, 0.0, "==", witness=names[starts[i]], detail=detail),
        Certificate(claims[1], off[j], 0.0, TOLERANCE * mdp.horizon, "==", witness=names[starts[j]]),
    ]


def no_attained_multiplier(bins: int | Sequence[int] = (5, 10, 20)) -> list[Certificate]:
    """With infinitely many states the infimum over multipliers need not be attained.

    Paper: hat lambda in argmin_y max_pi V_r - y V_c, which needs finitely many states or a gap.

    From s1 to x uniform on [0, 1]; there "safe" pays 0, "risky" pays 1 and resets with probability x^2. So V* = 0 and
    g(y) = max_pi V_r - y V_c = E max(0, 1 - y x^2) = (2/3) / sqrt(y) for y >= 1: positive for every y, with infimum 0.
    Cut into n bins the problem has lambda_hat = 4 n^2, which grows without bound.

    bins: the number of bins of `no-multiplier-v0`, or several to try.
    """
    from scipy.integrate import quad

    tried = [bins] if isinstance(bins, int) else list(bins)
    check(tried, Annotated[list[PositiveInt], Rule(bool, "positive integers")], "'bins' of no_attained_multiplier")
    ys = (1.0, 2.0, 10.0, 1e3, 1e6, 1e9)
    # The integrand has its kink at 1/sqrt(y), beyond which it is zero: the integral ends there.
    integrals = [float(quad(lambda x, y=y: 1.0 - y * x * x, 0.0, y**-0.5)[0]) for y in ys]
    formulas = [2.0 / (3.0 * y**0.5) for y in ys]
    off = [abs(i - f) / f for i, f in zip(integrals, formulas, strict=True)]
    worst = int(np.argmax(off))
    same = "g(y) = (2/3) / sqrt(y), by quadrature (at the y with the largest relative difference)"
    above = "g(y) stays above its infimum 0 = V*, however large y is"
    at, formula, detail = f"y = {ys[worst]:g}", formulas[worst], {"y": list(ys), "g": integrals}
    found = [
        Certificate(same, integrals[worst], formula, 1e-12 * formula, "==", witness=at, detail=detail),
        Certificate(above, 0.0, integrals[-1], 1e-12, "<", witness=f"y = {ys[-1]:g}"),
    ]
    for n in tried:
        mdp = make("no-multiplier-v0", bins=n)
        start = mdp.state_names.index("s1")
        hat = solve(mdp, starts=[start]).lambda_hat[start]
        claim = f"cut into {n} bins, lambda_hat(s1) is 4 n^2"
        found.append(Certificate(claim, hat, 4.0 * n * n, 1e-9 * 4 * n * n, "==", witness="s1"))
    return found


def no_shared_optimum_above_zero(threshold: float = 0.5) -> list[Certificate]:
    """With a budget of resets above zero, two starts can need two policies; with a budget of zero they never do.

    Paper: CMDPs with different initial states share no Markovian optimum in general.

    `thresholds-v0`: A leads to s, B leads to s half of the time; at s "risky" pays 1 and resets. Both values are linear
    in p = pi(risky | s), so the optima under V_c <= budget are exact: separately p is as large as one start's budget
    allows, together as large as both allow. At 1/2 they are 1/2 + 1/2 against 1/2 + 1/4.
    """
    check(threshold, Probability, "'threshold' of no_shared_optimum_above_zero")
    mdp = make("thresholds-v0")
    a, b, s = (mdp.state_names.index(name) for name in ("A", "B", "s"))
    policy = np.full(mdp.n_states, mdp.action_names.index("safe"))
    safe = evaluate(mdp, policy)
    policy[s] = mdp.action_names.index("risky")
    risky = evaluate(mdp, policy)

    def value(start: int, p: float) -> float:
        return float(safe.v_r[start] + p * (risky.v_r - safe.v_r)[start])

    def largest(start: int, budget: float) -> float:
        """The largest p with V_c <= budget from this start."""
        return float(min(1.0, (budget - safe.v_c[start]) / (risky.v_c - safe.v_c)[start]))

    def optima(budget: float) -> tuple[float, float]:
        separate = {start: largest(start, budget) for start in (a, b)}
        shared = min(separate.values())
        return value(a, shared) + value(b, shared), sum(value(start, p) for start, p in separate.items())

    above, zero = optima(threshold), optima(0.0)
    detail = {"p_from_A": largest(a, threshold), "p_from_B": largest(b, threshold)}
    less = f"with a budget of {threshold:g} resets the best shared policy earns less than the best ones for A and B"
    return [
        Certificate(less, *above, 1e-12, "<", witness="A and B", detail=detail),
        Certificate("with a budget of zero it earns the same", *zero, 1e-12, "==", witness="A and B"),
    ]


def non_markovian_saddle_point(threshold: float = 0.5) -> list[Certificate]:
    """Where two starts need two policies, one policy that remembers its start serves both: it is not Markovian.

    Paper: a shared saddle-point with a non-Markovian policy always exists (footnote).

    `thresholds-v0` with a budget above zero. Each start's best policy is found by a linear program; together, chosen by
    the start that was seen, they are one policy of histories, evaluated as a Markovian one of the problem whose
    states carry the start along (as contexts that never change). It earns what both optima earn, and every Markovian
    policy less. With y = 1 where the budget is used up and 0 where it is not, (policy, y) is a saddle-point from A and
    from B: y (V_c - budget) = 0, and no policy at all has V_r - y (V_c - budget) above its own.
    """
    markovian = no_shared_optimum_above_zero(threshold)[0]
    mdp = make("thresholds-v0")
    starts = [mdp.state_names.index(name) for name in ("A", "B")]
    best = [constrained_value(mdp, np.eye(mdp.n_states)[s], threshold) for s in starts]
    remembering = with_contexts([mdp, mdp], np.eye(2))
    values = evaluate(remembering, np.concatenate([one.policy for one in best], axis=1))
    here = [c * mdp.n_states + s for c, s in enumerate(starts)]
    earned, starts_named = values.v_r[here].sum(), "A and B"
    same = "the policy that remembers its start earns what the best ones for A and B earn"
    within = "it stays within the budget from both starts (largest V_c)"
    found = [
        Certificate(same, earned, sum(one.value for one in best), 1e-9, "==", witness=starts_named),
        Certificate(within, values.v_c[here].max(), threshold, 1e-9, witness=starts_named),
        Certificate("every Markovian policy earns less", markovian.lhs, earned, 1e-9, "<", witness=starts_named),
    ]
    for s, i in zip(starts, here, strict=True):
        y = 1.0 if values.v_c[i] > threshold - 1e-9 else 0.0
        most, name = best_response(mdp, y), mdp.state_names[s]
        left, own = most.v_r[s] - y * (most.v_c[s] - threshold), values.v_r[i] - y * (values.v_c[i] - threshold)
        slack = f"y is zero where the budget is not used up, from {name}"
        found.append(Certificate(slack, own, values.v_r[i], 1e-9, "==", witness=name))
        least = f"no policy has V_r - y (V_c - budget) above its own, from {name}"
        found.append(Certificate(least, left, own, 1e-9, witness=name))
    return found
