"""A continuum of states on the command line: solved, checked, played by Algorithm 1, certified, replayed, reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resetfree.show.cli import main

PLANE = ("continuous-linear-v0", "--set", "dimension=2", "--set", "horizon=2")


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_is_solved_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    solved = told(capsys, "solve", *PLANE)
    assert len(solved["value"]) == len(solved["states"]) == 21
    assert solved["states"][-1] == [1.0, 1.0]
    assert main(["solve", *PLANE]) == 0
    assert "states in [0, 1]^2" in capsys.readouterr().out
    checked = told(capsys, "check", *PLANE)
    assert checked["holds"]
    assert checked["findings"][2]["detail"]["B"] == pytest.approx(max(solved["lambda_star"]), rel=0.2)


def test_it_is_played_certified_replayed_and_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--set", "problem.dimension=2", "--set", "problem.horizon=2", "--set", "primal.width=proved")
    players = ("--primal", "linear-ucb", "--dual", "projected-gradient", "--feedback", "optimistic")
    played = told(capsys, "run", "continuous-linear-v0", *players, *options, "--episodes", "25", "--out", "a.rfrun")
    assert played["regret"] is not None
    assert 0 < played["resets"] < 25
    found = told(capsys, "certify", "a.rfrun", "--strict", "--replay")
    assert not [c for c in found["certificates"] if c["status"] == "proved" and not c["holds"]]
    assert any(
        c["claim"].startswith("both players play every round again") and c["holds"] for c in found["certificates"]
    )
    assert told(capsys, "evaluate", "a.rfrun", "--episodes", "20")
    assert main(["export", "a.rfrun", "-o", "a.npz"]) == 2
    assert "holds code" in capsys.readouterr().err
    assert main(["report", "a.rfrun", "-o", "a.html"]) == 0
    text = Path("a.html").read_text()
    assert "continuous-linear-v0" in text
    assert main(["run", "continuous-linear-v0", *players, *options, "--episodes", "25", "--out", "b.rfrun"]) == 0
    assert "no model of this problem" not in capsys.readouterr().out
