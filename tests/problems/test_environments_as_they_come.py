"""What users of Gymnasium type: an environment as it is, and its id without a prefix."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from tests.show.cli import commands

import resetfree as rf
from resetfree.problems.registry import find_world, full_name
from resetfree.runs.file.ledger import Ledger
from resetfree.studies.plan import read_plan

LAKE = {"horizon": 20, "is_slippery": False}


def test_an_id_without_prefix_is_the_same_run_bit_for_bit(tmp_path: Path) -> None:
    runs = [
        rf.learn(name, episodes=20, seed=3, settings={"problem": LAKE}, path=tmp_path / f"{i}.rfrun")
        for i, name in enumerate(("FrozenLake-v1", "gym:FrozenLake-v1"))
    ]
    assert runs[0].spec == runs[1].spec
    assert runs[0].spec["problem"] == "gym:FrozenLake-v1"
    for name, column in runs[0].columns.items():
        np.testing.assert_array_equal(column, runs[1].columns[name])


def test_an_environment_is_learned_on_as_it_is_and_stays_open() -> None:
    env = gym.make("FrozenLake-v1", is_slippery=False)
    run = rf.learn(env, episodes=20, seed=3, settings={"problem": {"horizon": 20}})
    named = rf.learn("FrozenLake-v1", episodes=20, seed=3, settings={"problem": LAKE})
    assert run.spec["problem"] == named.spec["problem"] == "gym:FrozenLake-v1"
    for name, column in run.columns.items():
        np.testing.assert_array_equal(column, named.columns[name])
    env.reset()
    env.step(0)
    env.close()


def test_arguments_of_an_environment_are_checked() -> None:
    with gym.make("FrozenLake-v1") as env, pytest.raises(rf.InvalidInput, match="given by its id takes options"):
        rf.learn(env, settings={"problem": {"map_name": "8x8"}})
    with pytest.raises(rf.InvalidInput, match=r"an environment, or a problem that is given by name, takes options"):
        find_world(rf.make("grid-v0"), {"slip": 0.1})
    with pytest.raises(rf.InvalidInput, match=r"'problem' must be a name, .* a gymnasium.Env"):
        rf.learn(gym.Env)


def test_our_names_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "grid-v0", gym.spec("CartPole-v1"))
    assert full_name("grid-v0") == "grid-v0"
    assert full_name("MiniGrid-Empty-5x5-v0") == "gym:MiniGrid-Empty-5x5-v0"  # its package is imported for it


def test_a_misspelt_id_names_the_nearest_of_both() -> None:
    with pytest.raises(rf.UnknownName, match="Did you mean 'CartPole-v1'"):
        rf.learn("CartPol-v1")
    with pytest.raises(rf.UnknownName, match="Did you mean 'grid-v0'"):
        rf.learn("grid-v1")


def test_no_environment_is_made_because_a_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = rf.learn("FrozenLake-v1", episodes=3, settings={"problem": LAKE})
    file = tmp_path / "forged.rfrun"
    Ledger.create(file, {**run.spec, "problem": "FrozenLake-v1"}).close()
    monkeypatch.setattr(gym, "make", None)  # calling it would raise
    assert rf.load(file).problem is None


def test_the_command_line_takes_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "lake.rfrun")
    words = ("run", "FrozenLake-v1", "--set", "horizon=20", "--episodes", "5", "--out", file)
    assert commands.run_json(capsys, *words)["problem"] == "gym:FrozenLake-v1"
    assert commands.run_json(capsys, *words, "--resume")["episodes_played"] == 5
    assert commands.run_json(capsys, "evaluate", file, "FrozenLake-v1", "--episodes", "5")
    status, _, err = commands.run(capsys, *words)
    assert status == 2
    assert "(--overwrite)" in err
    with pytest.raises(rf.RunError, match=r"\(overwrite=True\)"):
        rf.learn("FrozenLake-v1", path=file)


def test_a_sweep_calls_it_by_its_full_name(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('[sweep]\nepisodes = 5\n[[problem]]\nid = "FrozenLake-v1"\n[[players]]\nprimal = "auto"\n')
    assert [one.problem for one in read_plan(file)[0].configurations] == ["gym:FrozenLake-v1"]
