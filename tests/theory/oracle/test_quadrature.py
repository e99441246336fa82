"""The continuous problem: its features, its simulator, and an exact answer checked in four other ways."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betainc

import resetfree as rf
from resetfree.problems.zoo.continuous_linear import RESET_STATE, ContinuousLinearMDP, ContinuousPolicy
from resetfree.theory.oracle import quadrature

Floats = NDArray[np.float64]
SEEDS = [0, 1, 2, 3]
LINE = np.linspace(0.0, 1.0, 501)


def instance(**options: Any) -> ContinuousLinearMDP:
    mdp: ContinuousLinearMDP = rf.make("continuous-linear-v0", **options)
    return mdp


def softmax(sharpness: float, mdp: ContinuousLinearMDP) -> ContinuousPolicy:
    """A smooth policy that depends on the step."""

    def policy(h: int, s: Any) -> Floats:
        slopes = np.arange(mdp.n_actions) - 0.3 * h
        logits = sharpness * slopes * np.asarray(s)[..., None]
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    return policy


@pytest.mark.parametrize("d", [2, 3, 4, 7])
@pytest.mark.parametrize("seed", SEEDS)
def test_features_are_mixtures_and_danger_has_a_gap(seed: int, d: int) -> None:
    mdp = instance(seed=seed, d=d, gap=0.15)
    phi, unsafe = mdp.phi(LINE), mdp.unsafe(LINE)
    assert phi.shape == (len(LINE), mdp.n_actions, d)
    assert (phi >= 0).all()
    assert np.abs(phi.sum(axis=-1) - 1).max() <= 1e-14
    assert ((mdp.reward(LINE) >= 0) & (mdp.reward(LINE) <= 1)).all()
    assert not unsafe[:, 0].any()
    assert unsafe[:, 1:].any(axis=0).all()
    assert (phi[..., -1][unsafe] >= 0.15).all()
    assert (phi[..., -1][~unsafe] == 0).all()
    assert (mdp.name, mdp.n_states, mdp.n_actions, mdp.horizon) == ("continuous-linear-v0", None, 3, 5)


def test_densities_integrate_to_the_distribution_functions() -> None:
    mdp = instance(d=6)
    x, weight = np.polynomial.legendre.leggauss(20)
    for end in (0.25, 0.8, 1.0):
        mass = (0.5 * end * weight) @ mdp.density(0.5 * end * (1 + x))
        assert mass == pytest.approx(betainc(mdp.shape[:, 0], mdp.shape[:, 1], end), abs=1e-14)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fine_midpoint_rule_gives_the_same_weights(seed: int) -> None:
    """Backward induction on 200,000 cells: its error is of the order of one over their square."""
    mdp, n = instance(seed=seed), 200_000
    answer = quadrature.solve(mdp)
    x = (np.arange(n) + 0.5) / n
    mass = np.diff(betainc(mdp.shape[:, :1], mdp.shape[:, 1:], np.arange(n + 1) / n), axis=1)
    phi, w = np.where(mdp.unsafe(x)[..., None], np.nan, mdp.phi(x)), mdp.omega.copy()
    for h in reversed(range(mdp.horizon)):
        assert np.abs(w - answer.weights[h]).max() <= 2e-9
        value = np.nanmax(phi @ w, axis=1)
        assert np.abs(value - answer.value(x, h + 1)).max() <= 2e-9
        w = mdp.omega + np.append(mass @ value, 0.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_policy_is_worth_its_value_and_refinement_changes_nothing(seed: int) -> None:
    mdp = instance(seed=seed)
    answer = quadrature.solve(mdp)
    coarse = quadrature.evaluate(mdp, answer.policy, answer.breakpoints, nodes=8)
    more = np.concatenate([answer.breakpoints, np.linspace(0, 1, 38)])
    fine = quadrature.evaluate(mdp, answer.policy, more, nodes=20)
    for values in (coarse, fine):
        assert np.abs(values.v_r(LINE) - answer.value(LINE)).max() <= 1e-12
        assert (values.v_c(LINE) == 0).all()
        assert np.abs(values.reward_weights - answer.weights).max() <= 1e-12


def test_smooth_policies_are_integrated_to_the_last_digits() -> None:
    mdp = instance()
    policy = softmax(5.0, mdp)
    coarse = quadrature.evaluate(mdp, policy)
    fine = quadrature.evaluate(mdp, policy, np.linspace(0, 1, 101))
    assert np.abs(coarse.v_r(LINE) - fine.v_r(LINE)).max() <= 1e-12
    assert np.abs(coarse.v_c(LINE) - fine.v_c(LINE)).max() <= 1e-12


@pytest.mark.parametrize("seed", [0, 3])
def test_cells_converge_to_the_exact_answer(seed: int) -> None:
    mdp = instance(seed=seed)
    answer, policy = quadrature.solve(mdp), softmax(5.0, mdp)
    truth = quadrature.evaluate(mdp, policy)
    errors = []
    for n in (20, 80, 320):
        cells, x = mdp.discretise(n), (np.arange(n) + 0.5) / n
        starts = np.arange(0, n, n // 10)
        found = rf.solve(cells, starts=starts)
        table = np.stack([np.append(policy(h, x), [[1.0, 0.0, 0.0]], axis=0) for h in range(1, mdp.horizon + 1)])
        values = rf.evaluate(cells, table)
        errors.append([
            np.abs(found.value[:n] - answer.value(x)).max(),
            np.abs(found.lambda_hat[starts] - answer.lambda_hat(x[starts])).max(),
            np.abs(values.v_r[:n] - truth.v_r(x)).max(),
            np.abs(values.v_c[:n] - truth.v_c(x)).max(),
        ])  # fmt: skip
        assert np.array_equal(found.safe_actions[0, :n], ~mdp.unsafe(x))
    # Midpoints are of second order, suprema at the ends of intervals of first order.
    assert (np.array(errors[2]) <= np.array(errors[0]) / [50, 10, 50, 50]).all()
    assert (np.array(errors[2]) <= [1e-4, 1e-2, 1e-5, 1e-5]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_multiplier_is_the_supremum_of_one_step_ratios(seed: int) -> None:
    mdp = instance(seed=seed)
    answer = quadrature.solve(mdp)
    x = np.linspace(0, 1, 10_000, endpoint=False)
    unsafe = mdp.unsafe(x)
    per_step = []
    for h in range(1, mdp.horizon + 1):
        gain = mdp.phi(x) @ answer.weights[h - 1] - answer.value(x, h)[:, None]
        assert (gain[~unsafe] <= 0).all()
        ratio = np.where(unsafe, gain / np.where(unsafe, mdp.phi(x)[..., -1], 1.0), 0.0).max(axis=1)
        per_step.append(ratio.max())
        if h == 1:
            assert answer.lambda_hat(x) == pytest.approx(np.maximum(ratio, answer.later_ratio), abs=1e-12)
    assert max(per_step[1:]) == pytest.approx(answer.later_ratio, rel=1e-3)
    assert max(per_step[1:]) <= answer.later_ratio + 1e-12
    assert max(per_step) == pytest.approx(answer.largest_multiplier, rel=1e-3)
    assert 0 < answer.later_ratio < answer.largest_multiplier <= mdp.horizon / mdp.risk[1:].min()


@pytest.mark.parametrize("sharpness", [-20.0, -2.0, 0.0, 5.0])
def test_no_policy_earns_more_than_its_resets_cost(sharpness: float) -> None:
    """V_r - lambda_hat V_c <= V* from every start."""
    mdp = instance()
    answer = quadrature.solve(mdp)
    values = quadrature.evaluate(mdp, softmax(sharpness, mdp), np.linspace(0, 1, 21))
    assert (values.v_r(LINE) - answer.lambda_hat(LINE) * values.v_c(LINE) <= answer.value(LINE) + 1e-12).all()


def test_a_deviation_in_a_small_interval_attains_the_multiplier() -> None:
    """At step 2 only, right of the best point: what it earns over what it costs is as good as the supremum."""
    mdp = instance(seed=3)
    answer = quadrature.solve(mdp)
    gain = mdp.phi(LINE) @ answer.weights[1] - answer.value(LINE, 2)[:, None]
    ratio = np.where(mdp.unsafe(LINE), gain / np.where(mdp.risk > 0, mdp.risk, 1.0), -np.inf)
    where, action = np.unravel_index(int(ratio.argmax()), ratio.shape)
    low, high = LINE[where], LINE[where] + 1e-3

    def deviate(h: int, s: Any) -> Floats:
        inside = (h == 2) & (low <= np.asarray(s)) & (np.asarray(s) < high)
        return np.where(inside[..., None], np.eye(mdp.n_actions)[int(action)], answer.policy(h, s))

    values = quadrature.evaluate(mdp, deviate, [*answer.breakpoints, low, high])
    s = np.array([0.95])
    assert answer.lambda_hat(s) == answer.later_ratio
    assert (values.v_r(s) - answer.value(s)) / values.v_c(s) == pytest.approx(answer.later_ratio, rel=1e-2)


def test_one_step_and_one_component_are_enough() -> None:
    mdp = instance(d=2, horizon=1)
    answer = quadrature.solve(mdp)
    assert answer.value(LINE) == pytest.approx(np.full(len(LINE), mdp.omega[0]), abs=1e-14)
    assert answer.later_ratio == 0
    tempted = mdp.unsafe(LINE).any(axis=1)
    assert answer.lambda_hat(LINE) == pytest.approx(np.where(tempted, 1 - mdp.omega[0], 0.0), abs=1e-12)


def test_means_of_episodes_are_the_values() -> None:
    """By Hoeffding each of the two bounds fails with probability 1e-6 at most, over the choice of the seed."""
    mdp, n, s = instance(), 4000, 0.3
    policy = softmax(5.0, mdp)
    runs = list(rf.simulate(mdp.problem(), policy, n, seed=2, starts=[s] * n))
    values, width = quadrature.evaluate(mdp, policy), np.sqrt(np.log(2 / 1e-6) / (2 * n))
    assert abs(np.mean([e.reset for e in runs]) - values.v_c(s)) <= width
    assert abs(np.mean([e.total_reward for e in runs]) - values.v_r(s)) <= mdp.horizon * width
    assert 0.05 < values.v_c(s) < 0.95


def test_episodes_keep_the_protocol() -> None:
    mdp = instance()
    answer, problem = quadrature.solve(mdp), mdp.problem()
    safe = list(rf.simulate(problem, answer.policy, 200, seed=3))
    assert not any(e.reset for e in safe)
    assert all(e.next_start == e.states[-1] == f.start for e, f in pairwise(safe))
    risky = list(rf.simulate(problem, softmax(0.0, mdp), 200, seed=4))
    assert any(e.reset for e in risky)
    for e in risky:
        assert len(e.states) == len(e.actions) + 1 == len(e.rewards) + 1
        assert (e.states[-1] == RESET_STATE) == e.reset
        assert e.rewards == pytest.approx([mdp.reward(x)[a] for x, a in zip(e.states[:-1], e.actions, strict=True)])
        assert 0 <= e.next_start <= 1
    assert (problem.n_states, problem.n_actions, problem.horizon, problem.d) == (None, 3, 5, 4)


def test_bad_input_is_refused() -> None:
    mdp = instance()
    answer, problem = quadrature.solve(mdp), mdp.problem()
    with pytest.raises(rf.InvalidInput, match="multiple of 10"):
        mdp.discretise(25)
    with pytest.raises(rf.InvalidInput, match=r"must lie in \[0, 1\]"):
        answer.value(RESET_STATE)
    with pytest.raises(rf.InvalidInput, match=r"in 1\.\.5"):
        answer.action(6, 0.5)
    with pytest.raises(rf.InvalidInput, match="breakpoints"):
        quadrature.evaluate(mdp, answer.policy, [1.5])
    with pytest.raises(rf.InvalidInput, match="at step 5"):
        quadrature.evaluate(mdp, lambda h, s: np.full((len(s), 3), 0.3))
    with pytest.raises(rf.InvalidInput, match="distribution over 3 actions"):
        problem.rollout(lambda h, s: np.ones(3), 0.5, np.zeros(problem.n_uniforms))
    with pytest.raises(rf.InvalidInput, match="needs 16 uniforms"):
        problem.rollout(answer.policy, 0.5, np.zeros(3))
    for options in ({"d": 1}, {"gap": 0.0}, {"horizon": 0}):
        with pytest.raises(rf.InvalidInput, match="continuous-linear-v0"):
            rf.make("continuous-linear-v0", **options)
