"""`predict` as Stable-Baselines3 users expect it: single observations, batches, states, episode starts."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import resetfree as rf
from resetfree.problems.finite.tabular_policy import TabularPolicy, table
from resetfree.use.exporting import DeployedPolicy
from resetfree.use.predictor import Sensor, sensor_from


def steps_policy(horizon: int = 3, n_states: int = 4) -> DeployedPolicy:
    """At step h in state s: action (h + s) mod 5 with 0.6, the next one with 0.4."""
    rows = np.zeros((horizon, n_states, 5))
    for h in range(horizon):
        for s in range(n_states):
            rows[h, s, (h + 1 + s) % 5], rows[h, s, (h + 2 + s) % 5] = 0.6, 0.4
    return DeployedPolicy(TabularPolicy(rows), Sensor("number", count=n_states), np.arange(5), horizon, {})


def test_the_state_carries_the_step_of_the_episode() -> None:
    policy, state, taken = steps_policy(), None, []
    for _ in range(7):
        action, state = policy.predict(1, state)
        taken.append(int(action))
    assert taken == [2, 3, 4, 2, 3, 4, 2]  # after H steps the next episode begins
    assert state is not None
    assert state[0].tolist() == [7]
    assert int(policy.predict(1)[0]) == 2  # without a state: as at the first step


def test_a_batch_is_as_many_single_calls() -> None:
    policy = steps_policy()
    singles: list[Any] = [None] * 4
    batch = None
    rng = np.random.default_rng(0)
    for t in range(9):
        seen, begins = rng.integers(0, 4, size=4), rng.random(4) < 0.3
        actions, batch = policy.predict(seen, batch, begins if t else None)
        for i in range(4):
            one, singles[i] = policy.predict(int(seen[i]), singles[i], begins[i : i + 1] if t else None)
            assert int(one) == actions[i]
        assert actions.shape == (4,)
        assert batch is not None
        assert batch[0].tolist() == [int(one[0][0]) for one in singles]


def test_episode_start_begins_anew() -> None:
    policy = steps_policy()
    _, state = policy.predict(np.array([0, 0]))
    actions, state = policy.predict(np.array([0, 0]), state, np.array([False, True]))
    assert actions.tolist() == [2, 1]
    assert state is not None
    assert state[0].tolist() == [2, 1]


def test_the_form_of_an_action_is_the_environments() -> None:
    discrete = DeployedPolicy(steps_policy().rule, Sensor("number", count=4), np.arange(10, 15), 3, {})
    action, _ = discrete.predict(0)
    assert action == 11
    assert spaces.Discrete(5, start=10).contains(action)
    grid = np.linspace(-2, 2, 5, dtype=np.float32)[:, None]
    box = DeployedPolicy(steps_policy().rule, Sensor("number", count=4), grid, 3, {})
    action, _ = box.predict(0)
    assert spaces.Box(-2, 2, (1,)).contains(action)
    action[:] = 99.0  # what the caller does with it changes nothing
    assert box.predict(0)[0].tolist() == [-1.0]
    assert box.predict(np.array([0, 1]))[0].tolist() == [[-1.0], [0.0]]
    anything = DeployedPolicy(steps_policy().rule, Sensor("number", count=4), ["a", "b", "c", "d", "e"], 3, {})
    assert anything.predict(0)[0] == "b"
    assert anything.predict([0, 1])[0] == ["b", "c"]


def test_drawn_actions_have_the_probabilities_of_the_policy() -> None:
    """5000 draws of a probability of 0.6: four standard deviations, missed with probability 7e-5; the seed is fixed."""
    policy = steps_policy()
    policy.set_random_seed(4)
    drawn = policy.predict(np.zeros(5000, dtype=np.int64), deterministic=False)[0]
    assert set(drawn.tolist()) == {1, 2}
    assert abs((drawn == 1).mean() - 0.6) < 4 * np.sqrt(0.24 / 5000)
    policy.set_random_seed(4)
    assert np.array_equal(policy.predict(np.zeros(5000, dtype=np.int64), deterministic=False)[0], drawn)


def test_probabilities_are_those_of_the_step() -> None:
    policy = steps_policy()
    assert policy.probabilities(0, h=2).tolist() == [0, 0, 0.6, 0.4, 0]
    assert policy.probabilities([0, 3]).shape == (2, 5)
    for h in (0, 4, 1.0, True):
        with pytest.raises(rf.InvalidInput, match="must be an integer from 1 to 3"):
            policy.probabilities(0, h=h)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, 4, 1.5, None, "x", [[1, 2]], float("nan")])
def test_an_observation_that_cannot_be_is_refused(bad: Any) -> None:
    with pytest.raises(rf.InvalidInput):
        steps_policy().predict(bad)


@pytest.mark.parametrize("state", [3, (np.zeros(2, dtype=int),), (np.zeros(1),), (np.array([-1]),), "xy"])
def test_a_state_of_another_kind_is_refused(state: Any) -> None:
    with pytest.raises(rf.InvalidInput, match="must be what the last call of predict returned"):
        steps_policy().predict(0, state)


def test_a_policy_that_is_the_same_at_every_step_needs_no_state() -> None:
    rows = np.tile(np.eye(3)[[0, 2]], (4, 1, 1))
    rule = table(rows, 4, 2, 3)
    assert rule.probabilities.shape == (1, 2, 3)
    policy = DeployedPolicy(rule, Sensor("number", count=2), np.arange(3), 4, {})
    assert policy.predict(1) == (2, None)
    assert policy.played().shape == (2, 3)


def test_every_form_of_a_table_is_read() -> None:
    actions = np.array([[0, 1], [1, 2]])
    for form in (actions, np.eye(3)[actions], actions.astype(np.int16)):
        assert np.array_equal(table(form, 2, 2, 3).probabilities, np.eye(3)[actions])
    for bad in (np.array([[0, 3], [1, 2]]), np.ones((2, 2, 3)), np.zeros((5, 5)), np.array([["a", "b"]])):
        with pytest.raises(rf.InvalidInput):
            table(bad, 2, 2, 3)


def test_a_cart_pole_loop_as_in_the_tutorials() -> None:
    problem = rf.from_gym("gym:CartPole-v1", horizon=50, features="polynomial")
    policy = rf.learn(problem, "stored-linear", feedback="realised", B=5.0, episodes=8, seed=1).policy
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=1)
    state, start, n = None, True, 0
    for _ in range(60):
        action, state = policy.predict(obs, state, np.array([start]), deterministic=True)
        obs, _, start, _, _ = env.step(action)
        n += 1
        if start:
            obs, _ = env.reset()
    assert n == 60
    assert policy.predict(np.stack([obs, obs]))[0].shape == (2,)


# Observations.


def test_parts_of_a_tuple_are_laid_side_by_side(walk: Any) -> None:
    problem = rf.from_gym(walk("tuple"), horizon=5, features="polynomial")
    policy = rf.learn(problem, "stored-linear", feedback="realised", B=5.0, episodes=4, seed=1).policy
    assert policy.sensor.dimension == 2
    one = (np.array([0.5]), 1)
    assert np.array_equal(policy.sensor(one), [0.5, 1.0])
    assert policy.predict([one, one])[0].shape == (2,)
    with pytest.raises(rf.InvalidInput, match="shape of the training"):
        policy.predict((np.array([0.5]), 1, 2))


def test_a_space_starts_where_it_starts(walk: Any) -> None:
    policy = rf.learn(rf.from_gym(walk(), horizon=5), "ucbvi", B=5.0, episodes=4, seed=1).policy
    assert (policy.sensor(-20), policy.sensor(20)) == (0, 40)
    assert set(policy.predict(np.arange(-20, 21))[0].tolist()) <= {1, 2}
    with pytest.raises(rf.InvalidInput, match="from -20 to 20"):
        policy.predict(21)


@pytest.mark.parametrize(
    "plain",
    [
        None, {}, {"kind": 3}, {"kind": "other"}, {"kind": "number", "count": 0}, {"kind": "number", "count": "3"},
        {"kind": "vector"}, {"kind": "vector", "space": {"shape": [-1]}}, {"kind": "vector", "space": {"shape": 3}},
        {"kind": "vector", "space": {"parts": [3]}}, {"kind": "numbered", "count": 3, "space": None},
        {"kind": "function-vector", "space": {"shape": [2]}},
    ],
)  # fmt: skip
def test_a_form_of_observations_that_cannot_be_is_refused(plain: Any) -> None:
    with pytest.raises(rf.InvalidInput):
        sensor_from(plain, None)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_must_be_finite(bad: float) -> None:
    sensor = Sensor("vector", {"shape": [2]})
    with pytest.raises(rf.InvalidInput, match="finite"):
        sensor(np.array([0.0, bad]))
    with pytest.raises(rf.InvalidInput, match="finite"):
        Sensor("scalar")(bad)
