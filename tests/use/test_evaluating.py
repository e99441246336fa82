"""Evaluation in both senses: the exact values lie in the intervals, and every reset is accounted for."""

import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import resetfree as rf
from resetfree.problems.finite.tabular_policy import random_policy, table
from resetfree.problems.stepping import FunctionPolicy
from resetfree.use import DeployedPolicy, Evaluation, continuing_return, evaluate
from resetfree.use.evaluating import BETTING, CLOPPER_PEARSON, COUNTED, MARTINGALE, STUDENT, running_mean
from resetfree.use.predictor import Sensor


def of(mdp: rf.FiniteMDP, rows: Any) -> DeployedPolicy:
    return DeployedPolicy(
        table(rows, mdp.horizon, mdp.n_states, mdp.n_actions), Sensor("number", count=mdp.n_states),
        np.arange(mdp.n_actions), mdp.horizon, {},
    )  # fmt: skip


REPEATS, MOST_MISSES = 100, 17  # P(Binomial(100, 0.05) > 17) < 1e-5


def misses(found: Evaluation, exact: float, risk: float) -> tuple[bool, bool]:
    """Whether the reward and the resets lie outside of their intervals."""
    low, high = found.reset_interval
    return not found.interval[0] <= exact <= found.interval[1], not low <= risk <= high


def test_the_exact_values_lie_in_the_intervals_of_fresh_starts() -> None:
    """100 random policies; fails with probability below 2e-5 for seeds that are fixed."""
    assert stats.binom.sf(MOST_MISSES, REPEATS, 0.05) < 1e-5
    mdp, rng = rf.make("grid-v0", slip=0.1), np.random.default_rng(0)
    missed = np.zeros(2, dtype=int)
    for seed in range(REPEATS):
        policy = of(mdp, random_policy(mdp, rng))
        found = evaluate(policy, mdp, episodes=60, seed=seed, deterministic=False)
        values = rf.evaluate(mdp, policy.rule.probabilities)  # type: ignore[attr-defined]
        exact, risk = float(mdp.start @ values.v_r), float(mdp.start @ values.v_c)
        missed += misses(found, exact, risk)
    assert missed.max() <= MOST_MISSES


def test_the_values_of_the_starts_lie_in_the_intervals_of_one_life() -> None:
    """What the oracle says of the starts that occurred; fails with probability below 2e-5 for seeds that are fixed."""
    mdp, rng = rf.make("grid-v0", slip=0.1), np.random.default_rng(1)
    missed = np.zeros(2, dtype=int)
    for seed in range(REPEATS):
        policy = of(mdp, random_policy(mdp, rng))
        found = evaluate(policy, mdp, starts="continuing", episodes=60, seed=seed, deterministic=False)
        lived = list(rf.simulate(mdp.problem(), policy.played(False), 60, seed=seed))
        assert np.array_equal(found.returns, [one.total_reward for one in lived])  # the same life
        values = rf.evaluate(mdp, policy.rule.probabilities)  # type: ignore[attr-defined]
        begun = [one.start for one in lived]
        exact, risk = values.v_r[begun].sum() / found.steps, 1000 * values.v_c[begun].sum() / found.steps
        missed += misses(found, exact, risk)
    assert missed.max() <= MOST_MISSES


def test_deterministic_plays_the_most_probable_action() -> None:
    mdp = rf.make("grid-v0")
    rows = random_policy(mdp, np.random.default_rng(3))
    policy, sure = of(mdp, rows), of(mdp, rows.argmax(axis=2))
    ours, theirs = (evaluate(one, mdp, episodes=50, seed=1) for one in (policy, sure))
    assert np.array_equal(ours.returns, theirs.returns)


@pytest.mark.parametrize("starts", ["fresh", "continuing"])
def test_every_reset_of_an_environment_is_accounted_for(walk: Any, starts: Any) -> None:
    env = walk()
    problem = rf.from_gym(env, horizon=30)
    policy = DeployedPolicy(
        table(np.full((42, 2), 0.5), 30, 42, 2), Sensor("number", first=-20, count=41), np.array([1, 2]), 30, {}
    )
    found = evaluate(policy, problem, starts=starts, episodes=40, seed=1, deterministic=False)
    assert found.performed == env.reset_calls
    assert found.performed == (40 if starts == "fresh" else 1 + int(found.reset[:-1].sum()))
    assert found.resets == found.reset.sum() > 5
    assert problem.interventions() == []  # none is left for a run that comes later


def test_numbers_of_one_life_are_per_step(walk: Any) -> None:
    policy = DeployedPolicy(
        table(np.full((42, 2), 0.5), 30, 42, 2), Sensor("number", first=-20, count=41), np.array([1, 2]), 30, {}
    )
    found = policy.evaluate(walk(), starts="continuing", steps=1000, seed=1, deterministic=False)
    assert 1000 <= found.steps < 1030
    assert found.mean == found.returns.sum() / found.steps
    assert found.reset_rate == pytest.approx(1000 * found.resets / found.steps)
    assert found.steps_between_resets == found.steps / found.resets
    assert (found.how, found.reset_how) == (MARTINGALE, COUNTED)
    shares = running_mean(found.returns / 30, 0.95)  # of H, per episode
    assert found.interval == pytest.approx([end * 30 * found.episodes / found.steps for end in shares])
    fresh = policy.evaluate(walk(), episodes=30)
    assert (fresh.how, fresh.reset_how) == (BETTING, CLOPPER_PEARSON)


def test_rewards_are_told_in_the_environments_own_scale_too() -> None:
    problem = rf.from_gym("gym:CliffWalking-v1", reset_when="reward<=-100", reward_range=(-100, 0), horizon=20)
    right = DeployedPolicy(table(np.ones(49, dtype=int), 20, 49, 4), Sensor("number", count=48), np.arange(4), 20, {})
    found = evaluate(right, problem, episodes=5)
    assert found.original_returns.tolist() == [-100.0] * 5  # the first step falls off the cliff
    assert found.original_mean == -100.0
    assert found.resets == 5
    assert found.mean == 0.0


def test_noise_without_a_bound_leaves_the_approximate_interval() -> None:
    mdp = rf.FiniteMDP(
        np.ones((1, 1, 2)) * [[[0.9, 0.1]], [[0.9, 0.1]]], np.array([[0.5], [0.5]]), [False, True], 3, noise=2.0
    )
    found = evaluate(of(mdp, np.zeros(2, dtype=int)), mdp, episodes=50)
    assert found.how == STUDENT


def test_a_policy_must_fit_where_it_is_played() -> None:
    policy = of(rf.make("grid-v0"), np.zeros(12, dtype=int))
    pits = rf.make("pits-v0", n=4)
    with pytest.raises(rf.InvalidInput, match=r"with 16 states\. Got 'pits-v0' with 25 instead"):
        evaluate(of(pits, np.zeros(16, dtype=int)), rf.make("pits-v0", n=5))
    layered = of(rf.make("grid-v0"), random_policy(rf.make("grid-v0"), np.random.default_rng(0)))
    with pytest.raises(rf.InvalidInput, match="depends on the step of episodes of 8 steps"):
        evaluate(layered, rf.make("grid-v0", horizon=5))
    assert evaluate(policy, rf.make("grid-v0", horizon=5), episodes=2).horizon == 5  # this one does not
    with pytest.raises(rf.InvalidInput, match="with 5 actions"):
        evaluate(policy, "gym:CartPole-v1")
    alone = DeployedPolicy(policy.rule, policy.sensor, policy.actions, 8, {})
    with pytest.raises(rf.InvalidInput, match="A policy from a file is evaluated in a problem"):
        alone.evaluate()


@pytest.mark.parametrize(
    "wrong",
    [
        {"starts": "both"}, {"episodes": 0}, {"episodes": 2.0}, {"steps": True}, {"episodes": 3, "steps": 3},
        {"seed": -1}, {"slip": 0.1},
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_are_refused(wrong: Any) -> None:
    mdp = rf.make("grid-v0")
    with pytest.raises(rf.InvalidInput):
        evaluate(of(mdp, np.zeros(12, dtype=int)), mdp, **wrong)


def test_one_seed_gives_one_evaluation() -> None:
    run = rf.learn("gym:FrozenLake-v1", episodes=20, seed=1, settings={"problem": {"horizon": 20}})
    a, b, c = (run.policy.evaluate("gym:FrozenLake-v1", episodes=20, seed=s, horizon=20) for s in (1, 1, 2))
    assert np.array_equal(a.returns, b.returns)
    assert np.array_equal(a.lengths, b.lengths)
    assert not np.array_equal(a.lengths, c.lengths)


@settings(max_examples=30)
@given(st.integers(0, 2**31), st.sampled_from(["fresh", "continuing"]), st.integers(1, 20))
def test_plain_data_holds_everything(seed: int, starts: Any, episodes: int) -> None:
    mdp = rf.make("grid-v0")
    found = evaluate(
        of(mdp, random_policy(mdp, np.random.default_rng(seed))), mdp, starts=starts, episodes=episodes, seed=seed
    )
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["episodes"] == episodes
    assert data["interval"][0] <= data["mean"] + 1e-9
    assert data["mean"] <= data["interval"][1] + 1e-9
    assert data["reset_interval"][0] <= data["reset_rate"] <= data["reset_interval"][1]


def test_the_training_life_pays_what_its_columns_say() -> None:
    run = rf.learn("grid-v0", "uniform", episodes=40, seed=2)
    found = continuing_return(run)
    reward = steps = 0.0
    for k in range(40):
        reward, steps = reward + run.columns["reward"][k], steps + run.columns["steps"][k]
        assert found[k] == pytest.approx(reward / steps, rel=1e-12)
    cliff = {"reset_when": "reward<=-100", "reward_low": -100, "reward_high": 0, "horizon": 20}
    own = rf.learn("gym:CliffWalking-v1", "uniform", episodes=10, settings={"problem": cliff})
    total = own.columns["original_return"].sum() / own.columns["steps"].sum()
    assert continuing_return(own, original=True)[-1] == pytest.approx(total)
    assert total < -1 < 0 < continuing_return(own)[-1] <= 1


@pytest.mark.filterwarnings("ignore:.*far outside of its declared space")  # the pole goes round
def test_a_raw_environment_takes_the_options_of_the_adapter() -> None:
    even = FunctionPolicy(lambda h, s: np.array([0.5, 0.5]), "a coin", 2)
    policy = DeployedPolicy(even, Sensor("vector", {"shape": [4]}), np.arange(2), 25, {})
    found = evaluate(policy, gymnasium.make("CartPole-v1"), episodes=4, reset_when="never")
    assert isinstance(found, Evaluation)
    assert found.lengths.tolist() == [25.0] * 4
    assert found.resets == 0
