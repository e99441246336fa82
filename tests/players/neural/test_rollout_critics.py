"""Critics of imagined lives: exact values on a chain of two states, targets by hand, and danger beyond the end."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest
from tests.players.neural.toy_rollouts import f32, idle, nothing_beyond, toy, toy_batch

from resetfree.players.neural.world_model import (
    TD_LAMBDA,
    Path,
    RolloutBatch,
    action_of,
    bootstrapped_returns,
    compare,
    fresh_critics,
    improve,
    learn_values,
    opinions,
    rollout_returns,
    targets,
    values,
)

DISCOUNT = 0.9
CLOSE = 0.02  # of what critics say, which lies in [0, 1]
PRICES = (1.0, 30.0)
JUDGE = (-2.5, -2.5, 0.0, 0.0, 0.0)  # to come to z = -1 is a reset with 1 / 2, to z = 1 with 1 / (1 + e^5)


def chance(z: float) -> float:
    return float(1.0 / (1.0 + np.exp(2.5 + 2.5 * z)))


def actor_of_prices() -> Any:
    """An actor that does the same in every state, and less of it at a higher price."""
    actor = jax.tree.map(np.zeros_like, idle())
    first, second, last = actor["net"]
    first[0][2, 0], first[1][0], second[0][0, 0], last[0][0, 0] = -0.5, 1.0, 1.0, 1.0
    return actor


def chain() -> RolloutBatch:
    """Z alternates between 1 and -1, where a step earns 0.8 and 0.2, and 0.2 times the action more."""
    exact = 1e-4  # deviation of the noise
    model = toy(0.0, 0.0, reset_classifier=JUDGE)
    line = np.zeros((4, 3), dtype=np.float32)
    line[0, 2], line[1, 0], line[1, 2], line[3, 2] = 0.5, -2.0, 0.3, 0.2
    model = model._replace(line=line / np.float32(exact), deviation=np.full(3, exact, np.float32))
    batch = toy_batch(model, 0.0, ((1.0, 0.0), (-1.0, 0.0)) * 8, DISCOUNT)
    return batch._replace(lam=np.repeat(f32(*PRICES), 8))


def exact_values(lam: float) -> tuple[list[float], list[float]]:
    """(1 - g) V and C at z = 1 and z = -1, from two equations with two unknowns."""
    extra = 0.2 * float(action_of(actor_of_prices(), f32(1.0, 0.0), f32(np.log1p(lam)))[0])
    danger = np.array([chance(-1.0), chance(1.0)])
    step = np.eye(2) - DISCOUNT * np.array([[0.0, 1.0 - danger[0]], [1.0 - danger[1], 0.0]])
    earned = np.linalg.solve(step, (1.0 - DISCOUNT) * (np.array([0.8, 0.2]) + extra))
    return earned.tolist(), np.linalg.solve(step, danger).tolist()


@cache
def learned(ahead: int) -> Any:
    critics = fresh_critics(2, 16, np.random.default_rng(1))
    asked: dict[str, Any] = {"count": np.int32(300), "rate": np.float32(3e-3), "rollout_length": ahead}
    return learn_values(chain(), critics, actor_of_prices(), **asked)


@pytest.mark.parametrize("ahead", [1, 5])
def test_critics_learn_the_exact_values_of_a_chain(ahead: int) -> None:
    """Lives of 5 steps see 4 tenths of what is to come, and of 1 step one tenth: the critics must say the rest."""
    for lam in PRICES:
        said = values(learned(ahead)["critics"], f32([1.0, 0.0], [-1.0, 0.0]), f32(lam, lam))
        np.testing.assert_allclose(said[0], exact_values(lam)[0], atol=CLOSE)
        np.testing.assert_allclose(said[1], exact_values(lam)[1], atol=CLOSE)
    (cheap, _), (dear, _) = map(exact_values, PRICES)
    assert cheap[0] - dear[0] > 2 * CLOSE  # the price makes a difference that can be told
    assert exact_values(1.0)[1][0] > 0.3
    assert exact_values(1.0)[1][0] - exact_values(1.0)[1][1] > 2 * CLOSE


def test_a_life_and_what_lies_beyond_are_worth_the_same_whatever_its_length() -> None:
    critics, lam = learned(5)["critics"], PRICES[0]
    batch = chain()._replace(lam=np.full(16, lam, np.float32))
    for ahead in (1, 20):
        whole = bootstrapped_returns(batch, critics, actor_of_prices(), ahead)
        np.testing.assert_allclose(whole.reward[0, :2] * (1.0 - DISCOUNT), exact_values(lam)[0], atol=CLOSE)
        np.testing.assert_allclose(whole.reset[0, :2], exact_values(lam)[1], atol=CLOSE)


def test_critics_of_cost_differ_and_the_worse_counts() -> None:
    critics = nothing_beyond()
    critics[-1][1][:, 0, 0] = 0.0, -1.0, 1.0
    two, lam = f32([1.0, 0.0], [-1.0, 0.0]), f32(1.0, 1.0)
    np.testing.assert_allclose(values(critics, two, lam)[1], 1.0 / (1.0 + np.exp(-1.0)), rtol=1e-5)
    batch = chain()
    alone, whole = rollout_returns(batch, idle(), 3), bootstrapped_returns(batch, critics, idle(), 3)
    np.testing.assert_allclose(whole.reset - alone.reset, alone.left / (1.0 + np.exp(-1.0)), rtol=1e-4)
    np.testing.assert_allclose(whole.reward - alone.reward, alone.left * 0.5 / (1.0 - DISCOUNT), rtol=1e-4)
    said = opinions(learned(5)["critics"], two, lam)
    assert not np.array_equal(said[1], said[2])  # they learned from other steps


def test_targets_by_hand() -> None:
    rng = np.random.default_rng(0)
    critics = fresh_critics(2, 8, rng)["critics"]
    z, reward, danger = rng.normal(size=(4, 2, 3, 2)), rng.random((3, 2, 3)), 0.3 * rng.random((3, 2, 3))
    path, lam = Path(f32(*z), f32(*reward), f32(*danger), None), f32(0.0, 1.0, 9.0)
    said = 1.0 / (1.0 + np.exp(-np.asarray(opinions(critics, path.z, lam), dtype=np.float64)))
    found = np.asarray(targets(critics, path, lam, np.float32(DISCOUNT)))
    for e in range(2):
        for i in range(3):
            earned, cost = said[0, 3, e, i], max(said[1:, 3, e, i])
            for t in (2, 1, 0):
                lives = DISCOUNT * (1.0 - danger[t, e, i])
                earned = (1 - TD_LAMBDA) * said[0, t + 1, e, i] + TD_LAMBDA * earned
                cost = (1 - TD_LAMBDA) * max(said[1:, t + 1, e, i]) + TD_LAMBDA * cost
                earned, cost = (1 - DISCOUNT) * reward[t, e, i] + lives * earned, danger[t, e, i] + lives * cost
                assert found[:, t, e, i] == pytest.approx([earned, cost], abs=1e-5)


@pytest.mark.slow
def test_an_actor_avoids_danger_beyond_the_end_of_imagined_lives() -> None:
    drifting = toy(
        0.2, 0.2, reset_classifier=(-8.0, 0.0, 0.0, 2.0, 0.0), push=0.4
    )  # beyond 2 it falls; the push can stop it
    spread = [(0.4 * i, 0.0) for i in range(8)]
    batch = toy_batch(drifting, 5.0, spread, 0.95)
    critics = fresh_critics(2, 16, np.random.default_rng(1))
    asked: dict[str, Any] = {"rate": np.float32(1e-2), "rollout_length": 3}
    trained = learn_values(batch, critics, idle(), count=np.int32(100), **asked)["critics"]
    here = toy_batch(drifting, 5.0, discount=0.95)
    (_, seen), (_, unseen) = (compare(here, some, [idle()], 3) for some in (trained, nothing_beyond()))
    assert unseen[0] < 0.01
    assert seen[0] > 0.4
    better, blind = (improve(here, some, idle(), count=np.int32(60), **asked) for some in (trained, nothing_beyond()))
    pushed, left = (float(action_of(some, f32(0.0, 0.0), f32(np.log1p(5.0)))[0]) for some in (better, blind))
    assert pushed < -0.3
    assert left > pushed + 0.2
