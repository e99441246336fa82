"""The picture of what a player believes to be dangerous, from the run file alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import resetfree as rf
from resetfree.core.errors import InvalidInput
from resetfree.players.elimination.rule_elimination import RuleElimination
from resetfree.problems.factors import Factor, Factors
from resetfree.runs.recall import danger_of
from resetfree.show.report.html import maps
from resetfree.show.report.html.groups import Group


def test_beliefs_are_drawn_from_the_run_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "rules.rfrun"
    asked: dict[str, Any] = {"episodes": 40, "seed": 1, "feedback": "realised", "settings": {"dual": {"C": 0.0}}}
    first = rf.learn("grid-v0", RuleElimination(moves="relative"), "constant-penalty", path=file, **asked)
    run = rf.load(file)
    assert [one.what for one in run.decisions] == [one.what for one in first.decisions] != []
    here, there = danger_of(first), danger_of(run)
    assert here is not None
    assert there is not None
    assert np.array_equal(here.belief, there.belief)
    assert there.factors.parts == here.factors.parts
    (drawing,) = maps.danger_figures(Group("g1", "rules", (run,)))
    assert drawing.name == "g1-danger"
    assert drawing.caption.startswith("Learned: " + "; ".join(one.what for one in run.decisions))
    assert "above 0.4 is held back" in drawing.caption
    assert len(drawing.data["belief"]) == 5 * 12
    places = maps.by_place(there, 0, 1)
    assert places.shape == (5, 3, 4)
    np.testing.assert_array_equal(drawing.data["belief"], places.ravel())
    fatal = there.belief[np.flatnonzero((there.factors.values == [1, 1]).all(axis=1))]
    assert (fatal == places[:, 1, 1]).all()


def test_players_without_beliefs_have_no_picture() -> None:
    run = rf.learn("grid-v0", "support-elimination", "constant-penalty", episodes=3, settings={"dual": {"C": 0.0}})
    assert maps.danger_figures(Group("g1", "pairs", (run,))) == []


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"parts": [[1]], "actions": []}', '{"parts": [], "actions": 3}'])
def test_factors_of_a_damaged_checkpoint_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="names and values"):
        Factors.from_text(text, np.zeros((2, 1), dtype=np.int64), 2)
    good = Factors((Factor("row"),), np.zeros((2, 1), dtype=np.int64))
    with pytest.raises(InvalidInput, match="names and values"):
        Factors.from_text(good.text(), good.values, 3)
