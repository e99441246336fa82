"""The linear programs: known values, budgets above zero, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from resetfree import AssumptionViolated, FiniteMDP, InvalidInput, NotCertifiable, evaluate, make, solve
from resetfree.theory.assumptions import close
from resetfree.theory.oracle.linear_program import best_value, constrained_value, least_multiplier


def start(mdp: FiniteMDP, s: int) -> Any:
    return np.eye(mdp.n_states)[s]


def trap(p: float = 0.5, horizon: int = 2, **options: Any) -> FiniteMDP:
    """State 0: stay for nothing, or earn 1 and fall into state 1 with probability p, from where the pit is next."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[1, :, 2] = 1.0
    transition[0, 1] = [1.0 - p, p, 0.0]
    return FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [False, False, True], horizon, **options)


def test_the_grid_is_solved_to_the_last_digits() -> None:
    mdp = make("grid-v0")
    answer = solve(mdp)
    for s in np.flatnonzero(answer.feasible):
        value = best_value(mdp, start(mdp, int(s)))
        assert value == pytest.approx(answer.value[s], abs=1e-12)
        assert least_multiplier(mdp, int(s), value) == pytest.approx(answer.lambda_hat[s], rel=1e-10, abs=1e-10)


def test_a_positive_budget_has_no_policy_for_all_starts() -> None:
    """From A, "risky" half of the time at s; from B, always; with no budget, never, for both."""
    mdp = make("thresholds-v0")
    a, b, s = (mdp.state_names.index(name) for name in "ABs")
    risky = mdp.action_names.index("risky")
    for home, budget, reward, chance in (
        (a, 0.5, 0.5, 0.5),
        (b, 0.5, 0.5, 1.0),
        (a, 0.0, 0.0, 0.0),
        (b, 0.0, 0.0, 0.0),
    ):
        value, policy = constrained_value(mdp, start(mdp, home), budget)
        assert value == pytest.approx(reward, abs=1e-12)
        assert policy[1, s, risky] == pytest.approx(chance, abs=1e-9)
        assert np.allclose(policy.sum(axis=2), 1)
        assert evaluate(mdp, policy).v_c[home] <= budget + 1e-9
        assert evaluate(mdp, policy).v_r[home] == pytest.approx(reward, abs=1e-9)


def test_the_multiplier_is_the_price_of_the_first_reset() -> None:
    """A budget e buys at most lambda_hat * e more reward, and exactly that much while e is small."""
    mdp = make("grid-v0")
    answer, s = solve(mdp), 2
    gains = [constrained_value(mdp, start(mdp, s), e).value - answer.value[s] for e in (0.0, 1e-4, 1e-3, 1e-2, 1.0)]
    assert gains[0] == pytest.approx(0, abs=1e-10)
    assert gains[1] / 1e-4 == pytest.approx(answer.lambda_hat[s], rel=1e-6)
    for gain, e in zip(gains, (0.0, 1e-4, 1e-3, 1e-2, 1.0), strict=True):
        assert gain <= answer.lambda_hat[s] * e + 1e-9
    assert gains == sorted(gains)


def test_where_nothing_is_reached_the_policy_is_uniform() -> None:
    _, policy = constrained_value(trap(), start(trap(), 0), 0.0)
    assert policy[1, 1].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["physical", "literal"])
def test_the_end_of_the_episode_counts_as_it_is_read(horizon: int, boundary: Any) -> None:
    mdp = trap(horizon=horizon, boundary=boundary)
    closed = mdp.replace(end_reset=[False, True, False])
    # Falling is a reset one step later, or at the end with end_reset: it is free as late as that step does not come.
    late = 1.0 if horizon == 1 else 1.5
    earns = {("physical", False): 1.0, ("literal", False): late, ("physical", True): 0.0, ("literal", True): 1.0}
    for problem, ended in ((mdp, False), (closed, True)):
        value = best_value(problem, start(problem, 0))
        assert value == pytest.approx(earns[boundary, ended], abs=1e-12)
        assert value == pytest.approx(solve(problem).value[0], abs=1e-12)
        wanted = solve(problem).lambda_hat[0]
        assert least_multiplier(problem, 0, value) == pytest.approx(wanted, abs=1e-9)


def test_a_closed_problem_is_feasible_for_the_program_too() -> None:
    problem = close(trap())
    assert best_value(problem, problem.start) == pytest.approx(
        float(problem.start @ np.nan_to_num(solve(problem).value))
    )


def test_what_cannot_be_answered_is_refused() -> None:
    mdp = trap()
    with pytest.raises(AssumptionViolated, match=r"from state 1 \(index 1\)") as caught:
        best_value(mdp, [0.5, 0.5, 0.0])
    assert caught.value.witness == 1
    with pytest.raises(AssumptionViolated, match=r"reset probability of 0\.5 or less"):
        constrained_value(mdp, [0.0, 1.0, 0.0], 0.5)
    with pytest.raises(AssumptionViolated, match="No multiplier"):
        least_multiplier(mdp, 0, 0.5)
    with pytest.raises(InvalidInput, match="distribution over 3 states"):
        best_value(mdp, [0.5, 0.4, 0.0])
    with pytest.raises(InvalidInput, match="outside the reset set"):
        best_value(mdp, [0.5, 0.0, 0.5])
    with pytest.raises(InvalidInput, match="outside the reset set"):
        least_multiplier(mdp, 2, 0.0)
    with pytest.raises(InvalidInput, match="must be a number from 0 to 1"):
        constrained_value(mdp, [1.0, 0.0, 0.0], 1.5)
    for refused in (
        lambda mdp: constrained_value(mdp, [1.0, 0.0, 0.0], 0.5),
        lambda mdp: least_multiplier(mdp, 0, 0.0),
    ):
        with pytest.raises(NotCertifiable, match=r"above 1e-09 only\. Got 1e-12"):
            refused(trap(1e-12))
