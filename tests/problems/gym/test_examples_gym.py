"""The examples on Gymnasium environments: each problem is what its comments say, and each script runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.example_scripts import load_script

import resetfree as rf
from resetfree.theory.assumptions import unsafe_pairs

EXAMPLES = Path(__file__).parents[3] / "examples" / "gym"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
SAYS = {
    "cartpole": "long enough", "pendulum": "long enough", "inverted_pendulum": "long enough",
    "frozen_lake": "feasibility: FAILS", "cliff_walking": "at most 76 possible", "taxi": "at most 968 possible",
    "lava": "lava crossing, rule-elimination", "rooms": "one-world: resets task by task",
    "highway": "model-search: crashes", "wedged_robot": "resets requested",
    "sticky_maze": "resets requested", "warehouse": "parcels delivered",
}  # fmt: skip
VECTORS = ("cartpole", "pendulum", "inverted_pendulum", "highway", "wedged_robot")
COUNTED = ("frozen_lake", "cliff_walking", "taxi", "lava", "rooms", "sticky_maze", "warehouse")


def load(name: str) -> Any:
    """An example script as a module."""
    return load_script("gym", name)


def test_every_example_is_tried() -> None:
    assert sorted(SAYS) == NAMES == sorted(VECTORS + COUNTED)


@pytest.mark.parametrize("name", NAMES)
def test_auto_plays_a_few_episodes(name: str) -> None:
    run = rf.learn(load(name).problem(), episodes=3, seed=0)
    counted = "support-elimination" if name == "sticky_maze" else "rule-elimination"  # its cells have no coordinates
    assert run.spec["primal"]["name"] == ("model-search" if name in VECTORS else counted)
    rewards = run.columns["reward"] / run.columns["steps"]
    assert (rewards >= 0).all()
    assert (rewards <= 1).all()
    # Nobody is asked but at the start, and before each episode that follows a reset.
    assert len(run.interventions) == 1 + run.columns["reset"][:-1].sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_script_says_what_it_promises(name: str) -> None:
    script = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert SAYS[name] in done.stdout


@pytest.mark.parametrize(("name", "unsafe", "feasible"), [("cliff_walking", 76, True), ("taxi", 968, True)])
def test_resets_stay_below_the_unsafe_pairs(name: str, unsafe: int, feasible: bool) -> None:
    problem = load(name).problem()
    assert unsafe_pairs(problem.mdp) == unsafe
    assert rf.check(problem.mdp)["feasibility"].holds is feasible
    run = rf.learn(problem, episodes=200, seed=1)
    assert 0 < run.realised_resets[-1] <= unsafe
    assert np.isfinite(run.regret).all()


def test_the_lake_has_starts_without_a_safe_policy() -> None:
    """Which cells those are: all from which the ice can lead into a hole whatever is done, and the holes."""
    problem = load("frozen_lake").problem()
    assert rf.check(problem.mdp)["feasibility"].holds is False
    safe = np.flatnonzero(rf.solve(problem.mdp, starts=[]).feasible).tolist()
    table = problem.env.unwrapped.P
    inside = {s for s in range(64) if s == 63 or not table[s][0][0][3] or len(table[s][0]) > 1}
    while True:  # the largest set in which some action surely stays
        stays = {s for s in inside if any(all(to in inside for p, to, _, _ in table[s][a] if p > 0) for a in range(4))}
        if stays == inside:
            break
        inside = stays
    assert safe == sorted(inside)
    assert 0 in safe
    assert 63 in safe


def test_a_pendulum_that_is_pushed_one_way_falls_once() -> None:
    """From upright, past 60 degrees, and no reward leaves the stated range, whichever way it is pushed."""
    for action in range(5):
        problem = load("pendulum").problem()
        episodes = list(rf.simulate(problem, lambda h, s, a=action: np.eye(5)[a], 20, seed=3))
        fell = [episode for episode in episodes if episode.reset]
        assert fell
        for episode in fell:
            assert abs(episode.states[-1][0]) > np.pi / 3
            assert (np.abs(episode.states[:-1, 0]) <= np.pi / 3 + 1e-6).all()


def test_lava_is_the_reset_and_the_goal_is_not() -> None:
    lava = load("lava")
    problem = lava.problem("gap")
    unwrapped: Any = problem.env.unwrapped
    run = rf.learn(problem, episodes=100, seed=0)
    assert run.realised_resets[-1] <= lava.sides_of_lava(problem)
    assert run.columns["reward"][-1] > 0.9 * lava.HORIZON  # stands at the goal, and is not reset for it
    problem.env.reset()
    first = unwrapped.grid.encode().copy()
    problem.env.reset(seed=99)
    np.testing.assert_array_equal(unwrapped.grid.encode(), first)  # the same world after every reset


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_known_of_pits_holds_in_every_task(seed: int) -> None:
    """Four pits with four sides: 16 resets at most, however many tasks; without sharing, so many for each task."""
    rooms = load("rooms")
    assert sum(row.count("o") for row in rooms.PLAN) == 4
    run = rf.learn(
        rooms.problem(), rooms.OneWorld(), "constant-penalty", episodes=800, seed=seed, feedback="realised",
        settings={"dual": {"C": 0.0}},
    )  # fmt: skip
    assert run.realised_resets[-1] <= 16
    apart = rf.learn(
        rooms.problem(), "support-elimination", "constant-penalty", episodes=800, seed=seed, feedback="realised",
        settings={"dual": {"C": 0.0}},
    )  # fmt: skip
    assert run.realised_resets[-1] < apart.realised_resets[-1] <= 64
    assert rf.learn(rooms.problem(), episodes=800, seed=seed).realised_resets[-1] <= 20  # by rules, not by hand


def test_traffic_does_not_run_out() -> None:
    """After 120 steps of the slowest driving there are still cars around, and the road has not ended."""
    problem = load("highway").problem()
    slow = np.eye(5)[4]
    steps = sum(len(e.actions) for e in rf.simulate(problem, lambda h, s: slow, 3, seed=0))
    world: Any = problem.env.unwrapped
    gaps = [car.position[0] - world.vehicle.position[0] for car in world.road.vehicles if car is not world.vehicle]
    assert steps == 120
    assert sum(-200 < gap < 400 for gap in gaps) >= 12
    assert world.vehicle.position[0] < 3000
