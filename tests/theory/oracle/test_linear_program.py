"""Three ways to the exact answer of a finite problem agree."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import resetfree as rf
from resetfree.theory.oracle.fractions import best_lagrangian, evaluate_exactly, exact_model, solve_exactly
from resetfree.theory.oracle.linear_program import best_value, constrained_value, least_multiplier


def start(mdp: rf.FiniteMDP, s: int) -> Any:
    return np.eye(mdp.n_states)[s]


def trap(p: float = 0.5, horizon: int = 2, **options: Any) -> rf.FiniteMDP:
    """State 0: stay for nothing, or earn 1 and fall into state 1 with probability p, from where the pit is next."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[1, :, 2] = 1.0
    transition[0, 1] = [1.0 - p, p, 0.0]
    return rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [False, False, True], horizon, **options)


def test_a_positive_budget_has_no_policy_for_all_starts() -> None:
    """From A, "risky" half of the time at s; from B, always; with no budget, never, for both."""
    mdp = rf.make("thresholds-v0")
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
        assert rf.evaluate(mdp, policy).v_c[home] <= budget + 1e-9
        assert rf.evaluate(mdp, policy).v_r[home] == pytest.approx(reward, abs=1e-9)


def test_the_multiplier_is_the_price_of_the_first_reset() -> None:
    """A budget e buys at most lambda_hat * e more reward, and exactly that much while e is small."""
    mdp = rf.make("grid-v0")
    answer, s = rf.solve(mdp), 2
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
        assert value == pytest.approx(rf.solve(problem).value[0], abs=1e-12)
        wanted = rf.solve(problem).lambda_hat[0]
        assert least_multiplier(problem, 0, value) == pytest.approx(wanted, abs=1e-9)


def test_a_closed_problem_is_feasible_for_the_program_too() -> None:
    problem = rf.close(trap())
    assert best_value(problem, problem.start) == pytest.approx(
        float(problem.start @ np.nan_to_num(rf.solve(problem).value))
    )


def test_what_cannot_be_answered_is_refused() -> None:
    mdp = trap()
    with pytest.raises(rf.AssumptionViolated, match=r"from state 1 \(index 1\)") as caught:
        best_value(mdp, [0.5, 0.5, 0.0])
    assert caught.value.witness == 1
    with pytest.raises(rf.AssumptionViolated, match=r"reset probability of 0\.5 or less"):
        constrained_value(mdp, [0.0, 1.0, 0.0], 0.5)
    with pytest.raises(rf.AssumptionViolated, match="No multiplier"):
        least_multiplier(mdp, 0, 0.5)
    with pytest.raises(rf.InvalidInput, match="distribution over 3 states"):
        best_value(mdp, [0.5, 0.4, 0.0])
    with pytest.raises(rf.InvalidInput, match="outside the reset set"):
        best_value(mdp, [0.5, 0.0, 0.5])
    with pytest.raises(rf.InvalidInput, match="outside the reset set"):
        least_multiplier(mdp, 2, 0.0)
    with pytest.raises(rf.InvalidInput, match="must be a number from 0 to 1"):
        constrained_value(mdp, [1.0, 0.0, 0.0], 1.5)
    for refused in (
        lambda mdp: constrained_value(mdp, [1.0, 0.0, 0.0], 0.5),
        lambda mdp: least_multiplier(mdp, 0, 0.0),
    ):
        with pytest.raises(rf.NotCertifiable, match=r"above 1e-09 only\. Got 1e-12"):
            refused(trap(1e-12))


# The grid, cell by cell: best reset-free value and least optimal multiplier. Cells 5 and 6 are pits.


def coin(p: float) -> rf.FiniteMDP:
    """State 0: stay for nothing, or earn 1; the pit is two events of probability p away."""
    transition, support = np.zeros((3, 2, 3)), np.zeros((3, 2, 3), dtype=np.bool_)
    transition[0, 0, 0] = 1.0
    transition[0, 1], transition[1, :] = [1.0 - p, p, 0.0], [1.0 - p, 0.0, p]
    support[0, 0, 0] = support[0, 1, 0] = support[0, 1, 1] = support[1, :, 0] = support[1, :, 2] = True
    return rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [False, False, True], 2, support=support)


@pytest.mark.parametrize("p", [0.5, 1e-3, 1e-100, 1e-300])
def test_probabilities_of_any_size_are_numbers(p: float) -> None:
    """Floats lose the product p * p; fractions do not, and feasibility is decided on the number."""
    truth = solve_exactly(coin(p))
    assert truth.feasible == [True, False, False]
    # Safe: the risky action once, as the last one. Twice earns 1 - p more, and is reset if p happens twice.
    q = exact_model(coin(p)).rows[0][0][1][1][1]
    assert truth.value[0] == 1
    assert truth.lambda_hat[0] == (1 - q) / q**2
    assert float(truth.least_cost[0][1]) == pytest.approx(p)
    assert np.array_equal(rf.solve(coin(p)).feasible, truth.feasible)


def test_a_row_that_is_no_row_of_simple_fractions_is_divided_by_its_sum() -> None:
    weights = np.sqrt([2.0, 3.0, 5.0])
    transition = np.broadcast_to(weights / weights.sum(), (3, 1, 3))
    row = exact_model(rf.FiniteMDP(transition, np.zeros((3, 1)), np.zeros(3), 1)).rows[0][0][0]
    assert sum(p for _, p in row) == 1
    assert [float(p) for _, p in row] == pytest.approx(weights / weights.sum(), abs=1e-15)


def test_a_policy_is_read_as_a_problem_is() -> None:
    mdp = rf.make("thresholds-v0")
    third = np.full((mdp.n_states, 2), [1 / 3, 2 / 3])
    v_r, v_c = evaluate_exactly(mdp, third)
    a, b, pit = (mdp.state_names.index(name) for name in ("A", "B", "pit"))
    assert (v_r[a], v_c[a], v_r[b], v_c[b]) == (Fraction(2, 3), Fraction(2, 3), Fraction(1, 3), Fraction(1, 3))
    assert (v_r[pit], v_c[pit]) == (0, 1)


def test_the_best_response_trades_reward_for_resets_at_the_multiplier() -> None:
    """At s the risky action earns 1 and is reset: worth it for y < 1, not for y = 1 (ties go to fewer resets)."""
    mdp = rf.make("thresholds-v0")
    model, a = exact_model(mdp), mdp.state_names.index("A")
    for y, resets in ((Fraction(0), 1), (Fraction(999, 1000), 1), (Fraction(1), 0)):
        assert best_lagrangian(model, y).v_c[a] == resets
    assert solve_exactly(mdp).lambda_hat[a] == 1


def test_what_cannot_be_answered_is_refused_of_fractions() -> None:
    with pytest.raises(rf.NotCertifiable, match=r"Got 0\.0 in state 0, action 1"):
        exact_model(coin(0.0))
    with pytest.raises(rf.AssumptionViolated, match="from state 1") as caught:
        solve_exactly(coin(0.5), starts=[1])
    assert caught.value.witness == 1
    with pytest.raises(rf.AssumptionViolated, match="from state 7"):
        solve_exactly(coin(0.5), starts=[7])
    with pytest.raises(rf.InvalidInput, match="at most 200000 row entries"):
        exact_model(rf.make("continuous-linear-v0").discretise(200))
    with pytest.raises(rf.InvalidInput, match="distribution"):
        evaluate_exactly(coin(0.5), np.full((3, 2), 0.4))


def test_a_multiplier_too_large_for_a_float_is_infinite() -> None:
    p = 1e-200
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = 1
    transition[0, 1] = [1 - p, p, 0]
    transition[1, :] = [1 - p, 0, p]
    mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 2)
    assert rf.solve(mdp).lambda_hat[0] == np.inf


def test_a_risk_of_1e_300_has_its_multiplier() -> None:
    p = 1e-300
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 0] = transition[1, :, 0] = 1
    transition[0, 1] = [1 - p, 0, p]
    mdp = rf.FiniteMDP(transition, [[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]], [0, 0, 1], 1)
    assert rf.solve(mdp).lambda_hat[0] == pytest.approx(1e300)


@pytest.mark.parametrize("weights", [(0.7, 0.2, 0.1), (0.15, 0.15, 0.7), (0.3, 0.3, 0.4)])
@pytest.mark.parametrize("pay", [0.1, 0.3, 0.7, 0.9])
def test_rounding_is_not_divided_by_a_tiny_risk(weights: tuple[float, ...], pay: float) -> None:
    """Two ways to the same reward, one with a risk of 1e-20: nothing is gained, so the multiplier is zero."""
    transition = np.zeros((5, 2, 5))
    transition[0, 0, 1:4] = weights
    transition[0, 1, [1, 4]] = [1 - 1e-20, 1e-20]
    transition[1:4, :, 0] = 1
    reward = np.zeros((5, 2))
    reward[1:4] = pay
    mdp = rf.FiniteMDP(transition, reward, [0, 0, 0, 0, 1], 4)
    assert rf.solve(mdp).lambda_hat[0] == 0


def test_multipliers_keep_their_digits_where_costs_are_small() -> None:
    """A state of a slippery field whose risk is small: Newton on values would lose ten digits here."""
    mdp = rf.make("pits-v0", n=8, slip=0.2)
    floats = rf.solve(mdp).lambda_hat
    starts = np.flatnonzero(floats > 0)[::6].tolist()
    exact = solve_exactly(mdp, starts).lambda_hat
    for s in starts:
        value = exact[s]
        assert value is not None
        assert floats[s] == pytest.approx(float(value), rel=1e-12)


def test_where_the_simplex_loses_its_way_another_method_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does for a multiplier of FrozenLake at H = 100."""
    mdp, simplex = rf.make("grid-v0"), scipy.optimize.linprog
    known = best_value(mdp, start(mdp, 2)), least_multiplier(mdp, 2, best_value(mdp, start(mdp, 2)))
    asked = []

    def lost(*program: Any, method: str, **parts: Any) -> Any:
        asked.append(method)
        found = simplex(*program, method=method, **parts)
        found.status = 4 if method == "highs-ds" else found.status
        return found

    monkeypatch.setattr(scipy.optimize, "linprog", lost)
    value = best_value(mdp, start(mdp, 2))
    assert (value, least_multiplier(mdp, 2, value)) == pytest.approx(known, abs=1e-6)
    assert set(asked) == {"highs-ds", "highs-ipm"}
