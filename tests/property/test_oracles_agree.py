"""Dynamic programming, the linear program and rational arithmetic give the same answers on random problems."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies import Floats, exact, finite_problems, policies

import resetfree as rf
from resetfree.problems.finite.safety import safe_sets
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.theory.oracle.dynamic_programming import best_response, can_leave, can_reset
from resetfree.theory.oracle.fractions import best_lagrangian, evaluate_exactly, exact_model, solve_exactly
from resetfree.theory.oracle.linear_program import best_value, least_multiplier


def close(left: float, right: float | Fraction, tolerance: float) -> bool:
    """Within a tolerance relative to max(1, |right|)."""
    return abs(left - float(right)) <= tolerance * max(1.0, abs(float(right)))


@exact(200)
@given(mdp=finite_problems())
def test_values_and_multipliers_are_those_of_rational_arithmetic(mdp: rf.FiniteMDP) -> None:
    answer, truth = rf.solve(mdp), solve_exactly(mdp)
    assert answer.feasible.tolist() == truth.feasible
    for s in np.flatnonzero(answer.feasible):
        value, multiplier = truth.value[s], truth.lambda_hat[s]
        assert value is not None
        assert multiplier is not None
        assert close(answer.value[s], value, 1e-12)
        assert close(answer.lambda_hat[s], multiplier, 1e-9)
    assert np.isnan(answer.value[~answer.feasible]).all()
    assert np.allclose(answer.cost, [float(c) for c in truth.least_cost[0]], rtol=0, atol=1e-12)


@exact(200)
@given(mdp=finite_problems())
def test_safe_actions_are_those_of_zero_reset_probability(mdp: rf.FiniteMDP) -> None:
    """What the support says of every step, computed as a number: Q_c = 0 where the least reset probability is 0."""
    safe, model, least = safe_sets(mdp), exact_model(mdp), solve_exactly(mdp, starts=[]).least_cost
    nothing = [Fraction(0)] * mdp.n_states
    for h in range(mdp.n_transitions):
        for s in np.flatnonzero(~mdp.reset):
            for a in range(mdp.n_actions):
                cost = model.act(h, int(s), a, nothing, least[h + 1]).v_c
                assert safe.actions(h + 1)[s, a] == (cost == 0)
            assert safe.states(h + 1)[s] == (least[h][s] == 0)


@exact(200)
@given(mdp=finite_problems())
def test_the_best_policy_is_worth_its_value_and_never_reset(mdp: rf.FiniteMDP) -> None:
    answer = rf.solve(mdp)
    v_r, v_c = evaluate_exactly(mdp, answer.policy)
    for s in np.flatnonzero(answer.feasible):
        assert v_c[s] == 0
        assert close(answer.value[s], v_r[s], 1e-12)
    assert not can_reset(mdp, answer.policy)[answer.feasible].any()
    assert not can_leave(mdp, answer.policy, answer.safe)[answer.feasible].any()


@exact(200)
@given(mdp=finite_problems())
def test_the_linear_program_agrees(mdp: rf.FiniteMDP) -> None:
    answer = rf.solve(mdp)
    for s in np.flatnonzero(~mdp.reset):
        start = np.eye(mdp.n_states)[s]
        if not answer.feasible[s]:
            with pytest.raises(rf.AssumptionViolated) as caught:
                best_value(mdp, start)
            assert caught.value.witness == s
            continue
        assert close(best_value(mdp, start), answer.value[s], 1e-9)
        assert close(least_multiplier(mdp, int(s), answer.value[s]), answer.lambda_hat[s], 1e-8)


@exact(200)
@given(mdp=finite_problems())
def test_a_mixture_of_starts_is_worth_the_mean(mdp: rf.FiniteMDP) -> None:
    answer = rf.solve(mdp)
    weights = answer.feasible / max(1, answer.feasible.sum())
    if answer.feasible.any():
        assert close(best_value(mdp, weights), float(weights @ np.nan_to_num(answer.value)), 1e-9)


@exact(200)
@given(data=st.data(), mdp=finite_problems())
def test_any_policy_is_worth_what_rational_arithmetic_says(data: st.DataObject, mdp: rf.FiniteMDP) -> None:
    policy = data.draw(policies(mdp))
    values, truth = rf.evaluate(mdp, policy), evaluate_exactly(mdp, policy)
    possible = can_reset(mdp, policy)
    for s in np.flatnonzero(~mdp.reset):
        assert close(values.v_r[s], truth.v_r[s], 1e-12)
        assert close(values.v_c[s], truth.v_c[s], 1e-12)
        assert possible[s] == (truth.v_c[s] > 0)


@exact(200)
@given(mdp=finite_problems())
def test_the_multiplier_is_the_least(mdp: rf.FiniteMDP) -> None:
    """At lambda_hat no policy beats V* in V_r - y V_c; at any smaller y, even by a millionth, some policy does."""
    answer, truth, model = rf.solve(mdp), solve_exactly(mdp), exact_model(mdp)
    for s in np.flatnonzero(answer.feasible):
        value, y = truth.value[s], truth.lambda_hat[s]
        assert value is not None
        assert y is not None
        best = best_response(mdp, answer.lambda_hat[s])
        assert best.v_r[s] - answer.lambda_hat[s] * best.v_c[s] <= answer.value[s] + 1e-9
        at = best_lagrangian(model, y)
        assert at.v_r[s] - y * at.v_c[s] == value
        if y > 0:
            less = y * (1 - Fraction(1, 10**6))
            below = best_lagrangian(model, less)
            assert below.v_r[s] - less * below.v_c[s] > value


def powers(mdp: rf.FiniteMDP) -> Floats:
    """p^10, renormalised."""
    t = mdp.transition
    raised = t.prob**10
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, t.indptr[:-1]), np.diff(t.indptr)))


def all_but_one_tiny(mdp: rf.FiniteMDP, tiny: float) -> Floats:
    """Every row's first successor is as good as certain, the others have probability `tiny`."""
    prob = np.full(mdp.transition.nnz, tiny)
    prob[mdp.transition.indptr[:-1]] = 1.0
    return prob


@exact(200)
@given(mdp=finite_problems())
def test_safety_depends_on_the_support_alone(mdp: rf.FiniteMDP) -> None:
    answer = rf.solve(mdp)
    for prob in (powers(mdp), all_but_one_tiny(mdp, 1e-10), all_but_one_tiny(mdp, 1e-300), all_but_one_tiny(mdp, 0.0)):
        other = rf.solve(mdp.replace(transition=dataclasses.replace(mdp.transition, prob=prob)))
        assert np.array_equal(other.feasible, answer.feasible)
        assert np.array_equal(other.safe_actions, answer.safe_actions)
        assert (other.cost[other.feasible] == 0).all()
        assert not can_reset(other.mdp, other.policy)[other.feasible].any()


def as_literal(mdp: rf.FiniteMDP) -> rf.FiniteMDP:
    """The literal reading with one more action that earns nothing."""
    t, h = mdp.transition, mdp.horizon
    layers = [t.matrix(0 if t.stationary else min(step, h - 1)) for step in range(h + 1)]
    reward = np.zeros((h + 1, mdp.n_states, mdp.n_actions))
    reward[:h] = mdp.reward
    return mdp.replace(transition=layers, reward=reward, horizon=h + 1, boundary="literal")


@exact(200)
@given(mdp=finite_problems(boundaries=["physical"]), seed=st.integers(0, 2**32 - 1))
def test_the_literal_reading_with_one_more_action_is_the_physical_one(mdp: rf.FiniteMDP, seed: int) -> None:
    literal, horizon = as_literal(mdp), mdp.horizon
    answer, other = rf.solve(mdp), rf.solve(literal)
    assert np.array_equal(answer.feasible, other.feasible)
    assert np.array_equal(answer.value, other.value, equal_nan=True)
    assert np.array_equal(answer.lambda_hat, other.lambda_hat, equal_nan=True)
    assert np.array_equal(answer.safe_actions, other.safe_actions[:horizon])
    rng = np.random.default_rng(seed)
    policy = random_policy(literal, rng)
    assert all(map(np.array_equal, rf.evaluate(mdp, policy[:horizon]), rf.evaluate(literal, policy)))
    for start in np.flatnonzero(~mdp.reset).tolist():
        u = rng.random((3, horizon + 1))
        rest = rng.random(2)
        short = mdp.problem().rollout(policy[:horizon], start, np.append(u[:, :horizon], rest))
        long = literal.problem().rollout(policy, start, np.append(u, rest))
        assert np.array_equal(short.states, long.states)
        assert np.array_equal(short.actions, long.actions[:horizon])
        assert short.total_reward == pytest.approx(long.total_reward, abs=1e-12)
        assert (short.reset, short.next_start) == (long.reset, long.next_start)


@exact(200)
@given(mdp=finite_problems(), seed=st.integers(0, 2**32 - 1))
def test_episodes_do_what_the_problem_says(mdp: rf.FiniteMDP, seed: int) -> None:
    """Possible transitions, the rewards of the table, and a reset where and only where one is due."""
    rng = np.random.default_rng(seed)
    starts = rng.choice(np.flatnonzero(~mdp.reset), size=8).tolist()
    for e in rf.simulate(mdp.problem(), random_policy(mdp, rng), len(starts), seed=seed, starts=starts):
        moves = len(e.states) - 1
        assert moves == len(e.actions) - (0 if e.reset or mdp.boundary == "physical" else 1)
        for h, (s, a, reward) in enumerate(zip(e.states, e.actions, e.rewards, strict=False)):
            layer = 0 if mdp.transition.stationary else h
            assert reward == mdp.reward[0 if len(mdp.reward) == 1 else h, s, a]
            assert h >= moves or e.states[h + 1] in mdp.transition.row(layer, s, a)[0]
        due = [
            bool((mdp.last_reset if h == mdp.n_transitions else mdp.reset)[e.states[h]]) for h in range(1, moves + 1)
        ]
        assert not any(due[:-1])
        assert e.reset == (due[-1:] == [True])
        assert e.reset or moves == mdp.n_transitions


def test_means_of_episodes_are_the_values() -> None:
    """By Hoeffding each of the two bounds fails with probability 1e-6 at most, over the choice of the seed."""
    mdp, n = rf.make("grid-v0"), 20_000
    policy = random_policy(mdp, np.random.default_rng(0), concentration=2.0)
    start = 11
    runs = list(rf.simulate(mdp.problem(), policy, n, seed=1, starts=[start] * n))
    width = np.sqrt(np.log(2 / 1e-6) / (2 * n))
    values = rf.evaluate(mdp, policy)
    assert abs(np.mean([e.reset for e in runs]) - values.v_c[start]) <= width
    assert abs(np.mean([e.total_reward for e in runs]) - values.v_r[start]) <= mdp.horizon * width
    assert 0.1 < values.v_c[start] < 0.95
