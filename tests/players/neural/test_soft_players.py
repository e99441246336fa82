"""Soft actor-critics: their targets by hand, what ends a life, and that they learn."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.players.neural.small_networks import Target, episode, feed, small

from resetfree.game.replay_buffer import empty_buffer
from resetfree.players.dual.one_multiplier import ConstantPenalty
from resetfree.players.neural.networks import Minibatch, forward, rectified, replayed
from resetfree.players.neural.sac import (
    SAC,
    TOGETHER,
    Learning,
    SACLagrangian,
    improve,
    squashed_log,
    target,
    td_targets,
)
from resetfree.players.testing.trial_problems import PUSH, Plane, played
from resetfree.problems.stepping import Step

HOW = Learning(1e-3, 0.9, 0.01)
ENDS = (np.array([0.0]), np.array([1.0]))


def test_only_a_fall_is_an_end() -> None:
    """The last step of an episode that did not fall leads on: its target has a future."""
    rows = empty_buffer(Target())
    rows.add(episode(False))
    rows.add(episode(True))
    batch = replayed(rows, np.flatnonzero(rows.taken(rows.n)), ENDS)
    assert batch.terminated.tolist() == [0.0, 0.0, 0.0, 1.0]
    np.testing.assert_allclose(batch.next_state[:, 0], [0.2, 0.3, 0.2, 0.3])
    np.testing.assert_allclose(batch.action[:, 0], [-0.5, 1.0, -0.5, 1.0])
    assert all(field.dtype == np.float32 for field in batch)


def constant(value: float, copies: int | None = None, outputs: int = 1) -> Any:
    """A network whose outputs do not depend on its input."""
    many = () if copies is None else (copies,)
    offset = np.full((*many, 1, outputs) if many else (outputs,), value, dtype=np.float32)
    return ((np.zeros((*many, 3 if many else 2, outputs), dtype=np.float32), offset),)


def test_targets_by_hand() -> None:
    """Critics say 4 and 3, costs 0.2 and 0.5; the actor is standard normal; temperature 0.5, discount 0.9."""
    critics, costs = constant(4.0, 2), constant(0.2, 2)
    critics[0][1][1], costs[0][1][1] = 3.0, 0.5
    tree = {"actor": constant(0.0, outputs=2), "late_critics": critics, "late_costs": costs}
    tree["log_alpha"] = jnp.log(0.5)
    batch = Minibatch(np.zeros((2, 2)), np.zeros((2, 1)), np.array([1.0, -7.0]), np.zeros((2, 2)), np.array([0.0, 1.0]))
    x = 0.6
    density = -0.5 * x**2 - 0.5 * np.log(2 * np.pi) - np.log(1 - np.tanh(x) ** 2)
    noise = jnp.full((2, 1), x)
    assert float(squashed_log(noise, jnp.zeros(()), noise)[0]) == pytest.approx(density, rel=1e-5)
    wanted, risk = td_targets(tree, batch, noise, HOW)
    np.testing.assert_allclose(wanted, [1.0 + 0.9 * (3.0 - 0.5 * density), -7.0], rtol=1e-5)  # the smaller critic
    np.testing.assert_allclose(risk, [0.9 * 0.5, 1.0], rtol=1e-5)  # the worse critic
    del tree["late_costs"]
    assert td_targets(tree, batch, noise, HOW)[1] is None
    assert target(1.0, 0.0, 2.0, 0.9) == pytest.approx(2.8)


def test_a_fall_costs_its_price() -> None:
    state = (player := small(SAC, price=5.0, reward_scale=2.0)).init(Target(), 5, 0)
    state.rows.add(episode(True, reward=0.5))
    np.testing.assert_allclose(player.priced(state, state.taken()).reward, [1.0, 2.0 * (0.5 - 5.0)])


def test_the_value_of_an_endless_life_is_not_that_of_an_episode() -> None:
    """Two paid steps an episode, for ever: 1 / (1 - 0.8) = 5 and some entropy, where an end would make it 2."""
    player = small(SAC, gamma=0.8, tau=0.05, gradient_steps=10)
    state = player.init(Target(), 100, 0)
    for k in range(60):
        state = feed(player, state, episode(False), k)
    assert state.gradient_steps == 20 * (60 - 4)  # none in the first ten steps
    assert 4.0 < last_value(state) < 8.0
    state = player.init(Target(), 100, 0)
    for k in range(60):
        state = feed(player, state, episode(True), k)
    assert last_value(state) == pytest.approx(1.0, abs=0.1)  # one step, and then nothing


def last_value(state: Any) -> float:
    """What the critics say about the last step of `episode`."""
    return float(forward(state.tree["critics"], np.array([0.2, 0.0, 1.0]), rectified).min())


def test_it_learns_where_it_is_paid() -> None:
    _, rounds = played(Target(), small(SAC, gamma=0.9), ConstantPenalty(C=0.0), 120, seed=1)
    earned = [this.episode.total_reward / 10.0 for this in rounds]
    assert np.mean(earned[:20]) < 0.55
    assert np.mean(earned[-20:]) > 0.75


def test_the_multiplier_keeps_the_actor_from_what_falls() -> None:
    """A push pays, and a strong one falls; at the price of 100 it is not worth it."""

    class Tempting(Plane):
        def step(self, h: int, state: Any, action: Any, u: Any) -> Step:
            push = float(action[0])
            return Step(np.array([push, u[1]]), 0.3 + 0.7 * push, bool(push > 0.7))

    pushes = {}
    for C in (0.0, 100.0):
        problem = Tempting("tempting", 3, (0.0, 1.0), 0.0, PUSH)
        dual = ConstantPenalty(C=C)
        game, _ = played(problem, small(SACLagrangian, gamma=0.0, gradient_steps=5), dual, 150, seed=2)
        plan = small(SACLagrangian).plan(game.primal, np.zeros(2), C)
        pushes[C] = float(plan.policy.mode(1, np.zeros(2))[0])
        assert 0.0 <= plan.v_c <= 1.0
    assert pushes[0.0] > 0.7 > pushes[100.0]


def test_steps_are_the_same_however_they_are_grouped_and_each_has_noise_of_its_own() -> None:
    player = small(SAC)
    state = player.init(Target(), 5, 0)
    for k in range(6):
        state.rows.add(episode(k == 3))
    tree, draw = player.prepare(state, state.taken(), 2)
    batches = draw((TOGETHER, player.batch))
    later = Minibatch(*(np.roll(field, -1, axis=0) for field in batches))
    numbers: dict[str, Any] = {"seed": np.uint32(7), "lam": np.float32(0.0), "how": Learning(*map(np.float32, HOW))}
    once = improve(tree, batches, count=np.int32(2), first=np.uint32(5), **numbers)
    first = improve(tree, batches, count=np.int32(1), first=np.uint32(5), **numbers)
    twice = improve(first, later, count=np.int32(1), first=np.uint32(6), **numbers)
    other = improve(first, later, count=np.int32(1), first=np.uint32(5), **numbers)
    for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(twice), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(other["actor"][0][0], once["actor"][0][0])


def test_the_predicted_reward_is_by_the_smaller_of_two_whole_critics() -> None:
    """At 0.1 the first says 20 - 1, the second 1 + 50 x 0.1; the first with the second's weights would say 20 - 6."""
    player = small(SAC, gradient_steps=1, reward_scale=40.0)
    state = player.init(Target(), 9, 0)
    for k in range(6):
        state = feed(player, state, episode(False), k)
    slopes, signs = np.zeros((2, 3, 1)), np.array([-1.0, 1.0]).reshape(2, 1, 1)
    slopes[1, 0], same = 50.0, (np.ones((2, 1, 1)), np.zeros((2, 1, 1)))
    for ends, smaller in (((20.0, 0.0), 6.0), ((20.0, 50.0), 19.0)):
        layers = ((slopes, np.ones((2, 1, 1))), same, (signs, np.array(ends).reshape(2, 1, 1)))
        state.keep({**state.tree, "critics": layers}, 1, player.name)
        v_r = player.plan(state, np.array([0.1, 0.0]), 0.0).v_r
        assert v_r == pytest.approx((1.0 - player.gamma) * smaller / 40.0 * state.horizon)
