"""`resetfree evaluate` and `resetfree export`."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.forging import forge
from tests.show.cli import commands
from tests.show.cli.commands import refused

import resetfree as rf
from resetfree.show.cli import main
from resetfree.theory.certificates.record import CLAIM
from resetfree.use import read_policy

said = partial(commands.run_json, quiet=False)
LAKE = "gym:FrozenLake-v1"
OPTIONS = {"horizon": 12, "reset_when": "terminated and observation!=15"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    rf.learn(LAKE, episodes=30, seed=3, path=tmp_path / "lake.rfrun", settings={"problem": OPTIONS})
    return tmp_path / "lake.rfrun"


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    rf.learn("grid-v0", episodes=30, seed=3, path=tmp_path / "grid.rfrun", settings={"problem": {"slip": 0.1}})
    return tmp_path / "grid.rfrun"


def test_a_registered_problem_needs_no_more_than_the_file(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = said(capsys, "evaluate", grid, "--episodes", 40, "--seed", 5)
    ours = rf.load(grid).policy
    assert data["fresh"] == ours.evaluate(episodes=40, seed=5).to_dict()
    assert data["continuing"] == ours.evaluate(starts="continuing", episodes=40, seed=5).to_dict()
    assert (data["problem"], data["same_problem"]) == ("grid-v0", True)
    run = rf.load(grid)
    lived = run.columns["reward"].sum() / run.columns["steps"].sum()
    assert data["training_reward_per_step"] == pytest.approx(lived)
    alone = said(capsys, "evaluate", grid, "--starts", "fresh", "--steps", 100, "--stochastic", "--confidence", 0.9)
    assert alone["continuing"] is None
    assert alone["fresh"]["steps"] >= 100
    assert (alone["fresh"]["confidence"], alone["deterministic"]) == (0.9, False)
    forge(grid, lambda file: file.execute("UPDATE rounds SET reward = NULL WHERE k = 12"))
    assert said(capsys, "evaluate", grid, "--episodes", 3)["training_reward_per_step"] is None


def test_an_environment_is_named_by_the_user(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(lake)]) == 2
    assert "a file never makes code run" in capsys.readouterr().err
    data = said(capsys, "evaluate", lake, LAKE, "--episodes", 10)
    assert data["same_problem"] is True
    assert data["fresh"]["resets_performed"] == 10
    other = said(capsys, "evaluate", lake, LAKE, "--episodes", 10, "--set", "is_slippery=false")
    assert other["same_problem"] is False


def test_people_are_told_in_a_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(lake), LAKE, "--episodes", "5", "--set", "is_slippery=false"]) == 0
    out = capsys.readouterr().out
    for words in ("fresh starts", "one life", "resets per 1000 steps", "another problem", "Clopper-Pearson"):
        assert words in out


def test_export_writes_a_policy_that_evaluate_takes(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = lake.parent / "policy.npz"
    data = said(capsys, "export", lake, "-o", target)
    assert data["kind"] == "table"
    assert data["arrays"]["actions"] == [4]
    again = read_policy(target)
    assert np.array_equal(again.probabilities(np.arange(16)), rf.load(lake).policy.probabilities(np.arange(16)))
    options = [word for key, value in OPTIONS.items() for word in ("--set", f"{key}={value}")]
    a = said(capsys, "evaluate", target, LAKE, "--episodes", 10, *options)
    b = said(capsys, "evaluate", lake, LAKE, "--episodes", 10)
    assert a["fresh"] == b["fresh"]
    assert main(["export", str(lake), "-o", str(target)]) == 0
    assert "table, probabilities" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "none.rfrun"], ["export", "none.rfrun"], ["evaluate", "FILE", "grid-v0"],
        ["evaluate", "FILE", "gym:Nothing-v0"], ["evaluate", "FILE", "--set", "slip=0.1"],
        ["evaluate", "FILE", LAKE, "--episodes", "3", "--steps", "3"], ["export", "FILE", "-o", "FILE"],
        ["export", "FILE", "grid-v0"],
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(words: list[str], lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, *(lake if word == "FILE" else word for word in words))


def test_a_policy_file_needs_a_problem(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = lake.parent / "policy.npz"
    assert main(["export", str(lake), "-o", str(target)]) == 0
    assert main(["evaluate", str(target)]) == 2
    assert "A policy file holds no problem" in capsys.readouterr().err


OWN: dict[str, Any] = {role: f"tests.use.own_players:Own{role.title()}" for role in ("primal", "dual")}
CLASSES = [word for role, name in OWN.items() for word in (f"--{role}", name)]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.rfrun"
    rf.learn("grid-v0", **OWN, episodes=30, seed=3, path=path, settings={"dual": {"C": 2.5}})
    return path


def test_players_of_a_users_own_are_named_by_the_user(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["evaluate"], ["export", "-o", str(own.with_suffix(".npz"))]):
        assert main([*command, str(own)]) == 2
        assert "--primal module:Class" in capsys.readouterr().err
        assert said(capsys, *command, own, *CLASSES)["policy"]["primal"] == "own-primal"
    unknown = {c["claim"]: c for c in said(capsys, "certify", own)["certificates"]}[CLAIM]
    assert "There is no primal player 'own-primal'" in unknown["why"]
    assert {c["claim"]: c for c in said(capsys, "certify", own, *CLASSES)["certificates"]}[CLAIM]["holds"]
    replayed = said(capsys, "certify", own, *CLASSES, "--replay")["certificates"]
    assert [c["holds"] for c in replayed[:3]] == [True, True, True]
    assert rf.load(own, **OWN).player_again("dual").C == 2.5


def test_a_class_of_another_player_is_refused(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(own), "--primal", "resetfree.players.tabular.references:Uniform"]) == 2
    assert "is of the primal player 'own-primal'" in capsys.readouterr().err
    assert main(["certify", str(own), "--dual", OWN["primal"]]) == 2
    assert "must be a dual player" in capsys.readouterr().err
