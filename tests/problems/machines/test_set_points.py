"""What every machine keeps: it lives without resets while it is steered, resets come from limits, rewards in [0, 1]."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from tests.problems.machines.lagrange import generalised_force

import resetfree as rf
from resetfree.core import Floats
from resetfree.problems.machines import IDS, arm, cart_load, lane, quadrotor, reactor, two_tanks
from resetfree.problems.machines.cart_load import CART, FORCE, GRAVITY, LOAD, PIVOT, RAIL, ROPE, CartLoad, energy
from resetfree.problems.machines.set_points import EFFORT, SetPointMachine, play, runge_kutta
from resetfree.problems.machines.two_tanks import AREA, LAMINAR, PUMP, TwoTanks, flow


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
    "resetfree/Reactor-v0": Case(reactor.Reactor, reactor.controller, 0.86, 0.5),
    "resetfree/Quadrotor-v0": Case(quadrotor.Quadrotor, quadrotor.controller, 0.75, 0.4),
    "resetfree/Lane-v0": Case(lane.Lane, lane.controller, 0.76, 0.65),
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
    assert 3 <= wild.resets.sum() <= 300
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
    assert after < machine.tracking() or case.make is lane.Lane  # which earns in the middle of it, wherever that goes


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


def test_what_was_pumped_is_in_the_tanks_or_has_left() -> None:
    tanks = TwoTanks()
    rng, pumped = np.random.default_rng(3), 0.0
    tanks.reset(seed=3)
    first = AREA * tanks.x[:2].sum()
    for _ in range(60):
        pumps = rng.uniform(0.0, 0.7, 2)
        *_, terminated, _, _ = tanks.step(pumps)
        assert not terminated
        pumped += tanks.dt * PUMP * pumps.sum()
    assert tanks.x[2] > 0.01
    assert AREA * tanks.x[:2].sum() + tanks.x[2] == pytest.approx(first + pumped, rel=1e-12)


def test_water_flows_to_the_lower_level_by_torricellis_law() -> None:
    assert flow(1e-4, 0.3) == pytest.approx(1e-4 * np.sqrt(2 * 9.81 * 0.3))
    assert flow(1e-4, -0.3) == -flow(1e-4, 0.3)
    assert flow(1e-4, LAMINAR * (1 - 1e-9)) == pytest.approx(flow(1e-4, LAMINAR))
    first, second, _ = TwoTanks().rates(np.array([0.4, 0.2, 0.0]), np.zeros(2))
    assert first < 0
    assert second > TwoTanks().rates(np.array([0.2, 0.2, 0.0]), np.zeros(2))[1]


@pytest.mark.parametrize("goal", list(itertools.product([two_tanks.LOWEST, 0.3, two_tanks.HIGHEST], repeat=2)))
def test_the_controller_holds_every_corner_of_the_set_points(goal: tuple[float, float]) -> None:
    pumps = two_tanks.controller(np.array([*goal, 0.0, 0.0]))
    assert (pumps > 0).all()
    assert (pumps < 1).all()
    np.testing.assert_allclose(TwoTanks().rates(np.array([*goal, 0.0]), pumps)[:2], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("levels", "pumps", "limit"),
    [((0.3, 0.3), 0.0, False), ((0.595, 0.3), 1.0, True), ((0.3, 0.595), 1.0, True), ((0.06, 0.052), 0.0, True)],
)
def test_limits_are_full_and_dry(levels: tuple[float, float], pumps: float, limit: bool) -> None:
    tanks = TwoTanks()
    tanks.reset(seed=0)
    tanks.x = np.array([*levels, 0.0])
    assert tanks.step(np.full(2, pumps))[2] is limit


def test_the_reward_is_the_mean_of_both_tanks() -> None:
    tanks = TwoTanks()
    tanks.reset(seed=0)
    tanks.x, tanks.set_point = np.array([0.3, 0.3, 0.0]), np.array([0.3, 0.36])
    pumps = two_tanks.controller(np.array([0.3, 0.3, 0.0, 0.0]))  # holds 0.3 in both
    assert tanks.step(pumps)[1] == pytest.approx((1 - EFFORT) * 0.8 + EFFORT * (1 - pumps.mean()))


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
