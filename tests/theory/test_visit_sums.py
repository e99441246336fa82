"""What proved widths cost over a run, by enumeration."""

from math import inf, log, sqrt
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.linear.linear_ucb import LinearUCB
from resetfree.problems.finite.safety import safe_sets
from resetfree.theory.certificates import RATES, certify
from resetfree.theory.proved_widths import IntervalWidth, kl_lower
from resetfree.theory.visit_sums import falls_while_light


def kl(a: float, b: float) -> float:
    return sum(x * log(x / y) if y > 0 else inf for x, y in ((a, b), (1 - a, 1 - b)) if x > 0)


def lower_end(share: float, x: float) -> float:
    """The smallest q with kl(share, q) <= x, by halving."""
    low, high = 0.0, share
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if kl(share, middle) <= x else (middle, high)
    return high


def falls_by_counting(g: float, theta: float, L: float, most: int) -> int:
    """One more than the largest b with which an edge is light, over all n and b that the intervals allow."""
    worst = 0
    for n in range(1, most):
        x = (L + log(2 * sqrt(n))) / n
        for b in range(worst + 1, n + 1):
            if kl(b / n, g) <= x and lower_end(b / n, x) < theta * g:
                worst = b
    return worst + 1


@pytest.mark.parametrize("g", [1.0, 0.8, 0.3])
@pytest.mark.parametrize(("theta", "L"), [(0.3, 2.0), (0.1, 4.0), (1e-2, 6.0)])
def test_an_edge_is_light_as_often_as_counting_says(g: float, theta: float, L: float) -> None:
    """Within one of it, so that a radius without log(2 sqrt(n)), or a tenth less of it, does not do."""
    found = falls_while_light(g, theta, IntervalWidth(L, 0.0, 0.0))
    counted = falls_by_counting(g, theta, L, 160)
    assert counted <= found <= counted + 1
    without = falls_while_light(g, theta, IntervalWidth(L - 1.5 * log(2), 0.0, 0.0))
    assert without < found or found <= 5


def test_lower_ends_are_superadditive() -> None:
    rng = np.random.default_rng(1)
    for a, b, x in zip(rng.random(2000) / 2, rng.random(2000) / 2, 10 ** rng.uniform(-4, 1, 2000), strict=True):
        assert kl_lower(a + b, x) >= kl_lower(a, x) + kl_lower(b, x) - 1e-11


def test_the_estimated_cost_of_every_safe_state_is_at_most_what_is_left_over_the_price() -> None:
    """lam V_c^k <= (H - h + 1)(1 + log|A| / alpha) in every safe state of every step, in every round."""
    for seed in range(6):
        mdp = rf.make("generated-v0", draw=(0, 1, 2, 7, 8, 9)[seed])
        problem, C, alpha, A = mdp.problem(), 50.0 * (seed + 1), 3.0, mdp.n_actions
        primal, dual = LinearUCB(B=C, width="proved", pooled=mdp.stationary, alpha=alpha), ConstantPenalty(B=C)
        game, safe = begin(problem, primal, dual, episodes=120, seed=seed), safe_sets(mdp)
        for _ in play(problem, primal, dual, game, episodes=120):
            policy, _, _, _, q_c = primal.backward(game.primal, C)
            v_c = (policy * q_c.reshape(policy.shape)).sum(axis=2)
            for h in range(1, mdp.horizon + 1):
                left = (mdp.horizon + 1 - h) * (1 + log(A) / alpha)
                assert C * v_c[h - 1][safe.states(h)].max(initial=0.0) <= left + 1e-9


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_certified_resets_are_within_ten_times_what_happens(factor: float) -> None:
    """On grid-v0; 2,000 episodes, of which the bound is a few per cent."""
    B = factor * (1 + float(np.nanmax(rf.solve(rf.make("grid-v0")).lambda_hat)))
    settings: dict[str, dict[str, Any]] = {
        "primal": {"B": B, "width": "proved", "pooled": True, "alpha": 1e9},
        "dual": {"B": B},
    }
    run = rf.learn("grid-v0", "linear-ucb", "constant-penalty", episodes=1000, seed=0, settings=settings)
    rate = next(c for c in certify(run) if c.claim == RATES[2])
    assert rate.status == "proved"
    assert rate.lhs <= rate.rhs <= 10 * run.realised_resets[-1]
    assert rate.detail["by"] == "unsafe edges and the price of a reset"
