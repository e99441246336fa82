"""`resetfree run --rate` and `--delay`: acting in real time and with plans that come late, from the command line."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from rich.console import Console
from tests.show.cli.commands import refused, run, run_json

import resetfree as rf
from resetfree.core.readable import duration, number
from resetfree.runs.file.ledger import read
from resetfree.show.cli.run_summary import show_brief, summary

PLAYER = ("--primal", "tests.runs.live.quick_players:Quick")
WORDS = ("run", "gym:CartPole-v1", *PLAYER, "--dual", "constant-penalty", "--learner", "usual", "--out", "a.rfrun")
DELAYED = ("run", "grid-v0", "--primal", "ucbvi", "--dual", "projected-gradient", "--episodes", "40")
GIVEN = ("--bound", "1", "--set", "horizon=10", "--episodes", "40")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_at_a_rate_says_how_late_it_was_is_resumed_and_certified_by_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, _ = run(capsys, *WORDS, *GIVEN, "--rate", "500", "--max-resets", "1")
    assert status == 0
    assert "500 Hz," in " ".join(out.split())
    k = len(rf.load("a.rfrun"))
    data = run_json(capsys, *WORDS, "--resume")
    again = rf.load("a.rfrun")
    assert k < len(again) == data["episodes_played"]
    assert data["timing"]["rate"] == 500.0
    assert data["timing"]["missed"] == again.columns["missed"].sum()
    assert data["timing"]["latest"] == again.columns["lateness"].max()
    assert data["timing"]["plan_age"]["most"] == again.plan_ages.max()
    ticks = again.columns["steps"].sum() / 500.0
    for seconds, slow in ((ticks + 1.0, ""), (240.0, f"slow 4 min for {duration(ticks)} of ticks: ")):
        late = replace(again, seconds=seconds)
        show_brief(Console(width=120), late, summary(late))
        said = " ".join(capsys.readouterr().out.split())
        assert slow in said
        assert ("slow" in said) == bool(slow)
    words = ("certify", "a.rfrun", "--problem", "gym:CartPole-v1", *PLAYER, "--replay", "--strict")
    status, _, said = run(capsys, *words)
    assert status == 0, said


class Fails(gymnasium.Env[Any, Any]):
    """Works for a while, and raises then."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if self.steps > 25:
            raise RuntimeError("the wire is cut")
        return np.zeros(4, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("rate", [("--rate", "500", "--learner", "usual"), ()], ids=["by the clock", "waiting"])
def test_when_the_environment_fails_the_user_is_told_how_to_go_on(
    rate: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "tests.show.cli.test_cli_timing:Fails", *PLAYER, "--dual", "constant-penalty", "--out", "b.rfrun")
    status, _, said = run(capsys, *words, "--bound", "1", "--set", "horizon=10", "--episodes", "40", *rate)
    assert status == 2
    assert "RuntimeError: the wire is cut. The run is saved. Continue with: resetfree run " in said
    assert len(read(Path("b.rfrun")).columns["k"]) == 2


def test_a_run_with_delay_says_how_old_its_plans_were(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_json(capsys, *DELAYED, "--delay", "4", "--out", "a.rfrun")
    ages = rf.load("a.rfrun").plan_ages
    assert ages.max() == 4
    assert data["timing"] == {
        **{"delay": 4, "missed": 0, "latest": None},
        "plan_age": {"mean": pytest.approx(ages.mean()), "most": 4},
    }
    status, out, _ = run(capsys, *DELAYED, "--delay", "4", "--out", "b.rfrun")
    assert status == 0
    assert f"plans were {number(ages.mean(), 2)} rounds old on average (at most 4)" in " ".join(out.split())
    assert run_json(capsys, *DELAYED, "--out", "c.rfrun")["timing"] is None


def test_a_run_with_delay_is_resumed_with_that_delay_and_certified_by_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = (*DELAYED, "--delay", "3", "--out", "a.rfrun")
    assert run(capsys, *words, "--max-resets", "2")[0] == 0
    assert len(rf.load("a.rfrun")) < 40
    assert run_json(capsys, "run", "grid-v0", "--resume", "--out", "a.rfrun")["episodes_played"] == 40
    other = refused(capsys, "run", "grid-v0", "--resume", "--out", "a.rfrun", "--delay", "1")
    assert "another timing: delay=3, not delay=1" in other
    claims = run_json(capsys, "certify", "a.rfrun", "--replay")["certificates"][:4]
    assert [one["holds"] for one in claims] == [True] * 4
