"""The folder: names and nothing else, hostile and damaged files, copies of files that are being written, reports."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.bank import edit
from tests.waiting import until

import resetfree as rf
from resetfree.show.studio import limits
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.following import Distant, Following
from resetfree.show.studio.sessions import Sessions


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    (tmp_path / "secret.rfrun").write_text("outside")
    rf.learn("grid-v0", episodes=60, path=tmp_path / "runs" / "mine.rfrun")
    return RunFolder(tmp_path / "runs")


NOT_NAMES: list[Any] = ["../secret", "..", ".", "", "/etc/passwd", "a/b", "a\\b", "mine\x00", "mine\n"]
NOT_NAMES += ["%2e%2e%2fsecret", ".hidden", "~", "a..b", "x" * 121, None, 5, ["mine"], "ünï"]


@pytest.mark.parametrize("name", NOT_NAMES)
def test_a_name_is_never_a_path(folder: RunFolder, name: Any) -> None:
    with pytest.raises(rf.InvalidInput, match="name of a run"):
        folder.file(name)


def test_links_folders_pipes_and_huge_files_are_not_run_files(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.path / "link.rfrun").symlink_to(folder.path.parent / "secret.rfrun")
    (folder.path / "folder.rfrun").mkdir()
    os.mkfifo(folder.path / "pipe.rfrun")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(rf.RunError, match="plain file"):
            folder.file(name)
    assert [row["name"] for row in folder.listing()] == ["mine"]
    monkeypatch.setattr(limits, "FILE", 1000)
    with pytest.raises(rf.RunError, match="larger than"):
        folder.file("mine")


HOSTILE: dict[str, Callable[[Path], object]] = {
    "text": lambda path: path.write_text("not a database"),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "other tables": lambda path: edit(path, "CREATE VIEW evil AS SELECT 1"),
    "no spec": lambda path: edit(path, "DELETE FROM spec"),
    "spec is no JSON": lambda path: edit(path, "UPDATE spec SET json = '{'"),
    "spec is a list": lambda path: edit(path, "UPDATE spec SET json = '[]'"),
    "deep": lambda path: edit(path, "UPDATE spec SET json = ?", values=("[" * 100_000,)),
    "a start that is none": lambda path: edit(path, "UPDATE rounds SET s1 = 99 WHERE k = 3"),
    "a start that is text": lambda path: edit(path, "UPDATE rounds SET s1 = 'x' WHERE k = 3"),
    "a gap": lambda path: edit(path, "DELETE FROM rounds WHERE k = 5"),
    "a reset of seven": lambda path: edit(path, "UPDATE rounds SET reset = 7 WHERE k = 5"),
    "a checkpoint of nothing": lambda path: edit(path, "UPDATE checkpoints SET arrays = x'00'"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_damaged_file_is_one_sentence_and_the_list_stays(folder: RunFolder, kind: str) -> None:
    path = folder.path / "bad.rfrun"
    path.write_bytes((folder.path / "mine.rfrun").read_bytes())
    HOSTILE[kind](path)
    assert {row["name"] for row in folder.listing()} == {"mine", "bad"}
    try:
        state = Following("bad", folder).frame(True)["lanes"][0]
        assert state["state"] == "failed"
        sentence = state["error"]
    except rf.RunError as error:
        sentence = str(error)
    assert sentence
    assert str(folder.path) not in sentence
    assert Following("mine", folder).frame(True)["lanes"][0]["k"] == 60


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("pits-v0", {"n": 100_000}),
        ("os:system", {}),
        ("drawn-v0", {"rows": "S" * 5000}),
        ("grid-v0", {"slip": [1]}),
        ("grid-v0", {"nope": 1}),
        ("random-linear-v0", {"n_states": 10**9}),
    ],
)
def test_a_file_that_names_something_huge_or_code_makes_nothing(
    folder: RunFolder, problem: str, options: dict[str, Any]
) -> None:
    path = folder.path / "bad.rfrun"
    path.write_bytes((folder.path / "mine.rfrun").read_bytes())
    change = json.dumps({"problem": problem, "problem_options": options})
    edit(path, "UPDATE spec SET json = json_patch(json_remove(json, '$.problem_options'), ?)", values=(change,))
    view = Following("bad", folder)
    assert view.scene()["lanes"][0]["map"] is None
    assert view.frame(True)["lanes"][0]["k"] == 60  # its rounds are data all the same
    if problem != "os:system":
        with pytest.raises(rf.RunError, match="beyond the studio"):
            folder.report("bad", folder.path.parent)
    with pytest.raises(rf.ResetFreeError):
        Sessions(folder).resume("bad", 0.0, False)


def _fresh(place: Path) -> Path:
    place.mkdir()
    return place


def test_a_copy_is_whole_while_the_file_is_being_written(folder: RunFolder, tmp_path: Path) -> None:
    copies = []

    def look(game: Any, this: Any) -> None:
        if this.k in (40, 400):
            copies.append(folder.copy("going", _fresh(tmp_path / str(this.k))).read_bytes())

    rf.learn("grid-v0", episodes=500, path=folder.path / "going.rfrun", progress=look, checkpoint_every=1e-6)
    for k, copy in zip((40, 400), copies, strict=True):
        file = tmp_path / f"{k}.rfrun"
        file.write_bytes(copy)
        run = rf.load(file)
        assert 0 < len(run) < k
        assert len(rf.learn("grid-v0", episodes=500, path=file, resume=True)) == 500  # and it can go on


def test_two_lanes_are_one_entry_and_one_report(folder: RunFolder) -> None:
    session = Sessions(folder).start(
        {"problem": "grid-v0", "lanes": [{"primal": "uniform"}, {"primal": "constant-safe"}], "episodes": 30}
    )
    until(lambda: not session.active)
    assert {row["name"]: len(row["lanes"]) for row in folder.listing()} == {session.name: 2, "mine": 1}
    page = folder.report(session.name, folder.path.parent).read_text()
    assert page.startswith("<!doctype html>")
    assert "uniform" in page
    assert "constant-safe" in page


@pytest.mark.parametrize(
    "said",
    [
        {"url": "http://example.org:80", "token": "x"},
        {"url": "http://127.0.0.1:1@example.org", "token": "x"},
        {"url": "http://127.0.0.1:99999", "token": "x"},
        {"url": "file:///etc/passwd", "token": "x"},
        {"url": "http://127.0.0.1:80/", "token": "x"},
        {"url": 5, "token": "x"},
        [],
        {"url": "http://127.0.0.1:1"},
        {"url": "http://127.0.0.1:9", "token": "a\r\nb"},
    ],
)
def test_an_address_file_can_only_name_loopback(folder: RunFolder, said: Any) -> None:
    (folder.path / "mine.rfrun.operator.json").write_text(json.dumps(said))
    distant = Distant(folder.path / "mine.rfrun")
    assert distant.show() is None
    with pytest.raises(rf.RunError):
        distant.reply({"id": "x"})


def test_a_request_of_a_run_that_is_followed_is_shown_and_answered(folder: RunFolder) -> None:
    path = folder.path / "hand.rfrun"
    operator = rf.OperatorReset(by="http", address=path.with_name("hand.rfrun.operator.json"))
    done: list[rf.Run] = []

    def play() -> None:
        with operator:
            done.append(rf.learn("drawn-by-hand-v0", "uniform", episodes=6, seed=2, path=path, operator=operator))

    thread = threading.Thread(target=play)
    thread.start()
    until(path.exists)
    until(lambda: (folder.path / "hand.rfrun.operator.json").exists())
    view, answered = Following("hand", folder), []
    while thread.is_alive():
        view._seen = 0.0
        view.poll()
        frame = view.frame(False)["lanes"][0]
        request = frame["request"]
        if request is not None and request["id"] not in answered:
            assert frame["state"] == "waiting"
            assert "needs a reset" in request["sentence"]
            answered.append(request["id"])
            view.answer(0, {"id": request["id"], "who": "page"})
        thread.join(0.02)
    assert [one.who for one in done[0].interventions] == ["page"] * len(answered)
    assert len(answered) >= 1
