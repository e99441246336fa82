"""`resetfree run --delay`: plans that come late, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.show.cli.commands import run, run_json

import resetfree as rf

WORDS = ("run", "grid-v0", "--primal", "ucbvi", "--dual", "projected-gradient", "--episodes", "40")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_with_delay_says_how_old_its_plans_were(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, *WORDS, "--delay", "4", "--out", "a.rfrun")
    ages = rf.load("a.rfrun").plan_ages
    assert ages.max() == 4
    assert data["timing"] == {
        **{"delay": 4, "missed": 0, "latest": None},
        "plan_age": {"mean": pytest.approx(ages.mean()), "most": 4},
    }
    status, out, _ = run(capsys, *WORDS, "--delay", "4", "--out", "b.rfrun")
    assert status == 0
    assert f"plans were {ages.mean():.2g} rounds old on average (at most 4)" in " ".join(out.split())
    assert run_json(capsys, *WORDS, "--out", "c.rfrun")["timing"] is None


def test_a_run_with_delay_is_resumed_with_that_delay_and_certified_by_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (*WORDS, "--delay", "3", "--out", "a.rfrun")
    assert run(capsys, *words, "--max-resets", "2")[0] == 0
    assert len(rf.load("a.rfrun")) < 40
    assert run_json(capsys, "run", "grid-v0", "--resume", "--out", "a.rfrun")["episodes_played"] == 40
    status, _, err = run(capsys, "run", "grid-v0", "--resume", "--out", "a.rfrun", "--delay", "1")
    assert (status, "another timing: delay=3, not delay=1" in err) == (2, True)
    claims = run_json(capsys, "certify", "a.rfrun", "--replay")["certificates"][:4]
    assert [one["holds"] for one in claims] == [True] * 4


@pytest.mark.parametrize("delay", ["-1", "1.5", "x", str(10**30)])
def test_what_is_no_delay_is_refused(delay: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, *WORDS, "--delay", delay, "--out", "a.rfrun")
    assert status == 2
    assert "delay" in err
    assert not Path("a.rfrun").exists()
