"""Where probabilities are tiny: the support decides, multipliers are those of rational arithmetic, no claim is lost."""

import dataclasses
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.random_mdps import closed_mdp
from tests.property.strategies import exact, finite_problems

import resetfree as rf
from resetfree.problems.finite import backward as planning
from resetfree.theory.oracle import extended_range
from resetfree.theory.oracle.dynamic_programming import may_underflow, temptation
from resetfree.theory.oracle.fractions import solve_exactly
from resetfree.theory.oracle.linear_program import best_value, unseen_value
from resetfree.theory.theorems import least_multiplier, saddle_point


def lottery(win: float, risks: tuple[float, ...], pay: float = 1.0) -> rf.FiniteMDP:
    """At home: stay for nothing, or a chance `win` of pay that must be claimed where each of `risks` comes in turn.

    Only if every risk comes true is there a reset, so V_c is win times the product of the risks.
    """
    n = len(risks) + 2  # home, one state per risk, pit
    transition = np.zeros((n, 2, n))
    transition[0, 0, 0] = 1.0
    transition[0, 1, [0, 1]] = [1.0 - win, win]
    for i, risk in enumerate(risks, start=1):
        transition[i, :, 0] = 1.0 - risk
        transition[i, :, i + 1] = risk
    reward = np.zeros((n, 2))
    reward[1] = pay
    return rf.FiniteMDP(transition, reward, np.arange(n) == n - 1, len(risks) + 1)


def scaled(mdp: rf.FiniteMDP, tiny: float) -> rf.FiniteMDP:
    """The same support, in which every row's first successor is as good as certain and the others are `tiny`."""
    pattern, prob = mdp.transition, np.full(mdp.transition.nnz, tiny)
    filled = np.diff(pattern.indptr) > 0  # rows of reset states may be empty
    prob[pattern.indptr[:-1][filled]] = 1.0 - (np.diff(pattern.indptr)[filled] - 1) * tiny
    return mdp.replace(transition=dataclasses.replace(pattern, prob=prob))


@pytest.mark.parametrize(
    ("win", "risks", "pay"),
    [
        (1e-230, (1e-170,), 1.0),  # the gain is a float, the risk is not
        (0.5, (1e-200, 1e-100), 1e-130),
        (1e-200, (1e-160, 0.5), 1e-150),  # neither is
        (1e-300, (1e-300, 1e-7), 1e-300),  # the multiplier is 1e7
        (1e-300, (1e-20, 1e-300), 1e-299),
        (0.25, (0.125, 0.5), 0.75),  # nothing special
    ],
)
def test_a_multiplier_is_finite_where_the_exact_one_is(win: float, risks: tuple[float, ...], pay: float) -> None:
    mdp = lottery(win, risks, pay)
    truth = solve_exactly(mdp).lambda_hat[0]
    assert truth is not None
    assert 0 < float(truth) < inf
    assert rf.solve(mdp).lambda_hat[0] == pytest.approx(float(truth), rel=1e-12)
    found = rf.certify_problem(mdp)
    assert [c for c in found if not c.holds] == []
    assert all(c.applies for c in found)


def test_a_multiplier_beyond_every_float_is_infinite_and_said_to_be() -> None:
    mdp = lottery(0.5, (1e-200, 1e-200))
    solution = rf.solve(mdp)
    assert solution.lambda_hat[0] == inf
    saddle, least = saddle_point(mdp, np.nan_to_num(solution.lambda_hat, posinf=inf)), least_multiplier(mdp)
    assert saddle.detail.get("beyond_floats", 1) == 1
    for certificate in (saddle, least):
        assert "nan" not in str(certificate)
    assert [c for c in rf.certify_problem(mdp) if c.applies and not c.holds] == []


def test_the_claims_about_multipliers_can_still_fail() -> None:
    """Though what a millionth less would let a policy gain is 1e-236."""
    mdp = lottery(1e-230, (1e-170,))
    solution = rf.solve(mdp)
    solution.__dict__["lambda_hat"] = solution.lambda_hat * (1 + 1e-5)
    assert not least_multiplier(mdp, solution).holds
    assert not saddle_point(mdp, np.nan_to_num(rf.solve(mdp).lambda_hat) * (1 - 1e-6)).holds
    hat = rf.solve(mdp).lambda_hat[0]
    assert temptation(mdp, hat * (1 - 1e-9), rf.solve(mdp).policy).excess[0] > 0
    assert temptation(mdp, hat * (1 + 1e-9), rf.solve(mdp).policy).excess[0] == 0


@exact(100)
@given(mdp=finite_problems())
def test_extended_numbers_are_floats_bit_for_bit_where_nothing_underflows(mdp: rf.FiniteMDP) -> None:
    answer = rf.solve(mdp)
    assert not may_underflow(mdp)
    floats = planning.newton_multipliers(mdp.model, answer.policy, answer.starts)
    assert np.array_equal(floats, extended_range.newton_multipliers(mdp.model, answer.policy, answer.starts))
    policy, v_r, v_c = np.empty_like(answer.policy), np.empty(mdp.n_states), np.empty(mdp.n_states)
    extended_range.best_restricted(mdp.model, answer.safe.layers, answer.safe.layer_of_step, policy, v_r, v_c)
    assert np.array_equal(policy, answer.policy)
    assert np.array_equal(v_r[answer.feasible], answer.value[answer.feasible])
    assert np.array_equal(v_c[~mdp.reset], answer.cost[~mdp.reset])


@exact(60)
@given(mdp=finite_problems(), tiny=st.sampled_from([1e-12, 1e-60, 1e-150, 1e-300]))
def test_multipliers_of_tiny_probabilities_are_those_of_rational_arithmetic(mdp: rf.FiniteMDP, tiny: float) -> None:
    mdp = scaled(mdp, tiny)
    answer, truth = rf.solve(mdp), solve_exactly(mdp)
    for s in answer.starts.tolist():
        exact_one = truth.lambda_hat[s]
        assert exact_one is not None
        largest = Fraction(np.finfo(float).max)
        wanted = inf if exact_one > largest else float(exact_one)
        assert answer.lambda_hat[s] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("tiny", [1e-8, 1e-10, 1e-12, 1e-100, 1e-300])
@pytest.mark.parametrize("name", ["grid-v0", "thresholds-v0", "contexts-v0"])
def test_no_certificate_is_lost_to_a_small_probability(name: str, tiny: float) -> None:
    before = [c.claim for c in rf.certify_problem(rf.make(name))]
    after = rf.certify_problem(scaled(rf.make(name), tiny))
    assert [c.claim for c in after] == before
    assert all(c.holds for c in after), [str(c) for c in after if not c.holds]


@exact(40)
@given(seed=st.integers(0, 2**32 - 1), tiny=st.sampled_from([1e-10, 1e-20, 1e-200]))
def test_the_linear_program_decides_feasibility_on_the_support(seed: int, tiny: float) -> None:
    """What the solver cannot see in the probabilities it is told in bounds; the value is then that of the rest."""
    mdp = scaled(closed_mdp(seed), tiny)
    answer = rf.solve(mdp, starts=[])
    for s in np.flatnonzero(~mdp.reset):
        start = np.eye(mdp.n_states)[s]
        if answer.feasible[s]:
            assert best_value(mdp, start) == pytest.approx(answer.value[s], abs=1e-9 * mdp.horizon + unseen_value(mdp))
        else:
            with pytest.raises(rf.AssumptionViolated):
                best_value(mdp, start)


def test_the_value_that_the_solver_cannot_see_is_counted() -> None:
    """A row of 1000 successors of 9e-10 each, all of which pay: the program loses them, and the loss has a bound."""
    n, p = 1000, 9e-10
    transition = np.zeros((n + 1, 1, n + 1))
    transition[0, 0, 0], transition[0, 0, 1:] = 1.0 - n * p, p
    transition[1:, 0, 0] = 1.0
    reward = np.ones((n + 1, 1))
    reward[0] = 0.0
    mdp = rf.FiniteMDP(transition, reward, np.zeros(n + 1), 2)
    assert unseen_value(mdp) == pytest.approx(2 * 2 * n * p)
    value = rf.solve(mdp, starts=[]).value[0]
    assert abs(best_value(mdp, np.eye(n + 1)[0]) - value) <= unseen_value(mdp)
    assert value == pytest.approx(n * p)
