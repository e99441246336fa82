"""The commands of docs/continue.md run, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from resetfree.show.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "continue.md"


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.S) for line in block.splitlines()
    ]
    assert len(lines) >= 9
    for line in lines:
        assert main(shlex.split(line)[1:]) == 0, line
    assert (tmp_path / "fourth.rfrun").exists()
