"""`resetfree sweep`: run, status, retry, report; people's words and JSON."""

import io
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from tests.show.cli import commands
from tests.show.cli.commands import refused, run
from tests.studies.common import ROOT, SMALL, assert_alone, begun, fragile, sweeping

from resetfree.runs.file.ledger import read
from resetfree.show.cli.sweep import SHOWN, SummaryLine, _show_tables
from resetfree.studies import SweepFolder, parse_plan

ONE = SMALL.replace("seeds = 2", "seeds = 1").replace("[0.1, 0.2]", "0.2")


def run_json(capsys: pytest.CaptureFixture[str], *words: str, wanted: int = 0) -> Any:
    return commands.run_json(capsys, *words, wanted=wanted, quiet=False)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "small.toml"
    file.write_text(ONE)
    return file


def test_a_dry_run_plays_nothing(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    data = run_json(capsys, "sweep", str(file), "--dry-run")
    assert (data["trials"], data["configurations"], data["episodes"], data["repeated"]) == (2, 2, 120, 0)
    assert len(data["first"]) == 2
    status, out, _ = run(capsys, "sweep", "run", str(file), "--dry-run")
    assert status == 0
    assert "2 trials of 2 configurations, 120 episodes, into 'sweeps/small'" in out
    assert "grid-v0 slip=0.2, uniform, against auto, 60 episodes, seed 0" in out
    assert not Path("sweeps").exists()


def test_from_a_file_to_a_report(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    status, out, err = run(capsys, "sweep", str(file), "--engine", "local", "--workers", "1", "--tensorboard", "tb")
    assert status == 0
    assert "2 of 2 trials done, 0 failed." in out
    assert "linear-ucb" in out
    assert "Engine local: requested." in err
    assert "2 of 2 trials done · 0 running · 0 failed" in err
    assert len(list(Path("tb").glob("grid-v0-*-seed0-*/events*"))) == 2
    folder = SweepFolder(Path("sweeps/small"))
    for made in (folder.results, folder.summary, folder.report, folder.picture):
        assert made.exists()
    again = run_json(capsys, "sweep", str(file), "--engine", "local")
    assert again["engines"] == []
    assert (again["done"], again["failed"], again["gathered"]) == (2, 0, 2)
    assert again["engine_why"] == "nothing is left to play"
    data = run_json(capsys, "sweep", "status", "sweeps/small")
    assert [data[key] for key in ("trials", "done", "running", "waiting", "failed")] == [2, 2, 0, 0, 0]
    assert data["is_played"] is False
    folder.results.unlink()
    data = run_json(capsys, "sweep", "report", "sweeps/small")
    assert (data["trials"], data["gathered"], data["configurations"]) == (2, 2, 2)
    assert len(pd.read_parquet(data["results"])) == data["rows"]


def test_tables_fit_a_terminal_of_80_columns() -> None:
    words = {"problem": "grid-v0", "problem_options": "{}", "settings": "{}", "feedback": "realised", "episodes": 400}
    point = {"k": 400, "n": 4, "iqm": -51.66, "iqm_low": -74.68, "iqm_high": -41.39, "mean": -54.85}
    pairs = (("support-elimination", "constant-penalty"), ("linear-ucb", "projected-gradient"))
    lines = [
        SummaryLine({**words, "primal": primal, "dual": dual}, {name: [point] for name in SHOWN})
        for primal, dual in pairs
    ]
    screen = io.StringIO()
    _show_tables(Console(file=screen, width=80, force_terminal=True, no_color=True), {"grid-v0": lines})
    shown = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert max(map(len, shown.splitlines())) <= 80
    assert "grid-v0, K = 400" in shown
    assert "\nsupport-elimination" in shown  # no name is broken
    assert "-51.7 [-74.7," in shown


def test_failed_trials_are_shown_and_tried_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    marker, file, out = tmp_path / "marker", tmp_path / "s.toml", str(tmp_path / "s")
    marker.write_text("")
    file.write_text(fragile("raising", marker))
    local = ("--engine", "local", "--workers", "1")
    data = run_json(capsys, "sweep", str(file), "--out", out, *local, "--strict", wanted=1)
    assert (data["done"], data["failed"], data["gathered"]) == (0, 1, 0)
    assert data["errors"][0]["error"] == "ValueError: the gripper is stuck"
    assert "Traceback" in Path(data["errors"][0]["file"]).read_text()
    status, text, _ = run(capsys, "sweep", "status", out)
    assert status == 0
    assert "0 of 1 trials done, 1 failed." in text
    assert "ValueError: the gripper is stuck" in text
    assert f"resetfree sweep retry {out}" in text
    marker.unlink()
    data = run_json(capsys, "sweep", "retry", out, "--afresh", *local)
    assert (data["done"], data["failed"], data["gathered"], data["errors"]) == (1, 0, 1, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sweep", "none.toml"), "There is no sweep file 'none.toml'."),
        (("sweep", "status", "nowhere"), "is not that of a sweep"),
        (("sweep", "retry", "nowhere"), "is not that of a sweep"),
        (("sweep", "report", "nowhere"), "is not that of a sweep"),
        (("sweep", "small.toml", "--engine", "local", "--address", "127.0.0.10:1"), "An address is that of a Ray"),
    ],
)
def test_mistakes_are_one_sentence(
    capsys: pytest.CaptureFixture[str], file: Path, words: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, *words)
    assert not Path("sweeps").exists()


def test_another_sweep_in_the_same_folder(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    SweepFolder(Path("sweeps/small")).prepare(ONE)
    file.write_text(ONE.replace("seeds = 1", "seeds = [0, 5]"))
    status, _, err = run(capsys, "sweep", str(file), "--engine", "local", "--workers", "1")
    assert status == 2
    assert "holds another sweep" in err
    data = run_json(capsys, "sweep", str(file), "--engine", "local", "--workers", "1", "--update")
    assert (data["trials"], data["done"]) == (4, 4)


def test_ctrl_c_saves_and_the_same_command_goes_on(file: Path) -> None:
    text = ONE.replace("60", "30000")  # a second and more: Ctrl-C comes before the end
    file.write_text(text)
    folder, plan = SweepFolder(file.parent / "swept"), parse_plan(text)
    command = sweeping(file, folder.path, "--engine", "local")
    process = begun(command)
    while not any(folder.trial_file(trial.id).exists() for trial in plan.trials):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate()
    assert (process.returncode, out) == (130, "")
    assert "Run the same command again to continue." in err
    assert "Traceback" not in err
    for one in folder.path.rglob("*.rfrun"):  # saved, or as at its last checkpoint where it was too busy to hear
        assert read(one).k <= 30_000
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["done"] == 2
    for trial in plan.trials:
        assert_alone(trial, folder)
