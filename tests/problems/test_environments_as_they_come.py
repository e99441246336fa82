"""What a problem is called and how it describes itself: fingerprints of recorded runs, environments as they come."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from tests.show.cli import commands

import resetfree as rf
from resetfree.problems import find_world
from resetfree.problems.blueprint import blueprint, fingerprint
from resetfree.problems.registry import full_name
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
    with pytest.raises(rf.UnknownName, match=r"There is no problem 'Nothing-v0'\. Known: coin-chain-v0"):
        rf.learn("Nothing-v0")  # "parking-v0" has as many of its letters


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


# The first digits of what runs of these problems have recorded.
RECORDED: dict[tuple[str, tuple[tuple[str, object], ...]], str] = {
    ("coin-chain-v0", ()): "82d8339e192e2c2d",
    ("contexts-v0", ()): "33428a2e58bdc190",
    ("continuous-linear-v0", ()): "8c777b5dd13b90da",
    ("drawn-by-hand-v0", ()): "f89bc758ef688010",
    ("grid-v0", ()): "e77be84d5a7bf3b6",
    ("gym:Blackjack-v1", (("reward_high", 1), ("reward_low", -1))): "952537b68c54fda4",
    ("gym:CartPole-v1", (("states", 50),)): "65bac487e0cc0613",
    (
        "gym:CartPole-v1",
        (("features", "polynomial"), ("state_high", 3.0), ("state_low", -3.0), ("xi", "polynomial")),
    ): "b169f7851e453a14",
    ("gym:CartPole-v1", ()): "867712732941cfb1",
    ("gym:FrozenLake-v1", (("goal_when", "never"), ("horizon", 10))): "84dd08619393b1fc",
    ("gym:Pendulum-v1", (("actions", 3), ("reward_high", 0), ("reward_low", -17))): "673fc0e9bba7892a",
    (
        "gym:Taxi-v4",
        (("goal_when", "never"), ("horizon", 10), ("reward_high", 20), ("reward_low", -10)),
    ): "9e9e23d9db950c3d",
    ("random-linear-v0", ()): "679da4ff7186333f",
}


@pytest.mark.parametrize("asked", RECORDED, ids=str)
def test_fingerprints_are_those_of_recorded_runs(asked: tuple[str, tuple[tuple[str, object], ...]]) -> None:
    name, options = asked
    with find_world(name, dict(options)) as world:
        assert world.fingerprint.startswith(RECORDED[asked])


def test_who_performs_resets_makes_no_other_problem() -> None:
    first = rf.from_gym("gym:FrozenLake-v1", horizon=10)
    second = rf.from_gym("gym:FrozenLake-v1", horizon=10, operator=rf.OperatorReset(by=lambda request: None))
    other = rf.from_gym("gym:FrozenLake-v1", horizon=11)
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)
    second.close()
    assert fingerprint(first) == fingerprint(second)


def test_a_blueprint_keeps_what_the_description_says() -> None:
    pole = rf.from_gym("gym:CartPole-v1", features=lambda observation: np.array(observation[:2]))
    told = pole.description()
    assert told.function is not None
    assert told.observation == {"kind": "function-vector", "space": {"shape": [4]}}
    kept = blueprint(pole, np.zeros(2))
    assert kept["observation"] == told.observation
    assert isinstance(pole.actions, rf.Choices)
    assert kept["actions"]["values"] == list(pole.actions) == [0, 1]
    counted = rf.from_gym("gym:CartPole-v1", states=9).description().observation
    assert counted == {"kind": "numbered", "count": 9, "space": {"shape": [4]}}
    assert rf.from_gym("gym:FrozenLake-v1").description().observation == {"kind": "number", "first": 0, "count": 16}
