"""`resetfree run`: saves what it plays, goes on where it stopped, and says what is guaranteed."""

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.bank import edit, rows, stop_at
from tests.killing import rounds_of
from tests.show.cli import commands
from tests.waiting import appear, surroundings, until

import resetfree as rf
from resetfree.core.interrupts import STOPPING
from resetfree.core.readable import number
from resetfree.players import discover
from resetfree.runs.file.ledger import read
from resetfree.show.cli import main
from resetfree.show.cli.progress import Display
from resetfree.theory.certificates.anytime import resets_upper

DEFAULT = "runs/grid-v0-linear-ucb-projected-gradient-seed0.rfrun"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words_of(words: tuple[str, ...]) -> tuple[str, ...]:
    return ("run", *(() if "--resume" in words else commands.PAPER), *words)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    return commands.run(capsys, *words_of(words))


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    return commands.run_json(capsys, *words_of(words))


def test_run_learns_and_says_what_it_came_to(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "grid-v0", "--episodes", "200")
    assert (data["problem"], data["primal"], data["dual"]) == ("grid-v0", "linear-ucb", "projected-gradient")
    assert (data["episodes"], data["seed"], data["feedback"], data["B_source"]) == (200, 0, "optimistic", "oracle")
    assert data["run_file"] == DEFAULT
    loaded = rf.load(DEFAULT)
    assert len(loaded) == 200
    assert data["regret"] == loaded.regret[-1]
    assert data["resets"] == loaded.resets[-1]
    assert data["realised_resets"] == loaded.realised_resets[-1]
    assert data["predicted_resets"] == loaded.predicted_resets[-1]
    assert data["prediction"]["meant"] == "low"
    assert data["seconds"] > 0
    assert data["B"] == pytest.approx(38.8664632)
    assert data["statements"]["dual"]["covered"]
    assert not data["statements"]["primal"]["covered"]
    status, out, err = run(capsys, "grid-v0", "--episodes", "200", "--out", "again.rfrun", "-v")
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert f"regret {number(data['regret'])} ({number(data['regret'] / 200)} per episode)" in words
    assert words.startswith(f"Reward {number(data['late_reward'])} per episode at the end (the last 20), ")
    assert f" {data['realised_resets']} resets in 200 episodes; " in words
    assert f"predicted {number(data['predicted_resets'])} (low by design: what is not known counts as safe" in words
    assert "No guarantee for the primal player (" in words
    assert "dual: guaranteed" in words
    assert "again.rfrun" in words
    assert rows("again.rfrun") == rows(DEFAULT)


def test_without_an_oracle_regret_and_resets_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("continuous-linear-v0", "--primal", "uniform", "--dual", "counting", "--episodes", "20")
    data = run_json(capsys, *words)
    assert (data["regret"], data["resets"]) == (None, None)
    assert data["realised_resets"] >= 0
    assert (data["predicted_resets"], data["prediction"]["meant"]) == (None, "none")
    out = run(capsys, *words, "--overwrite", "-v")[1]
    assert "Not known: regret and expected resets (no model of this problem)." in " ".join(out.split())
    assert "\nregret" not in out
    assert "the player predicts none" in out


def test_regret_is_null_where_a_start_has_no_reset_free_policy(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("footnote-v0", "--primal", "uniform", "--dual", "counting", "--episodes", "200")
    data = run_json(capsys, *words)
    assert data["regret"] is None
    assert data["resets"] > 0


def test_settings_go_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("pits-v0", "--episodes", "5", "--bound", "7", "--seed", "4", "--feedback", "realised")
    sets = ("--set", "n=4", "--set", "problem.slip=0.1", "--set", "scale=0.3", "--set", "dual.feasible_set=ball")
    data = run_json(capsys, *words, *sets)
    assert data["problem_options"] == {"n": 4, "slip": 0.1}
    assert data["settings"]["primal"]["scale"] == 0.3
    assert data["settings"]["dual"] == {"B": 7.0, "feasible_set": "ball"}
    assert (data["B"], data["B_source"], data["seed"], data["feedback"]) == (7.0, "given", 4, "realised")
    loaded = rf.load(data["run_file"])
    assert loaded.mdp is not None
    assert loaded.mdp.n_states == 16


PENDULUM = {"horizon": "5", "reward_low": "-17", "reward_high": "0", "reset_when": "reward<=-12"}
BOX = [word for key, value in PENDULUM.items() for word in ("--set", f"problem.{key}={value}")]


def test_every_player_is_listed_and_can_be_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "players", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["players"]
    for role in ("primal", "dual"):
        names = [row["name"] for row in listed if row["role"] == role]
        assert names == list(discover(role))
        for name, player in discover(role).items():
            words: tuple[str, ...] = ("grid-v0", f"--{role}", name, "--episodes", "4", "--out", f"{name}.rfrun")
            if player.vectors_only:
                vectors = ("continuous-linear-v0",) if rf.Choices in player.action_spaces else ("gym:Pendulum-v1", *BOX)
                if (
                    ".autonomy." in player.__module__ or name == "goal-search"
                ):  # which need a task that states its goals
                    vectors = ("tabletop-small-v0",)
                words = (*vectors, "--dual", "constant-penalty", "--set", "dual.C=5", *words[1:])
            quiet = name != "goal-search"  # goals change by themselves there, which is noted as hidden state
            assert commands.run_json(capsys, *words_of(words), quiet=quiet)[role] == name
    assert main(["list", "players"]) == 0
    out = capsys.readouterr().out
    assert all(row["name"] in out and row["summary"] for row in listed)


def test_an_existing_file_needs_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("grid-v0", "--episodes", "20")
    run_json(capsys, *words)
    before = rows(DEFAULT)
    sentence = "exists. Continue it (--resume), replace it (--overwrite) or name another (--out)."
    assert sentence in commands.refused(capsys, *words_of(words))
    assert run_json(capsys, *words, "--resume", "--out", DEFAULT)["episodes"] == 20  # a finished run is only read
    assert rows(DEFAULT) == before
    assert run_json(capsys, *words, "--overwrite", "--set", "primal.scale=0.9")["episodes"] == 20
    assert rows(DEFAULT) != before


def test_resume_takes_what_is_not_said_from_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked: dict[str, Any] = {
        "primal": "politex",
        "dual": "optimistic-gradient",
        "episodes": 60,
        "seed": 9,
        "feedback": "realised",
        "settings": {"problem": {"n": 4}, "primal": {"scale": 0.3}, "dual": {"hint": "last", "eta": 0.25}},
    }

    for B in (None, 6.0):
        with pytest.raises(OSError):  # noqa: PT011
            rf.learn("pits-v0", path="a.rfrun", overwrite=True, progress=stop_at(25, error=OSError), B=B, **asked)
        data = run_json(capsys, "pits-v0", "--resume", "--out", "a.rfrun")
        assert (data["episodes"], data["primal"], data["seed"]) == (60, "politex", 9)
        rf.learn("pits-v0", path="b.rfrun", overwrite=True, B=B, **asked)
        assert rows("a.rfrun") == rows("b.rfrun")
    for words, sentence in (
        (("grid-v0",), "holds a run of 'pits-v0', not of 'grid-v0'"),
        (("pits-v0", "--episodes", "50"), "has 60 episodes, of which 60 are played"),
        (("pits-v0", "--seed", "1"), "was made with another seed: 9, not 1"),
        (("pits-v0", "--set", "problem.n=5"), "holds a run of another problem"),
        (("pits-v0", "--set", "primal.scale=1.0"), "politex with scale=0.3, not scale=1.0"),
        (("pits-v0", "--bound", "2"), "another primal player: politex with B=6.0, not B=2.0"),
    ):
        assert sentence in commands.refused(capsys, "run", *words, "--resume", "--out", "a.rfrun")


def test_a_user_s_own_factory_can_be_run_and_resumed(
    capsys: pytest.CaptureFixture[str], here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "my_plant.py").write_text(
        "import resetfree as rf\n\n\ndef small(horizon=4):\n    return rf.make('grid-v0', horizon=horizon)\n"
    )
    monkeypatch.syspath_prepend(str(here))
    words = ("my_plant:small", "--primal", "uniform", "--episodes", "9")
    data = run_json(capsys, *words, "--set", "horizon=3")
    assert data["run_file"] == "runs/my_plant-small-uniform-projected-gradient-seed0.rfrun"
    assert data["problem_options"] == {"horizon": 3}
    assert run_json(capsys, *words, "--resume", "--out", data["run_file"])["regret"] == data["regret"]


def test_others_read_nobody_else_writes_and_ctrl_c_saves(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    path = here / "a.rfrun"
    words = [sys.executable, "-m", "resetfree.show.cli", "run", "grid-v0", "--primal", "uniform", "--episodes", "60000"]
    process = subprocess.Popen([*words, "--out", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: rounds_of(path) or process.poll() is not None)
        seen = rf.load(path)
        with pytest.raises(rf.RunError, match="is being written by another process"):
            rf.learn("grid-v0", "uniform", episodes=60_000, path=path, resume=True)
        with pytest.raises(rf.RunError, match="is being written by another process"):
            rf.learn("grid-v0", "uniform", episodes=60_000, path=path, overwrite=True)
    finally:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    *before, last = err.splitlines()
    assert before in ([], [STOPPING])  # a busy machine takes longer than half a second, and then it says so
    assert f"Continue with: resetfree run grid-v0 --resume --out {path}" in last
    saved = rf.load(path)
    assert len(seen) <= len(saved) == read(path).k < 60_000
    assert saved.columns["reward"][: len(seen)].tobytes() == seen.columns["reward"].tobytes()
    assert [entry.name for entry in here.iterdir()] == ["a.rfrun"]
    run_json(capsys, "grid-v0", "--resume", "--out", str(path))
    rf.learn("grid-v0", "uniform", episodes=60_000, path=here / "b.rfrun")
    assert rows(path) == rows(here / "b.rfrun")


def test_progress_shows_speed_resets_multiplier_and_time_left(here: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)

    with pytest.raises(OSError):  # noqa: PT011
        rf.learn("grid-v0", episodes=100, path="a.rfrun", progress=stop_at(50, error=OSError))
    with Display(100, Path("a.rfrun"), console) as progress:
        rf.learn("grid-v0", episodes=100, path="a.rfrun", resume=True, progress=progress)
    text = screen.getvalue()
    assert all(word in text for word in ("51/100", "per s", "resets", "λ", "left"))
    silent = io.StringIO()
    with Display(100, None, Console(file=silent)) as progress:
        rf.learn("grid-v0", episodes=100, progress=progress)
    assert silent.getvalue() == ""


def test_auto_is_the_default_and_says_what_it_chose_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    for problem, primal, dual in (
        ("grid-v0", "rule-elimination", "constant-penalty"),
        ("random-linear-v0", "guarded-linear", "constant-penalty"),
    ):
        assert main(("run", problem, "--episodes", "50", "--json")) == 0
        data = json.loads(capsys.readouterr().out)
        assert (data["primal"], data["dual"], data["feedback"]) == (primal, dual, "realised")
        assert data["chosen"]
        assert data["run_file"] == f"runs/{problem}-auto-seed0.rfrun"
        assert main(("run", problem, "--resume", "--episodes", "50", "--json")) == 0
        capsys.readouterr()
    assert (
        main(("run", "grid-v0", "--episodes", "50", "--set", "scale=0.2", "--set", "slip=0.1", "--overwrite", "-v"))
        == 0
    )
    assert "chosen because" in capsys.readouterr().out


def test_no_more_resets_than_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("grid-v0", "--primal", "uniform", "--episodes", "60", "--out", "a.rfrun", "--json")
    status, out, err = run(capsys, *words, "--max-resets", "4")
    data = json.loads(out)
    assert status == 0
    assert (data["max_resets"], data["stopped_because"], data["realised_resets"]) == (4, "max_resets", 4)
    assert data["episodes"] == 60
    assert data["episodes_played"] == len(rf.load("a.rfrun")) < 60
    assert data["further_resets_bound"] <= 60 - data["episodes_played"]
    again = "Continue with: resetfree run grid-v0 --resume --out a.rfrun --max-resets 8"
    assert err.startswith(f"Reached the limit of 4 resets after {len(rf.load('a.rfrun'))} of 60 episodes. ")
    assert err.endswith(f"{again}\n")
    assert err.count("\n") == 1
    assert json.loads(run(capsys, *again.split()[4:], "--json")[1])["realised_resets"] == 8
    status, out, _ = run(capsys, "grid-v0", "--resume", "--out", "a.rfrun", "--max-resets", "8")
    assert f"resets in {len(rf.load('a.rfrun'))} of 60 episodes" in " ".join(out.split())
    data = run_json(capsys, "grid-v0", "--resume", "--out", "a.rfrun")
    assert (data["episodes_played"], data["stopped_because"], data["max_resets"]) == (60, None, None)
    rf.learn("grid-v0", "uniform", "projected-gradient", episodes=60, path="b.rfrun")
    assert rows("a.rfrun") == rows("b.rfrun")


def test_what_is_said_about_resets_follows_from_the_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, "grid-v0", "--primal", "uniform", "--episodes", "300", "--out", "a.rfrun")
    columns = rf.load("a.rfrun").columns
    n = int(columns["reset"].sum())
    assert data["resets_bound"] == float(resets_upper(n, 0.05)) >= data["resets"]
    assert data["recent"]["episodes"] == 300 - 128
    assert data["recent"]["resets"] == columns["reset"][128:].sum()
    assert data["recent"]["bound"] >= columns["v_c"][128:].sum()
    assert data["mean_steps_between_resets"] == columns["steps"].sum() / n
    assert data["mean_seconds_between_resets"] == data["seconds"] / n
    assert (data["interventions"], data["seconds_waited"], data["further_resets_bound"]) == (0, 0, 0)
    assert data["most_further_resets"] is None
    auto = run_json(capsys, "grid-v0", "--primal", "auto", "--episodes", "50", "--out", "b.rfrun")
    most = rf.load("b.rfrun").spec["statements"]["primal"]["most_resets"]
    assert auto["most_further_resets"] == most - auto["realised_resets"]
    out = run(capsys, "grid-v0", "--resume", "--out", "a.rfrun", "-v")[1]
    words = " ".join(out.split())
    assert f"at most {number(data['resets_bound'])} after {n} observed resets, with 95 % confidence" in words
    assert f"between resets {number(data['mean_steps_between_resets'])} steps" in words


PLANT = ("tests.problems.operators.plant:make", "--primal", "uniform", "--dual", "counting", "--feedback", "realised")


def plant(*words: str) -> subprocess.Popen[str]:
    """A run on a machine, in a process of its own."""
    command, pipe = [sys.executable, "-m", "resetfree.show.cli", "run", *PLANT, *words, "--json"], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=surroundings())


def test_a_shell_script_performs_the_resets_through_a_folder_until_nobody_does(here: Path) -> None:
    path, desk = here / "a.rfrun", here / "desk"
    words = ("--episodes", "40", "--operator", str(desk), "--operator-deadline", "3", "--out", str(path))
    process = plant(*words)
    try:
        appear(desk / "request.json", process)
        subprocess.run(["sh", "-c", "rm request.json"], cwd=desk, check=True)
        appear(desk / "request.json", process)
        subprocess.run(["sh", "-c", 'echo \'{"note": "was stuck"}\' > answer.json'], cwd=desk, check=True)
        out, err = process.communicate()
    finally:
        process.kill()
    assert (process.returncode, out) == (2, "")
    said = err.splitlines()[-1]
    late = "No operator performed the reset of 'plant' within 3 seconds."
    assert said.startswith(f"{late} The run is saved. Continue with: ")
    assert said.endswith(f"--resume --out {path} --operator {desk} --operator-deadline 3")
    saved = rf.load(path)
    assert saved.realised_resets[-1] == 2
    assert [one.why for one in saved.interventions] == ["start", "reset"]
    assert saved.interventions[1].detail == "was stuck"
    again = plant("--resume", "--out", str(path), "--operator", "none")
    out, err = again.communicate()
    assert (again.returncode, err) == (0, "")
    whole = rf.load(path)
    assert len(whole) == 40
    assert [one.why for one in whole.interventions[2:]].count("resume") == 1
    assert whole.columns["reward"][: len(saved)].tobytes() == saved.columns["reward"].tobytes()


def test_a_machine_does_not_reset_itself_because_a_word_was_forgotten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is told that its run was of a Gymnasium environment."""
    process = plant("--episodes", "9", "--max-resets", "1", "--operator", "./desk", "--out", "a.rfrun")
    try:
        appear(Path("desk/request.json"), process)
        Path("desk/request.json").unlink()
        process.communicate()
    finally:
        process.kill()
    edit("a.rfrun", "UPDATE spec SET json = json_set(json, '$.problem', 'gym:Robot-v0')")
    said = commands.refused(capsys, "run", "gym:Robot-v0", "--resume", "--out", "a.rfrun")
    assert "Give '--operator' again (none: the environment resets itself)." in said


def test_resets_beyond_the_planning_horizon_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gym:CartPole-v1", "--primal", "stored-linear", "--dual", "constant-penalty", "--set", "dual.C=5")
    data = run_json(capsys, *words, "--set", "horizon=50", "--set", "planning=5", "--episodes", "12")
    assert data["horizon"] == 50
    assert "resets came more than 5 steps after the one before" in data["warning"]
    assert run_json(capsys, "grid-v0", "--episodes", "20", "--out", "other.rfrun")["warning"] is None


def test_a_run_that_ends_before_its_first_episode_has_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    words = words_of(("grid-v0", "--episodes", "4", "--seconds", "1e-300"))
    data = commands.run_json(capsys, *words, quiet=False)
    assert (data["episodes_played"], data["realised_resets"], data["regret"], data["resets"]) == (0, 0, None, None)
