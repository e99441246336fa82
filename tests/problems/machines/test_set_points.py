"""What every machine keeps: it lives without resets while it is steered, resets come from limits, rewards in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import resetfree as rf
from resetfree.core.arrays import Floats
from resetfree.problems.machines import IDS, arm, cart_load, two_tanks
from resetfree.problems.machines.set_points import EFFORT, SetPointMachine, play


class Case(NamedTuple):
    """A machine, its controller, the reward that the controller must reach, and the most that doing nothing earns."""

    make: Callable[[], SetPointMachine]
    controller: Callable[[Floats], Floats]
    reached: float
    nothing: float


CASES = {
    "resetfree/CartLoad-v0": Case(cart_load.CartLoad, cart_load.controller, 0.88, 0.5),
    "resetfree/TwoTanks-v0": Case(two_tanks.TwoTanks, two_tanks.controller, 0.94, 0.5),
    "resetfree/Arm-v0": Case(arm.Arm, arm.controller, 0.88, 0.6),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def at_random(machine: SetPointMachine, seed: int) -> Callable[[Floats], Any]:
    """Every action equally likely."""
    space = machine.action_space
    space.seed(seed)
    return lambda observation: space.sample()


def test_every_machine_is_tried() -> None:
    assert list(IDS) == list(CASES)


@cases
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_the_controller_follows_the_set_points_for_20000_steps_without_a_reset(case: Case, seed: int) -> None:
    life = play(case.make(), case.controller, 20_000, seed)
    assert not life.resets.any()
    assert life.rewards.mean() > case.reached


@cases
def test_doing_nothing_earns_clearly_less_and_random_actions_lead_to_resets(case: Case) -> None:
    still = play(case.make(), lambda observation: np.zeros(case.make().action_space.shape or ()), 2000, 0)
    assert still.rewards.mean() < case.nothing
    machine = case.make()
    wild = play(machine, at_random(machine, 0), 2000, 0)
    assert 3 <= wild.resets.sum() <= 100
    assert wild.rewards.mean() < case.nothing
    for life in (still, wild):
        assert (life.rewards >= 0).all()
        assert (life.rewards <= 1).all()
        assert all(machine.observation_space.contains(observation) for observation in life.observations)


@cases
def test_a_seed_decides_everything(case: Case) -> None:
    one, same, other = (play(case.make(), case.controller, 400, seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(one.observations, same.observations)
    np.testing.assert_array_equal(one.rewards, same.rewards)
    assert not np.array_equal(one.observations, other.observations)


@cases
def test_set_points_change_on_their_own_within_the_stated_times(case: Case) -> None:
    machine, goals = case.make(), []
    observation, _ = machine.reset(seed=2)
    for _ in range(3000):
        goals.append(machine.set_point.copy())
        observation, _, terminated, truncated, _ = machine.step(case.controller(observation))
        assert not terminated
        assert not truncated
    changed = np.flatnonzero((np.diff(goals, axis=0) != 0).any(axis=1)) + 1
    held = np.diff([0, *changed])
    least, most = machine.hold
    assert least <= held.min() < held.max() <= most
    assert len({tuple(goal) for goal in goals}) == len(changed) + 1


@cases
def test_a_reward_is_about_the_set_point_that_was_seen(case: Case) -> None:
    """When it changes, the step before was not played in vain."""
    machine = case.make()
    observation, _ = machine.reset(seed=2)
    before = machine.set_point
    while machine.set_point is before:
        action = case.controller(observation)
        observation, reward, *_ = machine.step(action)
    after, machine.set_point = machine.tracking(), before
    assert reward == pytest.approx((1 - EFFORT) * machine.tracking() + EFFORT * (1 - machine.effort(action)))
    assert after < machine.tracking()


@cases
def test_actions_beyond_the_box_are_cut(case: Case) -> None:
    one, other = case.make(), case.make()
    space: Any = one.action_space
    for machine in (one, other):
        machine.reset(seed=0)
    np.testing.assert_array_equal(one.step(3 * space.high)[0], other.step(space.high)[0])


@pytest.mark.parametrize("id", IDS)
def test_gymnasium_makes_and_accepts_it(id: str) -> None:
    env = gymnasium.make(f"resetfree.problems.machines:{id}")
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("id", IDS)
def test_a_learner_gets_it_by_its_name_alone(id: str) -> None:
    """Rewards need no range, and `terminated` is the reset event."""
    problem = rf.from_gym(f"gym:{id}", actions="box")
    run = rf.learn(
        problem,
        "model-search",
        "constant-penalty",
        episodes=3,
        feedback="realised",
        settings={"dual": {"C": 200.0}, "primal": {"planning": 10, "population": 8, "rounds": 2}},
    )
    assert ((run.columns["reward"] >= 0) & (run.columns["reward"] <= run.columns["steps"])).all()
    assert np.array_equal(run.columns["original_return"], run.columns["reward"])
