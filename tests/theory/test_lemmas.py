"""What the paper cites: each lemma on random instances and on a real player's plans, and false where it is broken."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.property.random_mdps import closed_mdp, rough_mdp, sparse_policy
from tests.property.strategies import exact, finite_problems

import resetfree as rf
from resetfree.game.loop import begin, play
from resetfree.players.linear.algorithm1 import algorithm1
from resetfree.problems.finite.tabular_policy import random_policy
from resetfree.theory import lemmas
from resetfree.theory.lemmas import (
    comparator_pair,
    composite_optimism,
    no_slater,
    non_markovian_saddle_point,
    overestimates,
    performance_difference,
    softmax_gap,
    softmax_lipschitz,
    strong_duality,
)
from resetfree.theory.oracle.dynamic_programming import Values
from resetfree.theory.oracle.fractions import evaluate_exactly, solve_exactly
from resetfree.theory.oracle.linear_program import constrained_value
from resetfree.theory.regret import Rounds

Floats = NDArray[np.float64]
seeds = st.integers(0, 2**32 - 1)


# The two softmax lemmas


@exact(100)
@given(seed=seeds)
def test_the_softmax_lemmas_on_random_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((20, int(rng.integers(1, 9)))) * 10 ** rng.uniform(-3, 3)
    alpha = float(10 ** rng.uniform(-3, 4))
    assert softmax_gap(q, alpha).holds
    assert softmax_lipschitz(q, q + rng.standard_normal(q.shape) * 10 ** rng.uniform(-4, 2)).holds


def test_the_constants_of_the_softmax_lemmas_cannot_be_much_smaller() -> None:
    """Among 51 actions some row uses up half of log|A| / alpha; two actions move by all that their argument does."""
    gaps = [softmax_gap([[t, *[0.0] * 50]], 1.0) for t in np.linspace(0, 10, 200)]
    best = max(gaps, key=lambda c: c.lhs / c.rhs)
    assert 0.5 < best.lhs / best.rhs <= 1
    near = softmax_lipschitz([[0.0, 0.0]], [[1e-6, -1e-6]])
    assert near.lhs == pytest.approx(near.rhs, rel=1e-6)


def broken(rows: Any) -> Any:
    """A softmax that is flat whatever it is given."""
    return np.full_like(np.atleast_2d(np.asarray(rows, dtype=np.float64)), 1.0 / np.shape(rows)[-1])


def test_the_softmax_lemmas_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = lemmas.softmax
    monkeypatch.setattr(lemmas, "softmax", broken)
    assert not softmax_gap([[0.0, 1.0, 5.0]], 10.0).holds
    monkeypatch.setattr(lemmas, "softmax", lambda rows: honest(1.5 * np.asarray(rows)))
    assert not softmax_lipschitz([[0.0, 0.0]], [[1e-3, -1e-3]]).holds
    with pytest.raises(rf.InvalidInput, match="'alpha' of softmax_gap"):
        softmax_gap([[1.0]], 0.0)
    with pytest.raises(rf.InvalidInput, match="one shape"):
        softmax_lipschitz([[1.0]], [[1.0, 2.0]])


# Lemmas 3 and 4 of Ghosh et al.


def optimistic_estimates(
    mdp: rf.FiniteMDP, lam: float, alpha: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Any Q_r above, and Q_c below, one true step of their own values: random bonuses, step by step from the end."""
    shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
    q_r, q_c = np.zeros(shape), np.zeros(shape)
    for h in range(mdp.horizon - 1, -1, -1):
        planned = lemmas._planned(mdp, q_r, q_c, lam, alpha)
        q_r[h] = planned.true_r[h] + rng.exponential(0.1, size=shape[1:])
        q_c[h] = np.maximum(planned.true_c[h] - rng.exponential(0.1, size=shape[1:]), 0.0)
    return q_r, q_c


@exact(100)
@given(seed=seeds)
def test_optimism_of_the_composite_and_the_overestimates(seed: int) -> None:
    rng, mdp = np.random.default_rng(seed), rough_mdp(seed)
    lam, alpha = float(rng.exponential(5)), float(10 ** rng.uniform(-1, 3))
    q_r, q_c = optimistic_estimates(mdp, lam, alpha, rng)
    for certificate in [*composite_optimism(mdp, q_r, q_c, lam, alpha), *overestimates(mdp, q_r, q_c, lam, alpha)]:
        assert certificate.holds, certificate
    anything = rng.random(q_r.shape), rng.random(q_c.shape)  # the identity asks for nothing
    assert all(c.holds for c in overestimates(mdp, *anything, lam, alpha))


def test_a_players_own_plan_is_optimistic_where_its_width_is_wide_and_not_where_it_is_zero() -> None:
    mdp, lam = rf.make("grid-v0"), 10.0
    for scale, optimistic in ((3.0, True), (0.0, False)):
        primal, dual = algorithm1(B=39.0, scale=scale, reg=1.0)
        problem = mdp.problem()
        game = begin(problem, primal, dual, episodes=400, seed=0)
        for _ in play(problem, primal, dual, game, episodes=400):
            pass
        _, v_r, v_c, q_r, q_c = primal.backward(game.primal, lam)
        shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
        estimates = q_r.reshape(shape), q_c.reshape(shape)
        above, below, composite = composite_optimism(mdp, *estimates, lam, game.primal.alpha)
        assert above.holds == below.holds == composite.holds == optimistic
        planned = lemmas._planned(mdp, *estimates, lam, game.primal.alpha)
        assert np.allclose(planned.v_r[0], v_r)  # the lemma speaks of the values that the player has
        assert np.allclose(planned.v_c[0], v_c)
        assert all(c.holds for c in overestimates(mdp, *estimates, lam, game.primal.alpha))


def test_the_two_lemmas_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp, rng = rf.make("grid-v0"), np.random.default_rng(0)
    q_r, q_c = optimistic_estimates(mdp, 10.0, 50.0, rng)
    assert not composite_optimism(mdp, q_r - 1.0, q_c, 10.0, 50.0)[0].holds
    assert not composite_optimism(mdp, q_r, q_c + 0.5, 10.0, 50.0)[1].holds
    assert not composite_optimism(mdp, q_r - 1.0, q_c + 0.5, 10.0, 50.0)[2].holds
    monkeypatch.setattr(lemmas, "softmax", broken)  # optimistic steps, but a policy that is not the softmax of them
    flat = optimistic_estimates(mdp, 10.0, 50.0, rng)
    assert [c.holds for c in composite_optimism(mdp, *flat, 10.0, 5e4)] == [True, True, False]
    monkeypatch.undo()
    monkeypatch.setattr(lemmas, "_along", lambda mdp, policy, step: np.zeros(mdp.n_states))
    assert [c.holds for c in overestimates(mdp, q_r, q_c, 10.0, 50.0)] == [False, False]
    with pytest.raises(rf.InvalidInput, match="estimates must have shape"):
        overestimates(mdp, q_r[:2], q_c, 10.0, 50.0)


# Performance difference


@exact(80)
@given(mdp=finite_problems(), seed=seeds)
def test_the_performance_difference_is_an_identity_of_fractions(mdp: rf.FiniteMDP, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for policy in (rng.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states)), random_policy(mdp, rng)):
        for certificate in performance_difference(mdp, policy):
            assert certificate.holds, certificate
            assert certificate.slack == 0.0


def test_the_performance_difference_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a policy evaluated as another one, and with costs that some policy undercuts."""
    mdp, rng = rf.make("grid-v0"), np.random.default_rng(0)
    policy, other = random_policy(mdp, rng), random_policy(mdp, rng)
    certificates = performance_difference(mdp, policy)
    assert all(c.holds for c in certificates)
    assert certificates[0].detail["largest"] > 0.1
    evaluated, solved = evaluate_exactly(mdp, other), solve_exactly(mdp, starts=[])
    solved.least_cost[3][0] += 1

    monkeypatch.setattr(lemmas, "evaluate_exactly", lambda mdp, policy: evaluated)
    assert [c.holds for c in performance_difference(mdp, policy)] == [False, True]
    monkeypatch.undo()
    monkeypatch.setattr(lemmas, "solve_exactly", lambda mdp, starts: solved)
    assert [c.holds for c in performance_difference(mdp, policy)] == [True, False]


# Any pair of comparators


def algorithm1_run(episodes: int = 300) -> tuple[rf.FiniteMDP, Any]:
    mdp = rf.make("random-linear-v0")
    return mdp, rf.learn(mdp, *algorithm1(B=5.0, width="theory"), episodes=episodes, seed=3)


def pair_bounds(mdp: rf.FiniteMDP, run: Any) -> dict[str, Any]:
    k = np.arange(1, len(run) + 1)
    alpha = run.spec["statements"]["primal"]["constants"]["alpha"]
    return {"online": 1.5 * 5.0 * np.sqrt(k), "soft": k * mdp.horizon * np.log(mdp.n_actions) / alpha}


def test_the_lemma_for_any_pair_of_comparators_on_a_run_of_algorithm_1() -> None:
    mdp, run = algorithm1_run()
    rng, c = np.random.default_rng(0), run.columns
    for number in range(20):
        policy = random_policy(mdp, rng) if number else np.eye(mdp.n_actions)[rf.solve(mdp, starts=[]).policy]
        theta = rng.uniform(0.0, 5.0)
        found = comparator_pair(
            run.rounds, c["v_r_hat"], c["v_c_hat"], rf.evaluate(mdp, policy), np.full(len(run), theta),
            **pair_bounds(mdp, run),
        )  # fmt: skip
        assert [x.holds for x in found] == [True, True], found


def test_the_lemma_for_any_pair_can_fail() -> None:
    mdp, run = algorithm1_run()
    c, best = run.columns, rf.evaluate(mdp, rf.solve(mdp, starts=[]).policy)
    args = run.rounds, c["v_r_hat"], c["v_c_hat"], best, np.full(len(run), 5.0)
    honest = pair_bounds(mdp, run)
    assert comparator_pair(*args, **honest)[1].holds
    pessimistic = comparator_pair(args[0], args[1] - mdp.horizon, *args[2:], **honest)
    assert not pessimistic[1].holds
    told_more = comparator_pair(args[0], args[1] - 4.0, args[2] + 1.0, *args[3:], **honest)
    assert not told_more[1].holds
    beyond = Values(best.v_r + 2 * mdp.horizon, best.v_c)  # a comparator that earns more than anybody can
    assert not comparator_pair(*args[:3], beyond, args[4], **honest)[1].holds


def test_the_identity_of_any_pair_is_arithmetic() -> None:
    """It holds for any numbers, as an identity must: said here, so that nobody takes it for evidence."""
    rng = np.random.default_rng(0)
    rounds = Rounds(rng.integers(3, size=50), *rng.standard_normal((3, 50)))
    values = Values(rng.standard_normal(3), rng.standard_normal(3))
    found = comparator_pair(rounds, np.zeros(50), np.zeros(50), values, rng.standard_normal(50), online=0.0, soft=0.0)
    assert found[0].holds


# Strong duality and Slater


@exact(60)
@given(seed=seeds)
def test_each_cmdp_has_no_duality_gap_and_no_slater_point(seed: int) -> None:
    mdp = closed_mdp(seed)
    for certificate in [*strong_duality(mdp), *no_slater(mdp)]:
        assert certificate.holds, certificate


@pytest.mark.parametrize("name", ["grid-v0", "no-multiplier-v0", "random-linear-v0", "contexts-v0", "footnote-v0"])
def test_registered_problems_have_no_duality_gap_and_no_slater_point(name: str) -> None:
    mdp = rf.make(name)
    assert all(c.holds for c in [*strong_duality(mdp), *no_slater(mdp)])
    assert no_slater(mdp)[0].witness is not None


def test_strong_duality_can_fail() -> None:
    mdp = rf.make("grid-v0")
    solution = rf.solve(mdp)
    solution.__dict__["lambda_hat"] = solution.lambda_hat / 2
    gap, weak = strong_duality(mdp, solution)
    assert (gap.holds, weak.holds) == (False, True)
    assert gap.rhs > gap.lhs + 0.01
    tame = mdp.replace(reward=mdp.reward[0] / 2)  # the dual values of a problem that pays half
    assert not strong_duality(mdp, rf.solve(tame))[1].holds


def test_the_absence_of_slater_points_can_fail() -> None:
    mdp = rf.make("grid-v0")
    solution = rf.solve(mdp)
    hopeless = replace(solution, starts=np.append(solution.starts, 4))
    risky = rf.make("footnote-v0")
    bad = risky.state_names.index("bad")
    wrong = replace(rf.solve(risky), starts=np.array([bad]))
    wrong.__dict__["lambda_hat"] = np.zeros(risky.n_states)
    assert not no_slater(risky, wrong)[0].holds
    assert no_slater(mdp, hopeless)[0].holds
    assert not no_slater(mdp, replace(solution, value=solution.value - 0.01))[1].holds


# The footnote on policies with memory


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.7, 0.9])
def test_a_policy_that_remembers_its_start_is_a_shared_saddle_point(threshold: float) -> None:
    for certificate in non_markovian_saddle_point(threshold):
        assert certificate.holds, certificate


def test_a_policy_that_does_not_remember_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both starts handed the policy that is best from A (or from B): one of them fails."""
    honest = constrained_value
    for start in (0, 1):

        def forgetful(mdp: rf.FiniteMDP, weights: Any, threshold: float, start: int = start) -> Any:
            policy = honest(mdp, np.eye(mdp.n_states)[start], threshold).policy
            return honest(mdp, weights, threshold)._replace(policy=policy)

        monkeypatch.setattr(lemmas, "constrained_value", forgetful)
        assert [c.claim for c in non_markovian_saddle_point() if not c.holds]


@exact(30)
@given(seed=seeds)
def test_at_threshold_zero_one_markovian_policy_is_enough(seed: int) -> None:
    """What memory buys above zero it does not buy at zero: pi* has every start's best value."""
    mdp = closed_mdp(seed)
    solution = rf.solve(mdp, starts=[])
    values = rf.evaluate(mdp, solution.policy)
    starts = np.flatnonzero(solution.feasible)
    assert values.v_r[starts] == pytest.approx(solution.value[starts], abs=1e-12)
    rng = np.random.default_rng(seed)
    assert all(values.v_c[starts] <= rf.evaluate(mdp, sparse_policy(mdp, rng)).v_c[starts])
