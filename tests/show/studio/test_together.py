"""Several who press Start at the same moment, at one studio or at two in one folder: each gets a game of its own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.show.studio.serving import Served, served
from tests.waiting import until

import resetfree as rf
from resetfree.show.studio import limits
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.sessions import GameSession, Sessions

ROUNDS = 6


def at_once(actions: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each of them returns or raises, all begun at the same moment."""
    ready = threading.Barrier(len(actions))

    def act(action: Callable[[], Any]) -> Any:
        ready.wait(30)
        try:
            return action()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(act, actions))


def each_is_a_game(games: list[tuple[Served, str]], folder: Path) -> None:
    """Every game plays on in a file of its own, and can be stopped, which saves it."""
    names = [name for _, name in games]
    assert len(set(names)) == len(names)
    for studio, name in games:
        k = studio.frame(name)["lanes"][0]["k"]
        assert studio.frame(name, lambda frame, k=k: frame["lanes"][0]["k"] > k)["live"] is True  # type: ignore[misc]
    for studio, name in games:
        studio.control(name, "stop")
        frame = studio.frame(name)["lanes"][0]
        assert (frame["state"], frame["error"]) == ("stopped", "")
        assert len(rf.load(folder / f"{name}.rfrun")) == frame["k"]


def test_many_who_start_together_get_games_of_their_own(tmp_path: Path) -> None:
    with served(tmp_path) as studio:
        for _ in range(ROUNDS):
            begin = [lambda: studio.start(episodes=limits.EPISODES, pace=100.0)] * limits.RUNNING
            names = at_once(begin)
            each_is_a_game([(studio, name) for name in names], tmp_path)
    assert len(list(tmp_path.iterdir())) == ROUNDS * limits.RUNNING  # and nothing else is left there


def test_two_studios_in_one_folder_share_its_names(tmp_path: Path) -> None:
    with served(tmp_path) as one, served(tmp_path) as other:
        for _ in range(ROUNDS):
            places = [one, other] * 2
            names = at_once([lambda at=at: at.start(episodes=limits.EPISODES, pace=100.0) for at in places])  # type: ignore[misc]
            each_is_a_game(list(zip(places, names, strict=True)), tmp_path)
    assert len(list(tmp_path.iterdir())) == ROUNDS * len(places)


def test_one_run_goes_on_once_however_many_resume_it(tmp_path: Path) -> None:
    with served(tmp_path) as studio:
        name = studio.start(episodes=limits.EPISODES, pace=100.0)
        asked = {"name": name, "action": "resume", "pace": 100.0}
        for _ in range(ROUNDS):
            studio.control(name, "stop")
            found = at_once([lambda: studio.ask("POST", "/api/control", asked)[0]] * 4)
            assert sorted(found) == [200, 400, 400, 400]
            each_is_a_game([(studio, name)], tmp_path)


def test_a_name_is_held_only_until_its_files_are_there(tmp_path: Path) -> None:
    folder, other = RunFolder(tmp_path), RunFolder(tmp_path)
    with folder.reserved("game") as name, other.reserved("game") as next_name:
        assert (name, next_name) == ("game-1", "game-2")
        folder.free("game-2-left").write_text("")
    with other.reserved("game") as name:
        assert name == "game-1"  # no file came, so it is free again
    folder.free("game-1").symlink_to("nowhere")
    with folder.reserved("game") as name:
        assert name == "game-3"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["game-1.rfrun", "game-2-left.rfrun"]


def test_cleaning_up_leaves_what_somebody_else_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that takes the name of one of two lanes in the last moment keeps its file; ours are removed."""
    sessions, theirs = Sessions(RunFolder(tmp_path)), list[Path]()
    usual = GameSession.begin

    def begin(self: GameSession) -> None:
        theirs.append(self.lanes[0].path)
        rf.learn("grid-v0", "uniform", episodes=20, path=theirs[0])
        usual(self)

    monkeypatch.setattr(GameSession, "begin", begin)
    with pytest.raises(rf.InvalidInput, match="exists"):
        sessions.start({"problem": "grid-v0", "lanes": [{"primal": "uniform"}, {"primal": "constant-safe"}]})
    assert list(tmp_path.iterdir()) == theirs
    assert len(rf.load(theirs[0])) == 20
    assert sessions.active() == {}


@contextmanager
def stopped(sessions: Sessions) -> Iterator[Sessions]:
    try:
        yield sessions
    finally:
        sessions.stop_all()


def test_nothing_begins_when_the_studio_ends(tmp_path: Path) -> None:
    with stopped(Sessions(RunFolder(tmp_path))) as sessions:
        asked = {"problem": "grid-v0", "lanes": [{"primal": "uniform"}], "episodes": 1000, "paused": True}
        session = sessions.start(asked)
        assert sessions.end() == [session]
        with pytest.raises(rf.RunError, match="is shutting down"):
            sessions.start(asked)
        until(lambda: not session.active)
    assert [path.name for path in tmp_path.iterdir()] == [session.lanes[0].path.name]
