"""Value iteration in a fitted model, and the policy that imitates it."""

import numpy as np
from scipy.spatial import cKDTree

from resetfree.core.arrays import Floats
from resetfree.players.model_based.machine_model import Experience, MachineModel, RolloutRules, fit_machine
from resetfree.players.model_based.value_iteration import (
    DISCOUNT,
    NEARLY,
    Aim,
    Stepper,
    ValueTable,
    action_levels,
    imitated,
    iterate,
    planned,
)

BOUNDS = np.array([-1.0, -0.1]), np.array([1.0, 0.1])


def valley(s: Floats, a: Floats) -> Floats:
    """A car in a valley, with too little force to leave it at once."""
    speed = np.clip(s[:, 1] + 0.004 * a[:, 0] - 0.008 * np.sin(np.pi * s[:, 0]), -0.1, 0.1)
    return np.column_stack([np.clip(s[:, 0] + speed, -1.0, 1.0), speed])


def model() -> tuple[MachineModel, Floats]:
    """The model of 500 steps from anywhere; the reward is the height of the car. Then the scaled states."""
    rng = np.random.default_rng(0)
    before = rng.uniform(*BOUNDS, size=(500, 2))
    action = rng.uniform(-1.0, 1.0, size=(500, 1))
    seen = Experience(before, action, before[:, 0] ** 2, valley(before, action), before, before[:0])
    fitted = fit_machine(seen, BOUNDS, draws=2, caution=0.0, rng=rng)
    return fitted, fitted.scaling(before)


def test_a_way_of_several_swings_is_found() -> None:
    """From the bottom, where the best push is against the motion never; pushing one way stays below 0.5."""
    fitted, visited = model()
    step = Stepper(fitted, action_levels(1), visited, Aim(0.0))
    found = planned(step, visited, fitted.scaling(np.zeros((4, 2))), 80, np.random.default_rng(1))
    assert found is not None
    theta, units = found
    s = np.array([[0.05, 0.0]])
    reached = []
    for _ in range(120):
        features = RolloutRules(units).features(fitted.scaling(s))
        s = valley(s, np.tanh(features @ theta[:, :-1].T + theta[:, -1]))
        reached.append(abs(float(s[0, 0])))
    assert max(reached) > 0.9
    assert np.mean(reached[-20:]) > 0.8  # and it stays there


def test_values_are_the_fixed_point_of_their_equation() -> None:
    """Written out for a few points, of which each is its own nearest neighbour."""
    fitted, visited = model()
    step, points = Stepper(fitted, action_levels(1), visited, Aim(0.0)), visited[:40]
    table = iterate(step, points, None)
    after, earned, goes_on = step(points)
    again = (earned + DISCOUNT * goes_on * table(after)).reshape(len(points), -1).max(axis=1)
    np.testing.assert_allclose(again, table.values, rtol=5e-3)


def test_a_bonus_is_for_where_nothing_was_seen() -> None:
    fitted, visited = model()
    left = visited[visited[:, 0] < 0.0]
    plain, curious = (Stepper(fitted, action_levels(1), left, Aim(0.0, bonus)) for bonus in (0.0, 0.5))
    known, unknown = visited[visited[:, 0] < -0.5][:5], visited[visited[:, 0] > 1.0][:5]
    assert (curious(unknown)[1] - plain(unknown)[1]).min() > 0.5
    assert (curious(known)[1] - plain(known)[1]).max() < 0.25


def test_weights_of_the_nearest_add_to_one() -> None:
    z = np.random.default_rng(0).normal(size=(30, 3))
    weight, nearest = ValueTable(cKDTree(z), np.arange(30.0)).weights(z[:7] + 1e-9)
    np.testing.assert_allclose(weight.sum(axis=1), 1.0)
    assert nearest[:, 0].tolist() == list(range(7))


def test_what_is_imitated_is_the_best_action() -> None:
    """Two regions of a plane, in which opposite actions are best; a linear policy could not: they alternate."""
    rng = np.random.default_rng(0)
    z, actions = rng.uniform(-2.0, 2.0, size=(600, 2)), np.array([[-1.0], [1.0]])
    right = (np.sin(2.0 * z[:, 0]) > 0.0).astype(float)
    theta, units = imitated(z, np.column_stack([1.0 - right, right]), actions, rng)
    pushed = np.tanh(RolloutRules(units).features(z) @ theta[:, :-1].T + theta[:, -1])[:, 0]
    assert (np.sign(pushed) == 2.0 * right - 1.0).mean() > 0.95
    assert np.abs(pushed).max() < NEARLY + 0.2


def test_long_states_and_many_actions_are_left_to_the_search() -> None:
    fitted, visited = model()
    step = Stepper(fitted, np.empty((0, 1)), visited, Aim(0.0))
    assert planned(step, visited, visited[:2], 5, np.random.default_rng(0)) is None
