"""The page about one's own environment: its environment and its deployment are run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import resetfree as rf

PAGE = Path(rf.__file__).parents[2] / "docs" / "own_environment.md"


def test_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    environment, deployment = re.findall(r"```python\n(?!>>>)(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "tank.py").write_text(environment)
    (tmp_path / "deploy.py").write_text(deployment)

    def ran(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    resetfree = ("-m", "resetfree.show.cli")
    ran(*resetfree, "run", "tank:Tank", "--set", "horizon=50", "--episodes", "60", "--out", "tank.rfrun")
    run = rf.load(tmp_path / "tank.rfrun")
    assert len(run) == 60
    assert {one.why for one in run.interventions} <= {"start", "reset"}
    assert "one life" in ran(*resetfree, "evaluate", "tank.rfrun", "tank:Tank", "--starts", "both", "--episodes", "5")
    ran(*resetfree, "export", "tank.rfrun", "-o", "tank.npz")
    assert re.match(r"\d+ steps, level \d+\.\d, spilled: (True|False)", ran("deploy.py"))
