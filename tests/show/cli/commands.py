"""A command of the program, called in this process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resetfree.show.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, err = run(capsys, *words, "--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    return json.loads(out)
