"""Proximal policy optimisation: advantages and loss by hand, what ends a life, when it learns, and that it does."""

from itertools import pairwise
from math import exp

import jax
import numpy as np
import pytest
from tests.players.neural.small_networks import Target, episode, feed, small

import resetfree as rf
from resetfree.core import state as saving
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.neural.networks import Minibatch, forward
from resetfree.players.neural.ppo import (
    PPO,
    Clipping,
    PlayedSteps,
    advantages,
    clipped_loss,
    fresh_policy_gradient,
    goes_on,
    minibatches,
)
from resetfree.players.testing.trial_problems import played

REWARD, VALUE, AFTER = np.array([1.0, 0.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    ("dead", "last", "expected"),
    [
        # gamma 0.9, trace 0.5: deltas 1.6, 0.5, 2.4 while nobody falls
        ([0, 0, 0], 2, [1.6 + 0.45 * (0.5 + 0.45 * 2.4), 0.5 + 0.45 * 2.4, 2.4]),
        ([0, 0, 1], 2, [1.6 + 0.45 * (0.5 + 0.45 * -3.0), 0.5 + 0.45 * -3.0, -3.0]),  # a fall: no V(s')
        ([0, 0, 0], 1, [1.6 + 0.45 * 0.5, 0.5, 2.4]),  # an episode ends after the second step: its V(s') stays
    ],
)
def test_advantages_by_hand(dead: list[int], last: int, expected: list[float]) -> None:
    follows = np.arange(3) < 2
    follows[last] = False
    seen = Minibatch(None, None, REWARD, None, np.array(dead, dtype=float))
    found = advantages(seen, VALUE, AFTER, follows, gamma=0.9, gae_lambda=0.5)
    np.testing.assert_allclose(found, expected)


def test_the_loss_by_hand() -> None:
    """Two steps whose densities have changed by e^0.5 and e^-0.5; their advantages 3 and 1 become +-1/sqrt(2)."""
    networks = fresh_policy_gradient(2, 1, 8, np.random.default_rng(0))
    networks["actor"] = jax.tree.map(np.zeros_like, networks["actor"])  # mean 0, deviation 1
    s, x = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32), np.array([[0.5], [-1.0]])
    now = -0.5 * x[:, 0] ** 2 - 0.5 * np.log(2 * np.pi)
    value = forward(networks["value"], s, np.tanh)[:, 0]
    steps = PlayedSteps(s, x, now - np.array([0.5, -0.5]), np.array([3.0, 1.0]), value + np.array([0.0, 2.0]))
    gain = 1.0 / np.sqrt(2.0)
    policy = -(min(exp(0.5), 1.2) * gain + min(exp(-0.5) * -gain, 0.8 * -gain)) / 2
    entropy = 0.5 * np.log(2 * np.pi) + 0.5
    found = clipped_loss(networks, steps, Clipping(0.0, 0.2, 0.5, 0.1, 1.0))
    assert float(found) == pytest.approx(policy + 0.5 * 2.0 - 0.1 * entropy, rel=1e-5)


def test_every_step_is_used_once_in_an_epoch() -> None:
    found = minibatches(11, 3, 2, np.random.default_rng(0))
    assert found.shape == (6, 3)
    for epoch in (found[:3], found[3:]):
        assert len(set(epoch.ravel().tolist())) == 9
    assert found[:3].tolist() != found[3:].tolist()


def test_it_learns_from_the_latest_steps_of_one_policy_alone() -> None:
    player = small(PPO)
    state = player.init(Target(), 30, 0)
    plans = []
    for k in range(25):  # two steps each; twenty make a time to learn
        state = feed(player, state, episode(False), k)
        plans.append(player.plan(state, np.zeros(2), 0.0).policy)
    assert state.gradient_steps == 2 * 10 * 2
    assert state.since == 60  # rows: three an episode
    changes = [k for k in range(1, 25) if not plans[k].same(plans[k - 1])]
    assert changes == [9, 19]


def test_the_value_of_an_endless_life_is_not_that_of_an_episode() -> None:
    """Two paid steps an episode, for ever: 1 / (1 - 0.8) = 5, where an end would make it at most 1.8."""
    for fell, least, most in ((False, 3.5, 6.0), (True, 0.7, 1.3)):
        player = small(PPO, gamma=0.8)
        state = player.init(Target(), 300, 0)
        for k in range(200):
            state = feed(player, state, episode(fell), k)
        assert least < float(forward(state.tree["value"], np.array([0.2, 0.0]), np.tanh)[0]) < most


@pytest.mark.parametrize(("fell", "same"), [(False, True), (True, False)])
def test_where_a_machine_runs_on_the_end_of_an_episode_means_nothing(fell: bool, same: bool) -> None:
    """Twenty steps as one episode or as two; a fall in the middle is no such end."""
    rng = np.random.default_rng(1)
    s, a, r = rng.normal(size=(21, 2)), rng.uniform(0.1, 0.9, size=(20, 1)), rng.uniform(size=20)
    learned = []
    for cuts in ((0, 20), (0, 10, 20)):
        player = small(PPO)
        state = player.init(Target(), 30, 0)
        for k, (i, j) in enumerate(pairwise(cuts)):
            one = rf.Episode(s[i : j + 1], a[i:j], r[i:j], fell and j == 10, s[j])
            state = feed(player, state, one, k)
        assert state.gradient_steps == 20
        learned.append(np.concatenate([leaf.ravel() for leaf in state.learned]))
    once, twice = learned
    assert np.array_equal(once, twice) is same


def test_an_episode_that_begins_elsewhere_is_another_life() -> None:
    player = small(PPO)
    state = player.init(Target(), 30, 0)
    for k in range(2):
        state = feed(player, state, episode(False), k)  # begins at 0.1 and ends at 0.3
    assert goes_on(state.rows, state.taken()).tolist() == [True, False, True, False]


def test_it_learns_where_it_is_paid() -> None:
    _, rounds = played(Target(), small(PPO, gamma=0.9, steps=100, batch=10), ConstantPenalty(C=0.0), 150, seed=1)
    earned = [this.episode.total_reward / 10.0 for this in rounds]
    assert np.mean(earned[:20]) < 0.55
    assert np.mean(earned[-20:]) > 0.75


def test_a_file_that_lets_the_policy_begin_within_an_episode_is_refused() -> None:
    player = small(PPO)
    state = player.init(Target(), 30, 0)
    for k in range(12):
        state = feed(player, state, episode(False), k)
    saved = saving.dump(state)
    again = player.init(Target(), 30, 0)
    saving.replay(again, [episode(False)] * 12)
    saving.load(again, saved)
    assert again.since == 30
    for since in (31, 1000):
        with pytest.raises(rf.InvalidInput, match="policy must begin with an episode"):
            saving.load(again, {**saved, "since": np.array(since)})


def test_a_minibatch_is_no_larger_than_what_is_collected() -> None:
    with pytest.raises(rf.InvalidInput, match=r"The 'batch' of ppo must be at most its 'steps', 32\. Got 64 instead"):
        PPO(steps=32)
