"""The reactor, the quadrotor and the car move by balances and by Newton's laws, written down here in another way."""

import itertools

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.problems.machines.lagrange import generalised_force

from resetfree.core import Floats
from resetfree.problems.machines import lane, quadrotor, reactor
from resetfree.problems.machines.set_points import runge_kutta

IDLE = np.zeros(2)


def test_the_reactor_stands_still_where_the_line_of_heat_meets_the_curve_of_the_reaction() -> None:
    """At 100 l/min and 300 K all heat goes out where T = (q H 350 + J 300 + R q (1 - c)) / (q H + J): three times."""
    plant, u = reactor.Reactor(), np.array([0.5, 0.4])

    def line(c: float) -> float:
        return (23_900.0 * 350.0 + 5e4 * 300.0 + 5e6 * (1.0 - c)) / 73_900.0

    def missed(c: float) -> float:
        return float(c - 1.0 / (1.0 + 7.2e10 * np.exp(-8750.0 / line(c))))

    ends = np.linspace(0.01, 0.99, 50)
    between = [(a, b) for a, b in itertools.pairwise(ends.tolist()) if missed(a) * missed(b) < 0]
    roots = [float(brentq(missed, a, b)) for a, b in between]
    assert np.round(roots, 2).tolist() == [0.21, 0.5, 0.88]
    for c in roots:
        np.testing.assert_allclose(plant.rates(np.array([c, line(c)]), u), 0.0, atol=1e-8)


@pytest.mark.parametrize(("push", "hotter"), [(0.5, True), (-0.5, False)])
def test_the_reactor_leaves_the_middle_one_to_either_side(push: float, hotter: bool) -> None:
    plant, u = reactor.Reactor(), np.array([0.5, 0.4])
    x = np.array([0.5, 350.0 + push])
    while abs(x[1] - 350.0) < 10.0:
        x = runge_kutta(plant.rates, x, u, 0.1, 4)
    assert bool(x[1] > 350.0) is hotter


def test_the_reactor_keeps_matter_and_heat() -> None:
    """What was fed is in the tank, has left, or was turned into B; the same of heat. Sums of small steps."""
    plant, u, x, step = reactor.Reactor(reaction=0.9), np.array([0.7, 0.2]), np.array([0.6, 345.0]), 1e-4
    first, q, coolant = x.copy(), 116.0, 290.0
    fed = turned = heat = 0.0
    for _ in range(2000):
        middle = runge_kutta(plant.rates, x, u, step / 2, 1)
        fed += step * q * (1.0 - middle[0])
        turned += step * reactor.VOLUME * reactor.rate(middle[1]) * middle[0]
        heat += step * (q * reactor.HEAT * (350.0 - middle[1]) + reactor.JACKET * (coolant - middle[1]))
        x = runge_kutta(plant.rates, x, u, step, 1)
    assert reactor.VOLUME * (x - first)[0] == pytest.approx(fed - turned, rel=1e-6)
    warmed = reactor.VOLUME * reactor.HEAT * (x - first)[1]
    assert warmed == pytest.approx(heat + 0.9 * reactor.REACTION * turned, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_quadrotor_obeys_lagranges_equations(seed: int) -> None:
    c, rng = quadrotor, np.random.default_rng(seed)
    x, u = rng.uniform(-1, 1, 6), rng.uniform(0, 1, 2)
    rates = c.Quadrotor(mass=1.2).rates(x, u)
    np.testing.assert_array_equal(rates[:3], x[3:])
    m, inertia = 1.2 * c.MASS, 1.2 * c.INERTIA

    def lagrangian(place: Floats, speed: Floats) -> float:
        kinetic = 0.5 * m * float(speed[:2] @ speed[:2]) + 0.5 * inertia * float(speed[2]) ** 2
        return kinetic - m * c.GRAVITY * float(place[1])

    up, beam = np.array([-np.sin(x[2]), np.cos(x[2])]), np.array([np.cos(x[2]), np.sin(x[2])])
    wanted = np.append(-c.DRAG * x[3:5], -c.TURNING * x[5])
    for arm, thrust in ((c.ARM * beam, c.THRUST * u[0] * up), (-c.ARM * beam, c.THRUST * u[1] * up)):
        wanted += [*thrust, arm[0] * thrust[1] - arm[1] * thrust[0]]  # force, and torque about the middle
    np.testing.assert_allclose(generalised_force(lagrangian, x[:3], x[3:], rates[3:]), wanted, atol=1e-5)


def test_a_thrown_quadrotor_keeps_its_energy_without_drag(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DRAG", "TURNING"):
        monkeypatch.setattr(quadrotor, name, 0.0)
    x = np.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])
    after = runge_kutta(quadrotor.Quadrotor().rates, x, IDLE, 0.5, 50)
    assert np.abs(after - x).max() > 0.5
    assert quadrotor.energy(after) == pytest.approx(quadrotor.energy(x), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_cars_momentum_changes_by_the_forces_of_its_tyres(seed: int) -> None:
    """Seen from above, without the road: velocity and spin on the ground, by differences of a short motion."""
    c, rng = lane, np.random.default_rng(seed)
    car = c.Lane(grip=0.8)
    car.reset(seed=seed)
    s, r, u = rng.uniform(-1, 1), rng.uniform(-0.3, 0.3), rng.uniform(-1, 1, 1)
    x = np.array([0.3, 0.1, s, r, 0.004])
    rates = car.rates(x, u)
    front, rear = np.array([c.NOSE, 0.0]), np.array([-c.TAIL, 0.0])
    slip = [(s + r * place[0]) / c.V - angle for place, angle in ((front, c.STEER * u[0]), (rear, 0.0))]
    forces = [-0.8 * c.FRONT * slip[0], -0.8 * c.REAR * slip[1]]
    step = 1e-6
    before, after = c.V + 1j * s, (c.V + 1j * (s + step * rates[2])) * np.exp(1j * step * r)
    assert ((after - before) / step).imag * c.MASS == pytest.approx(sum(forces), rel=1e-4)
    assert rates[3] * c.YAW == pytest.approx(c.NOSE * forces[0] - c.TAIL * forces[1], rel=1e-9)


def test_the_car_comes_along_the_road_that_it_would_on_the_ground() -> None:
    """On a bend of constant curvature about (0, 1/k), distance and heading to the road are those of geometry."""
    c, k, u = lane, 0.006, np.array([0.3])
    car = c.Lane()
    car.reset(seed=0)
    car.set_point = np.array([k])
    x, place, heading = np.array([0.2, 0.05, 0.0, 0.0, k]), 0.2j, 0.05
    for _ in range(2000):
        speed = (c.V + 1j * x[2]) * np.exp(1j * heading)
        x_new = runge_kutta(car.rates, x, u, 1e-3, 1)
        middle = heading + 0.5e-3 * 0.5 * (x[3] + x_new[3])
        place += 1e-3 * 0.5 * (speed + (c.V + 1j * x_new[2]) * np.exp(1j * (2 * middle - heading)))
        heading, x = heading + 1e-3 * 0.5 * (x[3] + x_new[3]), x_new
    away = place - 1j / k
    assert x[0] == pytest.approx(1 / k - abs(away), abs=1e-2)
    along = np.angle(away * 1j)
    assert x[1] == pytest.approx(heading - along, abs=1e-3)


@pytest.mark.parametrize("curvature", [0.004, -0.008])
def test_a_steady_bend_takes_the_steering_of_the_understeer_formula(curvature: float) -> None:
    """L k + (m / L) (b / Cf - a / Cr) V^2 k, and the car then stays where it is on the road."""
    c = lane
    base = c.NOSE + c.TAIL
    needed = curvature * (base + c.MASS / base * (c.TAIL / c.FRONT - c.NOSE / c.REAR) * c.V**2)
    car = c.Lane()
    car.reset(seed=0)
    car.set_point, u = np.array([curvature]), np.array([needed / c.STEER])
    x = runge_kutta(car.rates, np.array([0.0, 0.0, 0.0, 0.0, curvature]), u, 6.0, 600)
    assert x[3] / c.V == pytest.approx(curvature, rel=2e-2)
    assert np.abs(car.rates(x, u)[2:4]).max() < 1e-2


def test_the_picture_of_the_quadrotor_shows_where_it_is() -> None:
    machine = quadrotor.Quadrotor()
    machine.reset(seed=0)
    machine.set_point = np.zeros(2)
    for p, z, q in ((1.0, 0.5, 0.0), (-1.0, -0.5, 0.5)):
        machine.x = np.array([p, z, q, 0.0, 0.0, 0.0])
        rows, columns = np.nonzero((machine.render() == (0x00, 0x72, 0xB2)).all(axis=2))
        assert [columns.mean(), rows.mean()] == pytest.approx([220 + 100 * p, 170 - 100 * z], abs=2)
        assert np.polyfit(columns, -rows, 1)[0] == pytest.approx(np.tan(q), abs=0.1)
