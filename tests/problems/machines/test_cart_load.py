"""The crane moves by Lagrange's equations, and its limits and rewards are what its docstring says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.problems.machines.lagrange import generalised_force

from resetfree.core.arrays import Floats
from resetfree.problems.machines.cart_load import CART, FORCE, GRAVITY, LOAD, PIVOT, RAIL, ROPE, CartLoad, energy
from resetfree.problems.machines.set_points import EFFORT, runge_kutta

FREE, TINY = np.zeros(1), 1e-20


def lagrangian(q: Floats, w: Floats) -> float:
    """From the places of cart and load, and nothing else; speeds are exact derivatives along i."""
    along, up = ((place.real, place.imag / TINY) for place in load(*(q + 1j * TINY * w)))
    return float(0.5 * CART * w[0] ** 2 + 0.5 * LOAD * (along[1] ** 2 + up[1] ** 2) - LOAD * GRAVITY * up[0])


def load(p: Any, angle: Any) -> tuple[Any, Any]:
    """Where the load is."""
    return p + ROPE * np.sin(angle), -ROPE * np.cos(angle)


@pytest.mark.parametrize("seed", range(5))
def test_motion_obeys_lagranges_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, force = rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 1)
    rates = CartLoad().rates(x, force)
    np.testing.assert_array_equal(rates[[0, 2]], x[[1, 3]])
    needed = generalised_force(lagrangian, x[[0, 2]], x[[1, 3]], rates[[1, 3]])
    np.testing.assert_allclose(needed, [FORCE * force[0] - RAIL * x[1], -PIVOT * x[3]], atol=1e-5)


def test_energy_is_kept_without_force_and_friction() -> None:
    x = np.array([0.3, 0.5, 1.0, -2.0])
    first, least, most = energy(x), np.inf, -np.inf
    for _ in range(400):
        x = runge_kutta(CartLoad(friction=0.0).rates, x, FREE, CartLoad.dt, CartLoad.substeps)
        least, most = min(least, x[2]), max(most, x[2])
    assert most - least > 1.5  # it swung
    assert energy(x) == pytest.approx(first, abs=1e-4)


def test_energy_changes_by_the_work_of_force_and_friction() -> None:
    x, force, h = np.array([0.1, 0.4, 0.2, -0.7]), np.array([0.3]), 1e-5
    rates = CartLoad().rates(x, force)
    gained = (energy(x + h * rates) - energy(x - h * rates)) / (2 * h)
    assert gained == pytest.approx(0.3 * FORCE * 0.4 - RAIL * 0.4**2 - PIVOT * 0.7**2, abs=1e-6)


def test_a_small_swing_has_the_frequency_of_the_books() -> None:
    """On a free cart, sqrt(g / l (1 + load / cart)): half a swing to the other side, the cart moving against it."""
    half = np.pi / np.sqrt(GRAVITY / ROPE * (1 + LOAD / CART))
    x = runge_kutta(CartLoad(friction=0.0).rates, np.array([0.0, 0.0, 0.01, 0.0]), FREE, half, 100)
    np.testing.assert_allclose(x, [2 * 0.01 * LOAD / (CART + LOAD), 0.0, -0.01, 0.0], atol=1e-5)


@pytest.mark.parametrize(
    ("state", "limit"),
    [((1.99, 0, 0, 0), False), ((1.99, 1, 0, 0), True), ((-1.99, -1, 0, 0), True), ((0, 0, 0.38, 2), True)],
)
def test_limits_are_the_ends_of_the_rail_and_the_swing(state: tuple[float, ...], limit: bool) -> None:
    crane = CartLoad()
    crane.reset(seed=0)
    crane.x = np.array(state, dtype=np.float64)
    assert crane.step(FREE)[2] is limit


def test_the_reward_is_about_the_load() -> None:
    crane = CartLoad()
    crane.reset(seed=0)
    crane.x, crane.set_point = np.zeros(4), np.array([0.25])
    observation, reward, *_ = crane.step(FREE)
    np.testing.assert_allclose(observation, [0, 0, 0, 0, 0.25])
    assert reward == pytest.approx((1 - EFFORT) * 0.75 + EFFORT)
    crane.x = np.array([0.25, 0, 0, 0])
    assert crane.step(np.ones(1))[1] < 1 - EFFORT
