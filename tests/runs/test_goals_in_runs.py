"""Goals in runs and their files: a column, notes, commands, and files from before goals were told apart."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tests.bank import edit, stop_at
from tests.runs.forging import forge

import resetfree as rf
from resetfree.core import Notice
from resetfree.problems.operators import Answer, Request
from resetfree.runs.file.recorded import COLUMNS
from resetfree.runs.recall import trusted_options
from resetfree.show.cli import main

LAKE: dict[str, Any] = {"problem": {"horizon": 20, "is_slippery": False}}
WORDS = ["gym:FrozenLake-v1", "--set", "horizon=20", "--set", "is_slippery=false", "--episodes", "60", "--seed", "1"]


class Button(gymnasium.Env[Any, Any]):
    """Pressing ends it, with a reward of 1 that nothing else has."""

    observation_space: spaces.Space[Any] = spaces.Discrete(2)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return int(action), float(action), action == 1, False, {}


def test_goals_are_a_column_that_no_reset_is_in(tmp_path: Path) -> None:
    performed: list[str] = []

    class Spy:
        def perform(self, request: Request) -> Answer:
            performed.append(request.why)
            return Answer("spy")

    file = tmp_path / "lake.rfrun"
    run = rf.learn("gym:FrozenLake-v1", episodes=60, seed=1, path=file, settings=LAKE, operator=Spy())
    assert run.goals[-1] == run.columns["goals"].sum() == run.columns["reward"].sum() >= 5
    assert performed.count("reset") in (run.realised_resets[-1], run.realised_resets[-1] - 1)  # none is for a goal
    assert (run.columns["steps"][run.columns["reset"] == 0] == 20).all()  # no goal ends an episode
    again = rf.load(file)
    assert np.array_equal(again.columns["goals"], run.columns["goals"])
    assert again.fit is not None
    assert again.fit.whole
    assert run.resets[-1] == pytest.approx(run.realised_resets[-1])  # the exact model says the same: nothing is random


def test_a_resumed_run_keeps_its_goals(tmp_path: Path) -> None:
    given: dict[str, Any] = {"episodes": 60, "seed": 1, "path": tmp_path / "a.rfrun", "settings": LAKE}
    with pytest.raises(rf.Stopped) as stopped:
        rf.learn("gym:FrozenLake-v1", progress=stop_at(41), **given)
    before = stopped.value.run.columns["goals"]
    assert before.sum() > 0
    after = rf.learn("gym:FrozenLake-v1", resume=True, **given)
    assert len(after) == 60
    assert np.array_equal(after.columns["goals"][: len(before)], before)
    assert after.goals[-1] > before.sum()


def test_commands_say_how_many_goals_there_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "lake.rfrun")
    assert main(["run", *WORDS, "--out", file, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["goals"] == rf.load(file).goals[-1] > 0
    assert data["after_goal"] == "restart for free"
    assert main(["run", "gym:FrozenLake-v1", "--resume", "--verbose", "--out", file]) == 0
    assert ", after each: restart for free" in " ".join(capsys.readouterr().out.split())
    assert main(["report", file, "-o", str(tmp_path / "report.html")]) == 0
    assert "after each: restart for free" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert main(["evaluate", file, "gym:FrozenLake-v1", "--episodes", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fresh"]["goals"] >= 3
    for words in (["--set", "goal_when=won"], ["--set", "goal_when=terminated", "--set", "after_goal=again"]):
        assert main(["run", *WORDS, *words, "--out", str(tmp_path / "none.rfrun")]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "none.rfrun").exists()


def test_what_is_asked_is_kept_with_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "button.rfrun"
    with pytest.warns(Notice, match="'Button' terminated with the best reward so far"):
        run = rf.learn(rf.from_gym(Button(), horizon=4), "uniform", episodes=30, path=file, B=1.0)
    (note,) = run.notes
    assert note.k >= 1
    assert 'goal_when="terminated and reward>=1"' in note.what
    assert run.goals[-1] == 0 < run.realised_resets[-1]
    again = rf.load(file)
    assert again.notes == run.notes
    assert again.fit is not None
    assert again.fit.whole
    assert main(["report", str(file), "-o", str(tmp_path / "report.html")]) == 0
    assert "terminated with the best reward so far" in (tmp_path / "report.html").read_text()


def test_runs_without_goals_are_as_they_were(tmp_path: Path) -> None:
    run = rf.learn("grid-v0", episodes=5, path=tmp_path / "a.rfrun")
    assert tuple(run.columns) == COLUMNS
    assert run.goals.tolist() == [0] * 5
    assert run.spec["after_goal"] is None


def test_a_run_from_before_goals_goes_on_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its spec says nothing of goals: the environment by the same name must not mean something else now."""
    file = tmp_path / "old.rfrun"

    def older(connection: sqlite3.Connection) -> None:
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        del spec["after_goal"]
        del spec["problem_options"]["goal_when"]
        connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))

    assert main(["run", *WORDS, "--set", "goal_when=never", "--out", str(file), "--max-resets", "2"]) == 0
    played = len(rf.load(file))
    assert played < 60
    forge(file, older)
    assert main(["certify", str(file)]) == 0
    assert len(rf.load(file, "gym:FrozenLake-v1").regret) == played
    capsys.readouterr()
    assert main(["run", "gym:FrozenLake-v1", "--resume", "--out", str(file), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["episodes_played"], data["goals"]) == (60, None)
    assert main(["run", "gym:FrozenLake-v1", "--resume", "--set", "goal_when=terminated", "--out", str(file)]) == 2


def test_goals_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.rfrun"
    rf.learn("gym:FrozenLake-v1", episodes=5, path=file, settings=LAKE)
    for wrong in ("NULL", "'many'"):
        edit(file, f"UPDATE rounds SET goals = {wrong} WHERE k = 3")
        with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
            rf.load(file)


def test_no_file_makes_a_method_run() -> None:
    """A new task that is the name of a method is code, and must be given again."""
    spec = {"problem": "gym:Taxi-v4", "problem_options": {"goal_when": "terminated", "new_task": "close"}}
    with pytest.raises(rf.InvalidInput, match=r"names code for 'new_task'. Nothing is run because a file names it"):
        trusted_options(spec)
