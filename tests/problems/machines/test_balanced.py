"""The cart-pole and the pendulum move by Lagrange's equations, stay up while they are steered, and fall otherwise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tests.problems.machines.lagrange import generalised_force

from resetfree.core import Floats
from resetfree.problems.machines import cart_pole, upright_pendulum
from resetfree.problems.machines.set_points import EFFORT, SetPointMachine, play, runge_kutta

POINTS, TINY = 2001, 1e-20  # points that a rod is made of; the step of exact derivatives along i


class Case(NamedTuple):
    """A machine, its controller, its energy, and states just within and just beyond its limits."""

    make: Callable[[], SetPointMachine]
    controller: Callable[[Floats], Floats]
    energy: Callable[[Floats], float]
    within: list[list[float]]
    beyond: list[list[float]]


CASES = [
    Case(
        cart_pole.CartPole,
        cart_pole.controller,
        cart_pole.energy,
        [[2.39, 0, 0, 0], [-2.39, 0, 0, 0], [0, 0, 0.2, 0]],
        [[2.41, 0, 0, 0], [-2.41, 0, 0, 0], [0, 0, 0.22, 0], [0, 0, -0.22, 0]],
    ),
    Case(
        upright_pendulum.UprightPendulum,
        upright_pendulum.controller,
        upright_pendulum.energy,
        [[1.02, 0], [-1.02, 0]],
        [[1.06, 0], [-1.06, 0]],
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=["cart-pole", "pendulum"])


def rod(length: float, mass: float, pivot: complex, angle: complex, gravity: float) -> float:
    """Kinetic minus potential energy of a uniform rod, point by point; speeds are the imaginary parts by TINY."""
    at = (np.arange(POINTS) + 0.5) / POINTS * length
    along, up = pivot + at * np.sin(angle), at * np.cos(angle)
    speed = (along.imag / TINY) ** 2 + (up.imag / TINY) ** 2
    return float((mass / POINTS) * (0.5 * speed - gravity * up.real).sum())


def of_cart_pole(q: Floats, w: Floats) -> float:
    """The Lagrangian of the cart-pole, from the definition."""
    c, place = cart_pole, q + 1j * TINY * w
    return 0.5 * c.CART * float(w[0]) ** 2 + rod(2 * c.HALF, c.POLE, place[0], place[1], c.GRAVITY)


def of_pendulum(q: Floats, w: Floats) -> float:
    """That of the pendulum."""
    c = upright_pendulum
    return rod(c.ROD, c.MASS, 0.0, q[0] + 1j * TINY * w[0], c.GRAVITY)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("machine", "lagrangian", "given"),
    [(cart_pole.CartPole(), of_cart_pole, [cart_pole.FORCE, 0.0]),
     (upright_pendulum.UprightPendulum(), of_pendulum, [upright_pendulum.TORQUE])],
    ids=["cart-pole", "pendulum"],
)  # fmt: skip
def test_it_obeys_lagranges_equations(machine: Any, lagrangian: Any, given: list[float], seed: int) -> None:
    rng, n = np.random.default_rng(seed), 2 * len(given)
    x, u = rng.uniform(-1, 1, n), rng.uniform(-1, 1, 1)
    rates = machine.rates(x, u)
    np.testing.assert_array_equal(rates[::2], x[1::2])
    needed = generalised_force(lagrangian, x[::2], x[1::2], rates[1::2])
    np.testing.assert_allclose(needed, np.array(given) * u[0], atol=1e-5)


@cases
def test_energy_is_kept_without_an_action(case: Case) -> None:
    machine = case.make()
    x = np.linspace(0.1, 0.4, len(case.within[0]))
    after = runge_kutta(machine.rates, x, np.zeros(1), 1.0, 400)
    assert np.abs(after - x).max() > 0.5  # it moved
    assert case.energy(after) == pytest.approx(case.energy(x), abs=1e-6)


@cases
@pytest.mark.parametrize("seed", range(3))
def test_the_controller_keeps_it_up_and_without_an_action_it_falls_soon(case: Case, seed: int) -> None:
    steered, still = case.make(), case.make()
    life = play(steered, case.controller, 5000, seed)
    assert not life.resets.any()
    assert life.rewards[-1000:].mean() > 0.95
    left = play(still, lambda observation: np.zeros(1), 200, seed)
    assert left.resets.any()
    for one in (life, left):
        assert ((one.rewards >= 0) & (one.rewards <= 1)).all()
        assert all(steered.observation_space.contains(observation) for observation in one.observations)


@cases
def test_limits_and_rewards_are_what_the_docstring_says(case: Case) -> None:
    machine = case.make()
    machine.reset(seed=0)
    for states, limit in ((case.within, False), (case.beyond, True)):
        for state in states:
            machine.x = np.array(state, dtype=np.float64)
            assert machine.at_limit() is limit
    machine.x = np.zeros(len(case.within[0]))
    assert machine.step(np.zeros(1))[1] == 1.0
    machine.x = np.zeros(len(case.within[0]))
    assert machine.step(np.ones(1))[1] < 1.0 - EFFORT


@cases
def test_gymnasium_accepts_it(case: Case) -> None:
    check_env(case.make(), skip_render_check=True)
