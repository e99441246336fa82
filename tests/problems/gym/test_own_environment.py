"""The page about one's own environment: its environment and its deployment are run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.show.cli import main

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
