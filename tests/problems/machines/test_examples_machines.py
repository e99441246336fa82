"""The examples on machines: they learn, compare, and draw; here with a small search and short lives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.example_scripts import load_script


def load(name: str) -> Any:
    """A script as a module, with less to do."""
    module = load_script("machines", name)
    players = {"primal": "model-search", "dual": "constant-penalty", "feedback": "realised"}
    search = {"planning": 10, "population": 8, "rounds": 2}
    module.PLAYERS.update(players, settings={"primal": search, "dual": {"C": 200.0}})
    return module


@pytest.fixture(scope="module")
def script() -> Any:
    """The example with set points, and shorter comparisons."""
    module = load("set_points")
    module.LONG, module.SEEDS, module.LONGER = 700, 1, 300
    return module


@pytest.fixture(scope="module")
def walkers() -> Any:
    """The example with falls."""
    return load("walkers")


@pytest.mark.parametrize("name", ["cart-load", "two-tanks", "arm"])
def test_it_learns_and_draws(script: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.learn(name, seed=1, episodes=4, picture=tmp_path / "picture.png")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{name}, seed 1, model-search: ")
    assert "% of the controller's" in said[1]
    assert [line.split(",")[0] for line in said[2:]] == ["learned", "controller", "nothing", "random"]
    assert "0 resets in 700 steps" in said[3]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_it_compares_without_a_learner(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script.by_hand()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 18
    assert all(", 0 resets" in line for line in said if "controller" in line)


@pytest.mark.parametrize("name", ["Hopper-v5", "Walker2d-v5", "Ant-v5"])
def test_a_walker_learns_and_is_drawn(
    walkers: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    walkers.learn(name, seed=1, episodes=3, picture=tmp_path / "picture.png")
    said = capsys.readouterr().out.splitlines()
    falls = said[0].split(" falls")[0].split()[-1]
    assert said[0].startswith(f"{name}, seed 1, model-search: ")
    assert [line.split(":")[0] for line in said[1:3]] == ["longest stretch without a fall", "reward per step"]
    assert said[3].startswith("falls predicted: ")
    assert said[3].endswith(f", real: {falls}")
    assert said[4].startswith("doing nothing for as many steps: ")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_said_of_a_walker(walkers: Any) -> None:
    fell = np.array([False, True, False, False, True])
    earned = np.array([0.0, 1.0, 2.0, 3.0, 5.0])
    record = walkers.Record(np.array([100, 130, 230, 330, 340]), fell, earned, np.zeros(5))
    assert record.longest == 210
    assert record.mean(2) == pytest.approx((100 * 3 + 10 * 5) / 110)
    assert record._replace(fell=np.zeros(5, dtype=bool)).longest == 340


def test_an_ant_that_does_nothing_stays_up_and_a_hopper_does_not(walkers: Any) -> None:
    falls, reward = walkers.nothing("Ant-v5", 1, 300)
    assert falls == 0
    assert 0.8 < reward < 1.2  # the reward for being up
    assert walkers.nothing("Hopper-v5", 1, 300)[0] >= 1


def test_rewards_beyond_the_range_of_a_walker_do_not_end_its_run(walkers: Any) -> None:
    hopper = walkers.WALKERS["Hopper-v5"]
    assert [hopper(None, reward, False, {}) for reward in (-9.0, 1.5, 9.0)] == [-3.0, 1.5, 7.0]
