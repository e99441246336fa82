"""One request, one resolution: however a run is requested, its problem is made once and `auto` chooses once."""

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import resetfree as rf
from resetfree.game.capabilities import choose
from resetfree.problems import find_world
from resetfree.runs.request import OPTIONS, Options, RunRequest
from resetfree.show.cli import main
from resetfree.show.cli.run import ARGUMENTS
from resetfree.show.studio.lanes import Gate, LaneRequest, Live
from resetfree.studies.trial import NamedPlayers, Trial, TrialJob

TRIAL = Trial("grid-v0", {}, NamedPlayers(), 3, 0)


def by_learn(folder: Path) -> None:
    """Through Python."""
    rf.learn("grid-v0", episodes=3, path=folder / "a.rfrun")


def by_command(folder: Path) -> None:
    """Through the command line, with settings whose owner is known once `auto` has chosen."""
    words = ["run", "grid-v0", "--episodes", "3", "--set", "horizon=5", "--set", "scale=0.1"]
    assert main([*words, "--json", "--out", str(folder / "a.rfrun"), "--tensorboard", str(folder / "t")]) == 0


def by_sweep(folder: Path) -> None:
    """As a trial of a sweep, with its curves."""
    assert TrialJob(TRIAL, folder, folder / "t").play().status == "done"


def by_studio(folder: Path) -> None:
    """As a lane of the studio."""
    lane = Live(LaneRequest(TRIAL), folder / "a.rfrun", Gate(0.0, paused=False), lambda: None)
    lane.thread.start()
    lane.thread.join()
    assert lane.state == "done", lane.error


@pytest.mark.parametrize("play", [by_learn, by_command, by_sweep, by_studio])
def test_the_problem_is_made_once_and_auto_chooses_once(play: Callable[[Path], None], tmp_path: Path) -> None:
    names = {choose.__code__: "choose", find_world.__code__: "find_world"}
    calls: Counter[str] = Counter()

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in names:
            calls[names[frame.f_code]] += 1

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        play(tmp_path)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert calls == {"choose": 1, "find_world": 1}


def test_every_argument_of_learn_is_named_once_and_shown_by_help() -> None:
    shown = inspect.signature(rf.learn).parameters
    assert [*shown][:3] == ["problem", "primal", "dual"]
    assert {*shown} - {"problem"} == {*OPTIONS} == {*get_type_hints(Options), "primal", "dual"}
    assert ARGUMENTS.keys() <= OPTIONS.keys()
    assert all(shown[name].default == default for name, (_, default) in OPTIONS.items())


def test_an_argument_that_learn_does_not_have_is_refused_with_the_nearest_name() -> None:
    options: Any = {"episode": 5}
    with pytest.raises(
        rf.ResetFreeError, match=r"^There is no argument of learn 'episode'\. Did you mean 'episodes'\?$"
    ):
        rf.learn("grid-v0", **options)


def test_a_group_of_a_request_is_changed_and_checked_again() -> None:
    request = RunRequest.of("grid-v0", {"episodes": 7, "settings": {"problem": {"horizon": 4}}})
    assert request.what.options == {"horizon": 4}
    assert request.changed("how_long", steps=3).how_long.steps == 3
    with pytest.raises(rf.InvalidInput, match="'steps' of a run"):
        request.changed("how_long", steps=0)
