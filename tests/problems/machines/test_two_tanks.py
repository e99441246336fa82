"""Not a drop is lost between the tanks, and every pair of set points can be held."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from resetfree.problems.machines import two_tanks
from resetfree.problems.machines.set_points import EFFORT
from resetfree.problems.machines.two_tanks import AREA, LAMINAR, PUMP, TwoTanks, flow


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
