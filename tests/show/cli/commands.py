"""A command of the program, called in this process."""

import json
from typing import Any

import pytest

from resetfree.show.cli import main

# The paper's players unless others are named: most tests of `run` are not about who plays.
PAPER = ("--primal", "linear-ucb", "--dual", "projected-gradient", "--feedback", "optimistic")


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main([*map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *words: object, wanted: int = 0, quiet: bool = True) -> Any:
    """The object that it prints, and nothing else if it is to be quiet."""
    status, out, err = run(capsys, *words, "--json")
    assert status == wanted, err
    assert err == "" or not quiet
    assert out.count("\n") == 1
    return json.loads(out)


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one sentence that it refuses them with."""
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err
