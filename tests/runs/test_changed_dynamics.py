"""A problem that no longer behaves as in its data is noticed, and one that does is not accused."""

from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.runs.changed_dynamics import ALARM, Bets, FiniteWatch, VectorWatch, watch_for

GRID = rf.make("grid-v0").problem()


def lives(seed: int, *, slip: float = 0.0, episodes: int = 40, shift: int = 0) -> list[rf.Episode]:
    """Random walks on a ring of 12 states with 5 actions: action a moves by a + shift, or one further by a slip."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(episodes):
        actions = rng.integers(0, 5, size=10)
        states = [int(rng.integers(12))]
        for a in actions:
            states.append(int((states[-1] + a + shift + (rng.random() < slip)) % 12))
        found.append(rf.Episode(np.array(states), actions, np.zeros(10), False, None))
    return found


def motions(seed: int, *, gain: float = 1.0, episodes: int = 30) -> list[rf.Episode]:
    """A damped point that is pushed, with noise."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(episodes):
        states, actions = [rng.normal(size=2)], rng.uniform(-1.0, 1.0, size=(20, 1))
        for (push,) in actions:
            x, v = states[-1]
            states.append(np.array([x + 0.1 * v, 0.95 * v - 0.05 * x + 0.1 * gain * push]) + rng.normal(0, 0.01, 2))
        found.append(rf.Episode(np.array(states), actions, np.zeros(20), False, None))
    return found


class Point(rf.Problem):
    """What the test needs to know of the point."""

    name, horizon, n_states, stationary, n_transitions, end_resets = "point", 20, None, True, 20, False
    phi = xi = None
    low, high = np.full(2, -np.inf), np.full(2, np.inf)
    actions = rf.Box(-1.0, 1.0)
    n_uniforms = 0

    def first_start(self, u: float) -> Any:
        raise AssertionError

    def rollout(self, policy: Any, start: Any, u: Any) -> rf.Episode:
        raise AssertionError


def alarms(watch: Any, episodes: list[rf.Episode]) -> list[str]:
    return [found for one in episodes if (found := watch(one))]


def test_other_transitions_of_a_finite_problem_are_noticed() -> None:
    found = alarms(FiniteWatch(lives(0), GRID), lives(1, shift=1))
    assert "led where they never led in the data" in found[0]
    assert "tries" in found[0]


def test_a_slip_that_was_there_before_is_no_change() -> None:
    wrong = sum(bool(alarms(FiniteWatch(lives(s, slip=0.1), GRID), lives(1000 + s, slip=0.1))) for s in range(200))
    assert wrong <= 200 * ALARM + 3  # more than 5 would have probability below 0.02


def test_other_forces_on_a_vector_are_noticed() -> None:
    found = alarms(VectorWatch(motions(0), Point()), motions(1, gain=2.0))
    assert "times its usual error" in found[0]
    assert watch_for(motions(0)[:3], Point()) is None


def test_the_same_forces_are_no_change() -> None:
    wrong = sum(bool(alarms(VectorWatch(motions(s), Point()), motions(1000 + s))) for s in range(100))
    assert wrong <= 3


def test_wealth_grows_only_with_what_is_unlikely() -> None:
    bets = Bets(2)
    assert not any(bets.pay([0.5, 1.0]) for _ in range(10_000))
    assert not any(Bets(2).pay([e, 1.0]) for e in (1.0, 150.0))
    rich = Bets(2)
    assert [rich.pay([15.0, 1.0]) for _ in range(3)] == [False, True, True]


@pytest.mark.parametrize(("slip", "said"), [(0.0, False), (1.0, True)])
def test_a_run_on_changed_dynamics_says_so(slip: float, said: bool, tmp_path: Any) -> None:
    path = tmp_path / "old.rfrun"
    rf.learn(rf.make("grid-v0", slip=0.0), "uniform", episodes=300, path=path)
    run = rf.learn(rf.make("grid-v0", slip=slip), "support-elimination", episodes=200, data=path)
    noted = [one for one in run.notes if "The dynamics are not those of the data" in one.what]
    assert bool(noted) is said
    assert all(f"probability at most {ALARM:g}" in one.what for one in noted)
