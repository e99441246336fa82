"""Watchers of one game: a frame is made once for all of them, and one that does not read delays no other."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.show.studio.serving import GRID, Here
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.show.studio import limits
from resetfree.show.studio.following import Following
from resetfree.show.studio.server import Studio
from resetfree.show.studio.sessions import FrameChannel, GameSession, Sent

WATCHERS = 16
STEPS = 8


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """The version and kind of every frame that is made of a game."""
    found: list[tuple[int, bool]] = []

    def counted(usual: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def frame(self: Any, curves: bool) -> dict[str, Any]:
            result = usual(self, curves)
            found.append((result["version"], curves))
            return result

        return frame

    monkeypatch.setattr(GameSession, "frame", counted(GameSession.frame))
    monkeypatch.setattr(Following, "frame", counted(Following.frame))
    return found


def test_a_frame_is_made_once_however_many_watch(here: Here, made: list[tuple[int, bool]]) -> None:
    session = here.studio.sessions.start({"grid": GRID, "lanes": [{}], "episodes": 1000, "paused": True})
    watchers = [here.watch(session.name) for _ in range(WATCHERS)]
    for k in range(1, STEPS + 1):
        for one in watchers:
            one.until(lambda frame, k=k: frame["lanes"][0]["k"] == k)  # type: ignore[misc]
        session.gate.step()
    last = [one.until(lambda frame: frame["lanes"][0]["k"] == STEPS + 1) for one in watchers]
    assert all(frame["lanes"] == last[0]["lanes"] for frame in last if ("curves" in frame) == ("curves" in last[0]))
    assert len(made) == len(set(made))  # none twice
    assert all(len(one.frames) <= len(made) for one in watchers)
    assert len({line for one in watchers for line in one.frames}) <= len(made)  # they got the very same ones
    for one in watchers:
        one.close()
    until(lambda: here.studio.watching == 0)
    before = len(made)
    session.gate.step()
    until(lambda: session.lanes[0].k == STEPS + 2)
    assert len(made) == before  # no watcher: nothing is made


def test_a_file_that_many_look_at_is_drawn_once(here: Here, made: list[tuple[int, bool]], tmp_path: Path) -> None:
    rf.learn("grid-v0", "uniform", episodes=60, path=tmp_path / "mine.rfrun")
    first = here.watch("mine")
    first.until(lambda frame: "curves" in frame["lanes"][0])
    watchers = [here.watch("mine") for _ in range(WATCHERS)]
    for one in watchers:  # they come later, and need no frame of their own
        assert one.until(lambda frame: "curves" in frame["lanes"][0])["lanes"][0]["k"] == 60
        assert one.frames == first.frames
    assert len(made) == 1
    for one in (first, *watchers):
        one.close()


def test_who_does_not_read_holds_nobody_up_and_goes_on_with_the_newest(
    here: Here, made: list[tuple[int, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FRAMES", 60.0)
    grid = {"rows": ["S" + "." * 28 + "G", *["." * 30] * 28, "X" + "." * 29], "slip": 0.1, "horizon": 40}
    session = here.studio.sessions.start(
        {"grid": grid, "lanes": [{"primal": "uniform"}], "episodes": limits.EPISODES, "bound": 1.0}
    )
    slow, quick = here.watch(session.name, buffer=4096), here.watch(session.name)
    while len(quick.frames) < 100 or sum(map(len, quick.frames)) < 2_000_000:  # far more than what buffers take
        quick.until(lambda frame: True)
    shown = json.loads(quick.frames[-1][6:])["version"]
    slow.until(lambda frame: frame["version"] >= shown)
    assert len(slow.frames) < len(quick.frames)
    versions = [json.loads(line[6:])["version"] for line in slow.frames]
    assert versions == sorted(versions)
    session.gate.set(paused=True)
    session.version += 1
    for one in (slow, quick):
        one.until(lambda frame: frame["paused"])
        one.close()
    assert len(made) == len(set(made))


def test_what_waits_for_a_watcher_is_one_frame_of_each_kind(tmp_path: Path) -> None:
    """The last frame and the last one with curves, in their order, however many there were."""
    rf.learn("grid-v0", "uniform", episodes=5, path=tmp_path / "mine.rfrun")
    here = Studio(tmp_path)

    async def look() -> None:
        channel = FrameChannel(Following("mine", here.folder), lambda: False)
        assert channel.since(0) == []
        for i in range(1, 1001):
            channel._publish(b"%d" % i, "newest", *(["curves"] if i % 7 == 0 else []))
        assert channel.since(0) == [Sent(994, b"994"), Sent(1000, b"1000")]
        assert channel.since(994) == [Sent(1000, b"1000")]
        assert channel.since(1000) == []
        channel._publish(b"1001", "newest", "curves")
        assert channel.since(0) == [Sent(1001, b"1001")]

    with ThreadPoolExecutor(1) as thread:  # a browser that another test drives may have a loop in this one
        thread.submit(lambda: asyncio.run(look())).result()


def test_who_asks_for_certificates_meanwhile_gets_the_same(here: Here, tmp_path: Path, monkeypatch: Any) -> None:
    """Pages that watch one game ask for its certificates together; they are computed once."""
    rf.learn("grid-v0", "uniform", episodes=60, path=tmp_path / "mine.rfrun")
    computed, go = [], threading.Event()
    usual = rf.Run.certificates

    def certificates(self: rf.Run) -> Any:
        computed.append(self)
        assert go.wait(60)
        return usual(self)

    monkeypatch.setattr(rf.Run, "certificates", certificates)
    port = here._listening.getsockname()[1]
    asked = []
    for _ in range(60):  # more than there are threads for requests
        connection = socket.create_connection(("127.0.0.1", port), timeout=LONG)
        connection.sendall(b"GET /api/certificates?name=mine HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        asked.append(connection)
    until(lambda: len(computed) == 1)
    with socket.create_connection(("127.0.0.1", port), timeout=LONG) as connection:  # and others are answered
        connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    go.set()
    said = {b"".join(iter(lambda: one.recv(65_536), b"")).partition(b"\r\n\r\n")[2] for one in asked}  # noqa: B023
    assert len(computed) == 1
    assert {json.loads(body)["lanes"][0]["k"] for body in said} == {60}
    for one in asked:
        one.close()
