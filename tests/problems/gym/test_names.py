"""Environments by their names; the page about one's own environment is run as it stands."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.show.cli.commands import run

import resetfree as rf
from resetfree.problems.features.basis import RandomFourier
from resetfree.problems.registry import option_names, resolve, resolve_model
from resetfree.show.cli import main


def test_options_go_to_the_adapter_and_the_rest_to_the_environment() -> None:
    problem = resolve("gym:FrozenLake-v1", {"horizon": 7, "map_name": "8x8", "make.is_slippery": False})
    assert (problem.name, problem.horizon, problem.n_states) == ("gym:FrozenLake-v1", 7, 65)
    assert problem.mdp.transition.nnz == 64 * 4  # nothing slips
    pole = resolve(
        "gym:CartPole-v1", {"features.d": 300, "features.bandwidth": 0.5, "reset_when": "observation[2]>0.1"}
    )
    assert pole.features == RandomFourier(300, 0.5)
    pendulum = resolve(
        "gym:Pendulum-v1",
        {"actions": 3, "reward_low": -17, "reward_high": 0, "xi": "random-fourier", "xi.d": 8, "state_low": -8,
         "state_high": 8},
    )  # fmt: skip
    assert (pendulum.n_actions, pendulum.xi.dimension) == (3, 8)
    assert (pendulum.terms.rewards.low, pendulum.terms.rewards.high) == (-17, 0)
    assert resolve("gym:FrozenLake-v1", {"states": 16, "horizon": 5}).n_states == 17
    assert option_names("gym:FrozenLake-v1") is None


def test_names_are_the_same_however_the_environment_is_given() -> None:
    import gymnasium

    names = {rf.from_gym(e).name for e in ("gym:CartPole-v1", "CartPole-v1", gymnasium.make("CartPole-v1"))}
    assert names == {"gym:CartPole-v1"}


@pytest.mark.parametrize("name", ["sawyer-door-v0", "kitchen-v0"])
def test_what_the_extra_earl_needs_is_said_where_it_is_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("metaworld", "gymnasium_robotics"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        rf.InvalidInput, match=r'pip install "resetfree\[earl\]", as Meta-World 3\.1\.1 needs MuJoCo 3\.3\.0'
    ):
        rf.learn(name, "naive", episodes=1)


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("gym:CartPoll-v1", {}, "There is no Gymnasium environment 'CartPoll-v1'. Did you mean 'CartPole-v1'?"),
        ("gym:cartpole-v7", {}, "Did you mean 'CartPole-v1'?"),
        ("gym:Nothing-v0", {}, "There is no Gymnasium environment 'Nothing-v0'. Known: see gymnasium.pprint_regi"),
        ("gym:Taxi-v3", {}, "Did you mean 'Taxi-v4'?"),
        ("gym:xyzzy", {}, "There is no Gymnasium environment 'xyzzy'. Known: see gymnasium.pprint_registry()"),
        ("gym:no_such_package:Plant-v0", {}, "needs a package that is not installed (ModuleNotFoundError: No module"),
        ("gym:LunarLander-v3", {}, 'most come with: pip install "resetfree[envs]".'),
        ("gym:FrozenLake-v1", {"slip": 1}, "cannot be made with slip=1: TypeError: FrozenLakeEnv.__init__() got an"),
        ("gym:FrozenLake-v1", {"max_episode_steps": 5}, "must have no time limit, which is not a reset"),
        ("gym:FrozenLake-v1", {"horizon": "much"}, "must be an integer from 1 to 100000. Got 'much' instead."),
        ("gym:FrozenLake-v1", {"reward_low": 0}, "'reward_low' and 'reward_high' must be given together"),
        ("gym:FrozenLake-v1", {"reset_when": "fell"}, "Got 'fell' instead."),
        ("gym:FrozenLake-v1", {"table": 3}, "must be True or False. Got 3 instead."),
        ("gym:CartPole-v1", {"features.e": 3}, "There is no setting of feature map 'random-fourier' 'e'."),
        ("gym:Pendulum-v1", {"actions": "grid"}, "must be box, or grid points per dimension, as in 5 or 3,5"),
        ("gym:CartPole-v1", {"actions": "box"}, 'Got actions="box" for Discrete(2) instead: leave it out'),
        ("gym:MiniGrid-Empty-5x5-v0", {"states": "vectors"}, "('image' is an image, Box(0, 255, (7, 7, 3), u"),
        ("gym:CartPole-v1", {"observe": "math:pi"}, "must be a function of the observation, or module:function"),
        ("gym:CliffWalking-v1", {"reward_low": -9, "reward_high": 0}, "outside the stated range [-9, 0]: state a wid"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str], name: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((rf.InvalidInput, rf.UnknownName)) as caught:
        resolve(name, options)
    assert sentence in str(caught.value)
    pairs = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    status, out, err = run(capsys, "solve", name, *pairs)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err


FACTORY = """
import gymnasium, numpy as np
def lake(size=4, **kwargs):
    return gymnasium.make("FrozenLake-v1", map_name=f"{size}x{size}", **kwargs)
def fixed(size=4):
    return lake(size)
def problem():
    import resetfree as rf
    return rf.from_gym(lake(), horizon=6)
def vector():
    return gymnasium.make_vec("CartPole-v1", 2)
def broken():
    raise OSError("no plant")
def fell(observation, reward, terminated, info):
    return terminated and reward == 0
"""


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_lake.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "my_lake", raising=False)
    return tmp_path


@pytest.mark.usefixtures("plant")
def test_a_factory_may_return_an_environment_or_a_problem() -> None:
    made = resolve("my_lake:fixed", {"size": 8, "horizon": 9, "reset_when": "my_lake:fell"})
    assert (made.name, made.n_states, made.horizon) == ("my_lake:fixed", 65, 9)
    assert made.mdp.transition.row(0, 62, 1)[0].tolist() != [64]  # the goal is no failure here
    assert resolve("my_lake:problem", {}).horizon == 6
    assert option_names("my_lake:fixed") is not None
    assert {"size", "horizon", "reset_when"} <= set(option_names("my_lake:fixed") or ())
    with pytest.raises(rf.UnknownName, match="There is no option of factory 'my_lake:problem' 'horizon'"):
        resolve("my_lake:problem", {"horizon": 3})
    with pytest.raises(rf.InvalidInput, match="Vector environments reset themselves"):
        resolve("my_lake:vector", {})
    direct = rf.from_gym("my_lake:lake", horizon=4, size=8)
    assert (direct.name, direct.n_states, direct.horizon) == ("my_lake:lake", 65, 4)
    with pytest.raises(rf.InvalidInput, match=r"must return a gymnasium.Env. It raised OSError: no plant instead"):
        rf.from_gym("my_lake:broken")
    with pytest.raises(rf.InvalidInput, match="Got 'my_lake:nothing', which does not import"):
        rf.from_gym("my_lake:nothing")


def test_commands_work_where_there_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gym:FrozenLake-v1", "--set", "horizon=12", "--set", "reset_when=terminated and observation!=15")
    status, out, _ = run(capsys, "solve", *words, "--json", "--verify")
    assert status == 0
    data = json.loads(out)
    assert (data["n_states"], data["n_actions"], data["horizon"]) == (17, 4, 12)
    assert max(data["disagreement"].values()) < 1e-6
    model = resolve_model("gym:FrozenLake-v1", {"horizon": 12, "reset_when": "terminated and observation!=15"})
    value = rf.solve(model).value
    assert data["value"] == [float(v) if np.isfinite(v) else None for v in value]
    assert run(capsys, "check", *words)[0] == 0
    assert run(capsys, "solve", *words)[0] == 0


def test_a_run_by_name_is_saved_and_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "lake.rfrun")
    words = ("run", "gym:FrozenLake-v1", "--set", "horizon=15", "--set", "is_slippery=false", "--episodes", "30")
    status, out, err = run(capsys, *words, "--out", file, "--json")
    assert (status, err) == (0, "")
    data = json.loads(out)
    assert data["problem"] == "gym:FrozenLake-v1"
    assert data["problem_options"] == {"horizon": 15, "is_slippery": False}
    assert data["resets"] is not None
    assert run(capsys, "run", "gym:FrozenLake-v1", "--resume", "--out", file, "--json")[0] == 0
    loaded = rf.load(file)
    assert loaded.mdp is None  # no code is run because a file names it
    again = rf.load(file, "gym:FrozenLake-v1")
    assert again.resets[-1] == data["resets"]


PAGE = Path(rf.__file__).parents[2] / "docs" / "own_environment.md"


def test_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment, deployment = re.findall(r"```python\n(?!>>>)(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "tank.py").write_text(environment)
    (tmp_path / "deploy.py").write_text(deployment)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def ran(*words: str) -> str:
        status = main(list(words))
        said = capsys.readouterr()
        assert status == 0, said.err
        return said.out

    try:
        ran("run", "tank:Tank", "--set", "horizon=50", "--episodes", "30", "--out", "tank.rfrun")
        run = rf.load("tank.rfrun")
        assert len(run) == 30
        assert {one.why for one in run.interventions} <= {"start", "reset"}
        assert "one life" in ran("evaluate", "tank.rfrun", "tank:Tank", "--starts", "both", "--episodes", "5")
        ran("export", "tank.rfrun", "-o", "tank.npz")
    finally:
        sys.modules.pop("tank", None)
    deployed = subprocess.run([sys.executable, "deploy.py"], capture_output=True, text=True, check=True)
    assert re.match(r"\d+ steps, level \d+\.\d, spilled: (True|False)", deployed.stdout)
