"""Goals, and asking for help: what is counted beside resets, in games of the studio and in runs that it follows."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import resetfree as rf
from resetfree.core.errors import InvalidInput, UnknownName
from resetfree.show.studio.catalogue import catalogue, check_grid, options_of, problem_options
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Following
from resetfree.show.studio.frames import scene_of
from resetfree.show.studio.sessions import Sessions

CELL = {"rows": ["S"], "slip": 0.0, "horizon": 50}  # nothing to win and nowhere to go: stuck after 20 episodes


def game(**more: Any) -> dict[str, Any]:
    return {"grid": CELL, "lanes": [{"primal": "uniform"}], "episodes": 45, **more}


@pytest.mark.filterwarnings("ignore::resetfree.core.errors.Notice")
def test_a_game_by_hand_may_ask_when_it_is_stuck(tmp_path: Path) -> None:
    sessions = Sessions(RunFolder(tmp_path))
    with pytest.raises(InvalidInput, match="Make help an action of it"):
        sessions.start(game(ask="when-stuck"))  # nobody is there to ask
    with pytest.raises(InvalidInput, match="'ask'"):
        sessions.start(game(by_hand=True, ask="often"))
    session = sessions.start(game(by_hand=True, ask="when-stuck"))
    (lane,), whys = session.lanes, []
    while lane.active:
        if (request := lane.request) is not None:
            whys.append(request["why"])
            session.answer(0, {"id": request["id"]})
        time.sleep(0.005)
    assert whys == ["start", "stuck", "stuck"]
    assert lane.frame(False)["now"]["asked"] == 2
    assert lane.scene is not None
    assert lane.scene.to_dict()["spec"]["ask"] == "when-stuck"
    run = rf.load(lane.path)
    assert (len(run.requested_resets), run.realised_resets[-1]) == (2, 0)
    followed = Following(session.name, RunFolder(tmp_path)).frame(False)["lanes"][0]
    assert (followed["now"]["asked"], followed["error"]) == (2, "")
    assert "goals" not in followed["now"]


def test_a_run_that_is_followed_shows_its_goals(tmp_path: Path) -> None:
    file = tmp_path / "lake.rfrun"
    given: dict[str, Any] = {"problem": {"horizon": 20, "is_slippery": False}}
    run = rf.learn("gym:FrozenLake-v1", episodes=40, seed=1, path=file, settings=given)
    shown = Following("lake", RunFolder(tmp_path))
    now = shown.frame(False)["lanes"][0]["now"]
    assert (now["goals"], now["realised"], now["asked"]) == (run.goals[-1], run.realised_resets[-1], 0)
    assert now["goals"] > 0
    assert shown.scene()["lanes"][0]["spec"]["after_goal"] == "restart for free"
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE rounds SET goals = -3 WHERE k = 30")
        note = json.dumps({"k": 3, "why": "reset", "detail": 'he said "why": "stuck"'})
        connection.execute("INSERT INTO interventions (json) VALUES (?)", (note,))
    forged = Following("lake", RunFolder(tmp_path)).frame(False)["lanes"][0]
    assert (forged["state"], forged["k"]) == ("failed", 29)
    assert forged["now"]["asked"] == 0


def test_asking_at_a_price_is_an_option_of_every_problem() -> None:
    assert all(one["options"][-1]["name"] == "help" for one in catalogue()["problems"].values())
    assert problem_options("pits-v0", {"help": 0.5}) == {"help": 0.5}
    with pytest.raises(UnknownName, match="Did you mean 'help'"):
        problem_options("pits-v0", {"hlep": 0.5})
    broken = {"rows": ["SX", "X."], "slip": 0.1}
    assert not check_grid(broken)["holds"]
    assert check_grid({**broken, "help": 0.5})["holds"]  # whoever may ask is never lost
    assert "help" not in options_of(broken)
    with pytest.raises(InvalidInput, match="'help'"):
        options_of({**broken, "help": -1})


def test_a_run_with_help_has_its_map(tmp_path: Path) -> None:
    run = rf.learn("pits-v0", episodes=3, settings={"problem": {"help": 0.5}})
    found = scene_of(run.spec).to_dict()
    assert found["oracle"], found["why"]
    assert found["map"]["actions"][-1] == "ask for help"
