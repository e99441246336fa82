"""The example on machines: it learns, compares, and draws; here with a small search and short lives."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "examples" / "machines" / "set_points.py"


@pytest.fixture(scope="module")
def script() -> Any:
    """The script as a module, with less to do."""
    spec = importlib.util.spec_from_file_location("example_set_points", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    players = {"primal": "model-search", "dual": "constant-penalty", "feedback": "realised"}
    search = {"planning": 10, "population": 8, "rounds": 2}
    module.PLAYERS.update(players, settings={"primal": search, "dual": {"C": 200.0}})
    module.LONG, module.SEEDS, module.LONGER = 700, 1, 300  # type: ignore[attr-defined]
    return module


@pytest.mark.parametrize("name", ["cart-load", "two-tanks", "arm"])
def test_it_learns_and_draws(script: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.learn(name, seed=1, episodes=4, picture=tmp_path / "picture.png")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{name}, seed 1, model-search: ")
    assert "% of the controller's" in said[1]
    assert [line.split(",")[0] for line in said[2:]] == ["learned", "controller", "nothing", "random"]
    assert "0 resets in 700 steps" in said[3]
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_it_compares_without_a_learner(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script.by_hand()
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 9
    assert all(", 0 resets" in line for line in said if "controller" in line)
