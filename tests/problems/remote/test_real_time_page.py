"""docs/real_time.md is true: its commands learn on a machine by the clock, its options and columns exist."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.problems.remote.test_connect_page import free_port, running
from tests.problems.remote.test_from_machine import until

import resetfree as rf
from resetfree.problems import paced
from resetfree.show.cli import app, main

PAGE = (Path(__file__).parents[3] / "docs" / "real_time.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]


def test_the_commands_of_the_page_learn_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    machine, learner = (line.replace("9002", port) for line in SHELL[:2])
    shorter = learner.replace("--episodes 200", "--episodes 3").replace("horizon=50", "horizon=10")
    # A busy computer may stop the machine for longer than it may be silent, and a learner of the lowest class for ever.
    patient = " --set timeout=60 --learner usual"
    with running("-m", "resetfree.show.cli", *shlex.split(machine)[1:], folder=tmp_path):
        until((tmp_path / "pole.key").exists)
        assert main([*shlex.split(shorter + patient)[1:], "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        run = rf.load("pole.rfrun")
        assert len(run) == 3
        assert said["timing"]["missed"] == run.columns["missed"].sum()
        assert (run.columns["based_on"] < run.columns["k"]).all()
        found: dict[str, Any] = {}
        short = PYTHON[0].replace("9002", port).replace("episodes=5", "episodes=2, learner='usual'")
        exec(short.replace("horizon=50", "horizon=10, timeout=60.0"), found)
    assert len(found["run"]) == 2
    assert (found["run"].columns["lateness"] >= 0).all()
    assert main(["certify", "pole.rfrun", "--replay", "--json"]) == 0


def test_the_options_and_defaults_of_the_page_exist() -> None:
    options = {name for one in app.commands["run"].params for name in one.opts}
    assert {"--rate", "--max-staleness", "--resume"} <= options
    defaults = {name: one.default for name, one in inspect.signature(rf.Deadlines).parameters.items()}
    assert f"| `most_missed` ticks ({defaults['most_missed']}) were skipped in a row |" in PAGE
    assert paced.SILENT == 3
    assert "| for three ticks | the safe action is sent, once;" in PAGE
    assert f"| for `timeout` seconds ({paced.TIMEOUT:g};" in PAGE
