"""The arm moves by Lagrange's equations of six rods, and its limits and rewards are what its docstring says."""

import numpy as np
import pytest
from tests.problems.machines.lagrange import generalised_force

from resetfree.core import Floats
from resetfree.problems.machines.arm import (
    FRICTION,
    HOME,
    INERTIA,
    JOINTS,
    LENGTH,
    MASS,
    RANGE,
    ROTOR,
    SPEED,
    TORQUE,
    Arm,
    energy,
    joints_at,
)
from resetfree.problems.machines.set_points import EFFORT, closeness, runge_kutta

FREE = np.zeros(JOINTS)


def kinetic(q: Floats, w: Floats) -> float:
    """From the places of the links' ends, and nothing else: rods in the plane, and a rotor in every joint.

    Speeds are exact derivatives, along i.
    """
    speed = joints_at(q + 1e-20j * w).imag / 1e-20
    middle, spin = (speed[1:] + speed[:-1]) / 2, np.cumsum(w)
    rods = 0.5 * MASS * (middle**2).sum() + 0.5 * MASS * LENGTH**2 / 12 * (spin**2).sum()
    return float(rods + 0.5 * ROTOR * (w**2).sum())


@pytest.mark.parametrize("seed", range(3))
def test_motion_obeys_lagranges_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, w, u = HOME + rng.uniform(-1, 1, JOINTS), rng.uniform(-2, 2, JOINTS), rng.uniform(-1, 1, JOINTS)
    rates = Arm().rates(np.concatenate([q, w]), u)
    np.testing.assert_array_equal(rates[:JOINTS], w)
    needed = generalised_force(kinetic, q, w, rates[JOINTS:])
    np.testing.assert_allclose(needed, TORQUE * u - FRICTION * w, atol=1e-5)
    assert energy(np.concatenate([q, w])) == pytest.approx(kinetic(q, w))


def test_energy_and_spin_are_kept_without_torque_and_friction() -> None:
    """The spin about the base: nothing depends on the first angle."""

    def spin(x: Floats) -> float:
        direction, turning = np.cumsum(x[:JOINTS]), np.cumsum(x[JOINTS:])
        return float(((INERTIA * np.cos(direction[:, None] - direction)) @ turning).sum() + ROTOR * x[JOINTS])

    rng = np.random.default_rng(0)
    x = np.concatenate([HOME + rng.uniform(-0.5, 0.5, JOINTS), rng.uniform(-1, 1, JOINTS)])
    first, turned = energy(x), spin(x)
    for _ in range(200):
        x = runge_kutta(Arm(friction=0.0).rates, x, FREE, Arm.dt, Arm.substeps)
    assert energy(x) == pytest.approx(first, rel=1e-5)
    assert spin(x) == pytest.approx(turned, rel=1e-5)


@pytest.mark.parametrize(
    ("joint", "turned", "speed", "limit"),
    [(3, 0.95, 0.0, False), (3, 0.95, 1.5, True), (0, -0.95, -1.5, True), (5, 0.0, 1.05 * SPEED, True)],
)
def test_limits_are_angles_and_speeds_of_joints(joint: int, turned: float, speed: float, limit: bool) -> None:
    arm = Arm(friction=0.0)
    arm.reset(seed=0)
    arm.x = np.concatenate([np.full(JOINTS, HOME), np.zeros(JOINTS)])
    arm.x[joint], arm.x[JOINTS + joint] = HOME + RANGE * turned, speed
    assert arm.step(FREE)[2] is limit


def test_the_reward_is_about_the_distance_of_the_hand() -> None:
    arm = Arm()
    arm.reset(seed=0)
    hand = joints_at(arm.x[:JOINTS])[-1]
    arm.set_point = hand + np.array([0.03, -0.04])
    observation, reward, *_ = arm.step(FREE)
    np.testing.assert_allclose(observation[2 * JOINTS :], [0.03, -0.04], atol=1e-12)
    assert reward == pytest.approx((1 - EFFORT) * closeness(0.05, 0.5) + EFFORT)
    assert arm.step(np.ones(JOINTS))[1] < 1 - EFFORT
