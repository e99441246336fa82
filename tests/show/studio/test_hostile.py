"""Hostile requests against a real server: refused or bounded, it stays up, and the game that is on goes on."""

import json
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.show.studio.serving import GRID, Served, end, served
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.show.cli import main
from resetfree.show.studio import limits


@pytest.fixture(scope="module")
def game(studio: Served) -> str:
    """A game that must go on whatever is done to the server."""
    return studio.start(episodes=limits.EPISODES, pace=200.0)


@pytest.fixture(autouse=True)
def goes_on(studio: Served, game: str) -> Iterator[None]:
    before = studio.frame(game)["lanes"][0]["k"]
    yield
    assert studio.alive()
    frame = studio.frame(game, lambda frame: frame["lanes"][0]["k"] > before)
    assert frame["lanes"][0]["state"] == "running"


FOREIGN = [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "https://127.0.0.1:{port}"}]
FOREIGN += [{"Origin": "http://127.0.0.1:1"}, {"Host": "evil.example"}, {"Host": "evil.example:{port}"}, {"Host": ""}]
FOREIGN += [{"Host": "127.0.0.1.evil.example:{port}"}, {"Host": "[::1"}, {"Sec-Fetch-Site": "cross-site"}]
FOREIGN += [{"Sec-Fetch-Site": "same-site"}, {"Host": "192.168.1.1:{port}"}]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path", "data"),
    [("GET", "/", None), ("GET", "/api/runs", None), ("GET", "/api/watch?name=x", None), ("POST", "/api/check", GRID)],
)
def test_other_origins_and_names_are_refused(
    studio: Served, headers: dict[str, str], method: str, path: str, data: Any
) -> None:
    sent = {key: value.format(port=studio.port) for key, value in headers.items()}
    assert re.search("host must be|another origin", studio.refusal(method, path, data, sent))


def test_our_own_page_may_ask(studio: Served) -> None:
    for host in (f"127.0.0.1:{studio.port}", f"localhost:{studio.port}"):
        own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert studio.ask("POST", "/api/check", GRID, own)[0] == 200


OUTSIDE = ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/../../etc/passwd"]
OUTSIDE += ["/static//etc/passwd", "/api/file?name=../../etc/passwd", "/api/file?name=%2e%2e%2fsecret"]
OUTSIDE += ["/api/report?name=../x", "/api/file", "/api/watch?name=/etc/passwd", "/api/certificates?name=.."]
OUTSIDE += ["/api/film?name=../x", "/api/episode?name=../x&k=1", "/api/pictures?name=..", "/report/..%2f..%2fx"]
OUTSIDE += ["/api/file?name=x%00", "/api/nothing", "/.git/config", "/api/file?name=x%22%0d%0aEvil:1"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_folder(studio: Served, path: str) -> None:
    sentence = studio.refusal("GET", path)
    assert "root:" not in sentence


MALFORMED = [b"", b"{", b"null", b"[]", b"5", b'"x"', b"\xff\xfe", b"[" * 50_000, b'{"grid": {"rows": [{}]}}']
MALFORMED += [b'{"name": 5}', b'{"name": "x", "action": "format"}', b'{"a": NaN}', b'{"rows": "S", "slip": 1e999}']


@pytest.mark.parametrize("path", ["/api/check", "/api/start", "/api/control", "/api/answer", "/api/report"])
@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_requests_are_one_sentence(studio: Served, path: str, body: bytes) -> None:
    assert len(studio.refusal("POST", path, body)) < 400


def test_a_form_of_another_page_is_no_request(studio: Served) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert "application/json" in studio.refusal(
            "POST", "/api/check", json.dumps(GRID).encode(), {"Content-Type": kind}
        )
    assert studio.ask("DELETE", "/api/runs")[0] == 405
    assert studio.ask("GET", "/api/start")[0] == 404


def _raw(studio: Served, head: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", studio.port), timeout=LONG)
    connection.sendall(head.replace("\n", "\r\n").encode())
    return connection


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_of_100_mb_is_cut_early(studio: Served, announced: bool) -> None:
    how = "Content-Length: 100000000" if announced else "Transfer-Encoding: chunked"
    connection = _raw(
        studio, f"POST /api/check HTTP/1.1\nHost: 127.0.0.1:{studio.port}\nContent-Type: application/json\n{how}\n\n"
    )
    part, sent = b" " * 65_536, 0
    chunk = part if announced else b"10000\r\n" + part + b"\r\n"
    try:
        while sent < 100_000_000:
            connection.sendall(chunk)
            sent += len(part)
    except OSError:
        pass
    connection.close()
    assert sent < 20_000_000  # what buffers of the system hold, not what was sent


def test_an_announced_size_is_refused_before_the_body(studio: Served) -> None:
    connection = _raw(
        studio,
        f"POST /api/check HTTP/1.1\nHost: 127.0.0.1:{studio.port}\nContent-Type: application/json\n"
        "Content-Length: 100000000\n\n",
    )
    assert connection.recv(4096).startswith(b"HTTP/1.1 413")
    connection.close()


@pytest.mark.parametrize(
    "head",
    [
        "GARBAGE\n\n",
        "GET / HTTP/9.9\n\n",
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\nHost: a\nHost: b\n\n",
        "GET /" + "a" * 100_000 + " HTTP/1.1\n\n",
        "POST /api/check HTTP/1.1\nHost: 127.0.0.1\nContent-Length: -1\n\n",
        "POST /api/check HTTP/1.1\nHost: 127.0.0.1\nContent-Type: application/json\nContent-Length: 9999999999999\n\n",
    ],
)
def test_what_is_no_request_is_refused(studio: Served, head: str) -> None:
    connection = _raw(studio, head)
    said = connection.recv(4096)
    connection.close()
    assert re.match(rb"HTTP/1.1 4\d\d", said)


def test_two_thousand_connections_are_bounded(studio: Served, game: str) -> None:
    """Silent, slow and half-sent requests, all held open: others are not kept out for long, and the game continues."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2_000
    if soft < wanted + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 200), hard))
    before = studio.frame(game)["lanes"][0]["k"]
    words = [
        b"",
        b"GET / HT",
        b"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ]
    held: list[socket.socket] = []
    try:
        for i in range(wanted):
            connection = socket.socket()
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", studio.port))
            held.append(connection)
            if i % 50 == 49:
                time.sleep(0.01)
        for i, connection in enumerate(held):
            with suppress(OSError):  # it was refused, which is the point
                connection.send(words[i % 3])
        status = Path(f"/proc/{studio.process.pid}/fd")
        if status.exists():
            assert len(list(status.iterdir())) < limits.CONNECTIONS + 200
        until(lambda: _answers(studio))  # idle connections make room within the time they have
        assert studio.frame(game)["lanes"][0]["k"] > before
    finally:
        for connection in held:
            connection.close()
    until(lambda: _answers(studio))


def _answers(studio: Served) -> bool:
    try:
        return studio.ask("GET", "/api/runs")[0] == 200
    except OSError:
        return False


def test_watchers_are_bounded_and_a_slow_one_holds_nobody_up(studio: Served, game: str) -> None:
    held = []
    try:
        for _ in range(limits.WATCHING + 8):
            connection = _raw(studio, f"GET /api/watch?name={game} HTTP/1.1\nHost: 127.0.0.1:{studio.port}\n\n")
            held.append(connection)  # and never read to the end
        said = [connection.recv(12) for connection in held]
        assert said.count(b"HTTP/1.1 200") == limits.WATCHING
        assert said.count(b"HTTP/1.1 503") == 8
        assert studio.json("GET", "/api/runs")["runs"]
    finally:
        for connection in held:
            connection.close()
    until(lambda: studio.ask("GET", "/api/catalogue")[0] == 200)
    until(lambda: _watches(studio, game))


def _watches(studio: Served, game: str) -> bool:
    try:
        return bool(studio.frame(game))
    except AssertionError:
        return False


def test_every_answer_carries_the_headers(studio: Served) -> None:
    for path in ("/", "/static/main.js", "/api/runs", "/nothing", "/api/file?name=.."):
        _, _, headers = studio.ask("GET", path)
        found = {name.lower(): value for name, value in headers.items()}
        assert "default-src 'none'" in found["content-security-policy"]
        assert "frame-ancestors 'none'" in found["content-security-policy"]
        assert "unsafe" not in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in found
        assert "access-control-allow-origin" not in found


def test_the_page_asks_nobody_else(studio: Served) -> None:
    for name in ("", *(f"static/{x}" for x in ("studio.css", "main.js", "api.js", "draw.js", "stage.js", "setup.js"))):
        text = studio.ask("GET", f"/{name}")[1].decode()
        assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}


def test_a_malformed_run_file_is_a_sentence_for_whoever_opens_it(studio: Served) -> None:
    (studio.folder / "bad.rfrun").write_bytes(b"SQLite format 3\x00" + b"\xff" * 500)
    for path in ("/api/watch", "/api/certificates", "/api/file", "/api/report", "/api/film"):
        assert "run file" in studio.refusal("GET", f"{path}?name=bad")
    rows = {row["name"]: row for row in studio.json("GET", "/api/runs")["runs"]}
    assert "error" in rows["bad"]["lanes"][0]


def test_beyond_loopback_a_token_is_made_up_and_needed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "resetfree.show.cli", "studio", "--no-browser", "--host", "0.0.0.0", "--port", "0"]
    process = subprocess.Popen([*command, "--folder", str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        found = re.search(r"http://0\.0\.0\.0:(\d+)/#token=([\w-]{20,}) ", process.stdout.readline())
        assert found is not None
        locked, token = Served(process, int(found[1]), tmp_path, found[2]), found[2]
        assert locked.ask("GET", "/api/runs")[0] == 200
        assert locked.ask("GET", "/api/runs", headers={"Origin": "http://evil.example"})[0] == 403
        assert locked.ask("GET", "/api/runs", headers={"Host": "my-machine:80"})[0] == 200
        for wrong in ("", token[:-1], f"{token}x", token.swapcase(), "\xff"):
            assert locked.ask("GET", "/api/runs", headers={"X-Resetfree-Token": wrong})[0] == 401
            assert locked.ask("POST", "/api/check", GRID, {"X-Resetfree-Token": wrong})[0] == 401
        assert locked.ask("GET", "/", headers={"X-Resetfree-Token": ""})[0] == 200  # the page is no secret
        assert locked.ask("GET", f"/api/runs?token={token}", headers={"X-Resetfree-Token": ""})[0] == 401
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def test_the_command_refuses_in_one_sentence(
    studio: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for words, why in (
        (("--port", str(studio.port)), "is taken"),
        (("--token", "short", "--port", "0"), "8 printable characters"),
        (("--folder", str(file / "x"), "--port", "0"), "cannot be created"),
        (("--host", "256.1.1.1", "--port", "0"), "cannot be served"),
        (("--port", "70000"), "70000"),
    ):
        assert main(["studio", "--no-browser", "--folder", str(tmp_path), *words]) == 2
        said = capsys.readouterr().err.strip()
        assert why in said
        assert "\n" not in said


def test_ending_the_server_saves_every_run_and_another_goes_on_with_it(tmp_path: Path) -> None:
    with served(tmp_path) as first:
        name = first.start(episodes=5000, seed=7, pace=100.0)
        asked = first.start(episodes=50, by_hand=True)
        first.frame(name, lambda frame: frame["lanes"][0]["k"] >= 30)
        assert "every run is saved" in end(first, signal.SIGINT)
        assert first.process.returncode == 0
    k = len(rf.load(tmp_path / f"{name}.rfrun"))
    assert k >= 30
    assert not list(tmp_path.glob("*.lock"))
    with served(tmp_path) as second:
        frame = second.frame(name)
        assert (frame["live"], frame["lanes"][0]["k"], frame["lanes"][0]["state"]) == (False, k, "interrupted")
        second.control(name, "resume", pace=0)
        second.frame(name, lambda frame: frame["lanes"][0]["state"] == "done")
        assert second.frame(asked)["lanes"][0]["state"] == "interrupted"
        third = second.start(episodes=5000, pace=100.0)
        second.frame(third, lambda frame: frame["lanes"][0]["k"] >= 5)
        assert "every run is saved" in end(second, signal.SIGTERM)
    assert len(rf.load(tmp_path / f"{third}.rfrun")) >= 5
    run = rf.load(tmp_path / f"{name}.rfrun")
    plain = rf.learn("drawn-v0", episodes=5000, seed=7, settings={"problem": dict(run.spec["problem_options"])})
    assert run.columns["s1"].tolist() == plain.columns["s1"].tolist()
    assert run.columns["v_r"].tolist() == plain.columns["v_r"].tolist()


def test_a_killed_server_loses_nothing_that_cannot_be_played_again(tmp_path: Path) -> None:
    with served(tmp_path) as first:
        name = first.start(episodes=300, pace=100.0)
        first.frame(name, lambda frame: frame["lanes"][0]["k"] >= 20)
        first.process.kill()
        first.process.wait()
    with served(tmp_path) as second:
        second.control(name, "resume", pace=0)
        second.frame(name, lambda frame: frame["lanes"][0]["state"] == "done")
    run = rf.load(tmp_path / f"{name}.rfrun")
    plain = rf.learn("drawn-v0", episodes=300, settings={"problem": dict(run.spec["problem_options"])})
    assert run.columns["reward"].tolist() == plain.columns["reward"].tolist()


def test_a_run_that_a_terminal_writes_is_followed(studio: Served) -> None:
    path = studio.folder / "terminal.rfrun"
    command = [sys.executable, "-m", "resetfree.show.cli", "run", "pits-v0", "--episodes", "500000", "--out", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        until(path.exists)
        until(lambda: any(row["name"] == "terminal" for row in studio.json("GET", "/api/runs")["runs"]))
        seen, states = [], set()
        for kind, frame in studio.stream("terminal"):
            if kind != "frame":
                continue
            seen.append(frame["lanes"][0]["k"])
            states.add(frame["lanes"][0]["state"])
            if len(set(seen)) >= 4 or states & {"file"}:
                break
        assert seen == sorted(seen)
        assert "following" in states
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    k = len(rf.load(path))
    assert studio.frame("terminal", lambda frame: frame["lanes"][0]["k"] == k)["lanes"][0]["state"] in (
        "interrupted",
        "file",
    )
