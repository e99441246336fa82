"""What the theorems cannot do without: finitely many states (or a gap), and a budget of exactly zero resets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from resetfree.core.certificate import Certificate
from resetfree.core.settings import PositiveInt, Probability, Rule, check
from resetfree.problems.finite.composed import with_contexts
from resetfree.problems.registry import make
from resetfree.theory.oracle.dynamic_programming import best_response, evaluate, solve
from resetfree.theory.oracle.linear_program import constrained_value


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
