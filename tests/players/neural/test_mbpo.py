"""Model-based policy optimisation: the ensemble's loss by hand, imagined lives step by step, and the price of falls."""

from typing import Any

import jax
import numpy as np
import pytest
from tests.players.neural.small_networks import Target, small

import resetfree as rf
from resetfree.game.replay_buffer import empty_buffer
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.neural.mbpo import (
    LEAST_LOG_VARIANCE,
    LEAST_SCALE,
    MBPO,
    ModelScales,
    fall_odds,
    fit,
    fresh_ensemble,
    model_loss,
    moves,
    rollout,
    scales_of,
)
from resetfree.players.neural.networks import Minibatch, replayed, uniform_layers
from resetfree.players.testing.trial_problems import PUSH, played
from resetfree.problems.formula import no_policy

UNIT = ModelScales(*(np.asarray(one, dtype=np.float32) for one in (0, 1, 1, -9, 9, 0, 1, -9, 9, 0)))


def always(*members: list[float]) -> Any:
    """An ensemble for D = 2, A = 1 whose members each say one thing: change [2], reward, three logs, log odds."""
    model = jax.tree.map(np.zeros_like, fresh_ensemble(2, 1, 4, len(members), np.random.default_rng(0))["model"])
    said = np.array(members, dtype=np.float32)[:, None]
    model["moves"][-1][1][:], model["falls"][-1][1][:] = said[..., :-1], said[..., -1:]
    return model


def actor() -> Any:
    return uniform_layers((2, 4, 4, 2), np.random.default_rng(1))


def test_the_loss_by_hand() -> None:
    """One member says that nothing changes, with variance 1 (as far as it may), and a fall with probability 1/2."""
    batch = Minibatch(*(np.asarray(one, dtype=np.float32)[None] for one in ([[1, 2]], [[0.5]], [3], [[1.5, 2]], [1])))
    model = always([0, 0, 0, 0, 0, 0, 0])
    _, log = moves(model, batch.state, batch.action, UNIT)
    assert 0.0 > float(log[0, 0, 0]) > -1.0  # bounded from above, smoothly
    expected = (0.5**2 + 0.0 + 3.0**2) * np.exp(-log[0, 0, 0]) + 3 * log[0, 0, 0] + np.log(2.0)
    assert float(model_loss(model, batch, UNIT)) == pytest.approx(float(expected), rel=1e-5)
    assert float(moves(always([0, 0, 0, -99, -99, -99, 0]), *batch[:2], UNIT)[1].min()) >= LEAST_LOG_VARIANCE


def lives(model: Any, ahead: int = 3) -> Minibatch:
    starts = np.array([[0.5, 0.0], [-0.5, 0.0]] * 50, dtype=np.float32)
    tree, zero = {"actor": actor(), "model": model}, np.uint32(0)
    return Minibatch(*rollout(tree, starts, seed=zero, first=zero, scales=UNIT, rollout_length=ahead))


def test_imagined_steps_follow_each_other() -> None:
    found = lives(always([0.25, 0.0, 0.7, -99, -99, -99, -99]))
    np.testing.assert_allclose(found.next_state - found.state, np.broadcast_to([0.25, 0.0], (3, 100, 2)), atol=0.05)
    np.testing.assert_allclose(found.reward, 0.7, atol=0.05)
    np.testing.assert_array_equal(found.state[1:], found.next_state[:-1])
    assert not found.terminated.any()
    assert np.ptp(found.action) > 0.5
    assert np.abs(found.action).max() <= 1.0


def test_a_life_that_fell_begins_again() -> None:
    found = lives(always([0.25, 0.0, 0.7, -99, -99, -99, 99]))
    assert found.terminated.all()
    np.testing.assert_array_equal(found.state[1], found.state[0])


def test_each_step_is_that_of_one_member() -> None:
    found = lives(always([1.0, 0.0, 0.0, -99, -99, -99, -99], [-1.0, 0.0, 0.0, -99, -99, -99, 99]))
    up = np.asarray(found.next_state[..., 0] > found.state[..., 0])
    assert 0.3 < up.mean() < 0.7
    np.testing.assert_array_equal(found.terminated == 0.0, up)  # a member's change comes with its own fall


def test_imagined_states_stay_near_what_was_seen() -> None:
    found = lives(always([99.0, 0.0, 0.0, -99, -99, -99, -99]))
    assert float(found.next_state.max()) == 9.0


def test_scales_by_hand() -> None:
    s, next_state = np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 1.0], [5.0, 1.0]])
    found = scales_of(Minibatch(s, np.zeros((2, 1)), np.array([0.0, 1.0]), next_state, np.array([0.0, 1.0])))
    assert found.centre.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(found.scale, [1.0, LEAST_SCALE])
    np.testing.assert_allclose(found.change, [1.0, LEAST_SCALE])
    assert (found.low.tolist(), found.high.tolist()) == ([-5.0, 1.0], [10.0, 1.0])
    assert [float(one) for one in found[5:]] == [0.5, 0.5, 0.0, 1.0, 0.0]


def random_episodes(n: int) -> Any:
    return list(rf.simulate(Target(), no_policy(PUSH, 2), n, seed=4))


def test_the_ensemble_learns_dynamics_and_falls() -> None:
    rows, rng = empty_buffer(Target()), np.random.default_rng(0)
    for one in random_episodes(200):
        rows.add(one)
    taken, ends = np.flatnonzero(rows.taken(rows.n)), (np.zeros(1), np.ones(1))
    seen = replayed(rows, taken, ends)
    assert seen.terminated.sum() > 20
    tree, scales = fresh_ensemble(2, 1, 16, 2, rng), scales_of(seen)
    for _ in range(60):
        batches = replayed(rows, rng.choice(taken, (16, 2, 16)), ends)
        tree = fit(tree, batches, count=np.int32(16), rate=np.float32(3e-3), scales=scales)
    mean, _ = moves(tree["model"], seen.state, seen.action, scales)
    odds = fall_odds(tree["model"], seen.state, seen.action, seen.next_state, scales)
    x = seen.state[:, 0] + 0.2 * seen.action[:, 0]  # where the push leads but for the noise
    np.testing.assert_allclose(seen.state[:, 0] + scales.change[0] * mean[0, :, 0], x, atol=0.05)
    risk = np.asarray(jax.nn.sigmoid(odds)).mean(axis=0)
    assert risk[np.abs(x) < 0.8].mean() < 0.02
    assert risk[seen.terminated == 1].mean() > 0.6
    assert risk.mean() == pytest.approx(seen.terminated.mean(), abs=0.03)  # neither alarmed nor careless


def test_imagined_falls_cost_their_price_and_a_share_is_real() -> None:
    player = small(MBPO, price=50.0, real=0.25)
    state = player.init(Target(), 100, 0)
    for one in random_episodes(40):
        state.rows.add(one)
    _, draw = player.prepare(state, state.taken(), 10)
    batch = draw((64, 16))
    assert batch.terminated.shape == (64, 16)
    assert 0 < batch.terminated[:, 4:].mean() < 1
    assert (batch.reward[batch.terminated == 1] <= 1.0 - 50.0).all()
    assert (batch.reward[batch.terminated == 0] >= 0.0).all()
    real = {tuple(one) for one in replayed(state.rows, state.taken(), (np.zeros(1), np.ones(1))).state.tolist()}
    assert all(tuple(one) in real for one in batch.state[:, :4].reshape(-1, 2).tolist())
    later = np.mean([tuple(one) in real for one in batch.state[:, 4:].reshape(-1, 2).tolist()])
    assert 0.4 < later < 0.95  # imagined lives begin where the agent was


def test_it_learns_to_fall_less() -> None:
    player = small(MBPO, gamma=0.9, price=5.0, gradient_steps=5, model_rate=3e-3)
    _, rounds = played(Target(), player, ConstantPenalty(C=0.0), 60, seed=1)
    assert sum(one.reset for one in random_episodes(100)) >= 10
    assert sum(this.episode.reset for this in rounds[-20:]) == 0
    assert np.mean([this.episode.total_reward for this in rounds[-20:]]) > 8.0
