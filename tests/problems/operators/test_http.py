"""The endpoint on loopback: answers who knows the token, and nothing that anybody sends disturbs it."""

import http.client
import json
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import LONG, appear, until

import resetfree as rf
from resetfree.core import OperatorTimeout, web
from resetfree.core.web import TOKEN
from resetfree.problems.operators import Answer, Request

FELL = Request("cart", "reset", "the pole fell")


class Asked:
    """A run that waits, and what it published about itself."""

    def __init__(self, folder: Path, deadline: float | None = LONG) -> None:
        self.file = folder / "a.rfrun.operator.json"
        self.operator = rf.OperatorReset("http", deadline, address=self.file)
        self._pool = ThreadPoolExecutor(1)
        self.answer = self.ask()
        told = json.loads(appear(self.file).read_text())
        self.token, self.url = told["token"], told["url"]
        self.port = int(self.url.rpartition(":")[2])
        until(self.get)

    def ask(self) -> Future[Answer]:
        return self._pool.submit(self.operator.perform, FELL)

    def speak(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request(method, path, body, {TOKEN: self.token, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            assert response.headers["Content-Type"] == "application/json"
            assert "Access-Control-Allow-Origin" not in response.headers
            return response.status, json.loads(text)
        finally:
            connection.close()

    def get(self) -> Any:
        status, data = self.speak("GET", "/request")
        assert status == 200
        return data

    def post(self, **reply: Any) -> int:
        return self.speak("POST", "/answer", json.dumps(reply).encode())[0]

    def close(self) -> None:
        while not self.answer.done():
            self.post(id=(self.get() or {}).get("id"))
        self.operator.close()
        self._pool.shutdown()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    found = Asked(tmp_path)
    yield found
    found.close()


def test_a_request_is_shown_and_answered_once(asked: Asked) -> None:
    shown = asked.get()
    assert {**shown, "id": "", "asked": "", "seconds": 0} == {
        "id": "", "problem": "cart", "why": "reset", "detail": "the pole fell", "asked": "", "seconds": 0,
    }  # fmt: skip
    assert 0 < shown["seconds"] <= LONG
    assert asked.post(id="another") == 409
    assert asked.post() == 409
    assert asked.post(id=shown["id"], note=3) == 400
    assert asked.post(id=shown["id"], node="a slip") == 400
    assert not asked.answer.done()
    assert asked.post(id=shown["id"], who="Kim", note="bent\x1b") == 200
    assert asked.answer.result(LONG) == Answer("Kim", "bent")
    assert asked.get() is None
    assert asked.post(id=shown["id"]) == 409
    asked.answer = asked.ask()
    again = until(asked.get)
    assert again["id"] != shown["id"]
    assert asked.post(id=shown["id"]) == 409
    assert asked.post(id=again["id"], stop=True) == 200
    with pytest.raises(KeyboardInterrupt):
        asked.answer.result(LONG)


def test_of_many_answers_one_counts(asked: Asked) -> None:
    name = asked.get()["id"]
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda i: asked.post(id=name, note=str(i)), range(8)))
    assert sorted(statuses) == [200] + [409] * 7
    assert asked.answer.result(LONG).note == str(statuses.index(200))


def test_only_the_owner_can_read_the_token(asked: Asked) -> None:
    assert stat.S_IMODE(asked.file.stat().st_mode) == 0o600
    assert len(asked.token) >= 40
    assert asked.url == f"http://127.0.0.1:{asked.port}"
    asked.close()
    assert not asked.file.exists()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", asked.port), timeout=5)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs the table of Linux")
def test_it_listens_on_loopback_only(asked: Asked) -> None:
    table = Path("/proc/net/tcp").read_text().splitlines()[1:]
    bound = [
        line.split()[1] for line in table if line.split()[3] == "0A" and line.split()[1].endswith(f":{asked.port:04X}")
    ]
    assert bound == [f"0100007F:{asked.port:04X}"]  # 127.0.0.1, and no other address


REFUSED: list[tuple[str, str, dict[str, str], int]] = [
    ("GET", "/request", {TOKEN: ""}, 401),
    ("GET", "/request", {TOKEN: "x" * 43}, 401),
    ("GET", "/request", {TOKEN: "\xff"}, 401),
    ("GET", "/request", {"Host": "evil.example"}, 403),
    ("GET", "/request", {"Host": "127.0.0.1.evil.example"}, 403),
    ("GET", "/request", {"Host": "[::"}, 403),
    ("GET", "/request", {"Host": ""}, 403),
    ("GET", "/request", {"Origin": "http://evil.example"}, 403),
    ("GET", "/request", {"Origin": "null"}, 403),
    ("GET", "/request", {"Origin": "http://127.0.0.1:1"}, 403),
    ("POST", "/answer", {"Origin": "https://evil.example"}, 403),
    ("POST", "/answer", {TOKEN: ""}, 401),
    ("POST", "/answer", {"Content-Length": "70000"}, 413),
    ("POST", "/answer", {"Content-Length": "9" * 5000}, 413),
    ("POST", "/answer", {"Content-Length": "-1"}, 411),
    ("POST", "/answer", {"Content-Length": "\xb2"}, 411),
    ("POST", "/answer", {"Transfer-Encoding": "chunked"}, 411),
    ("GET", "/", {}, 404),
    ("GET", "/answer", {}, 404),
    ("GET", "/request?x=1", {}, 404),
    ("POST", "/request", {}, 404),
    ("OPTIONS", "/answer", {"Origin": "http://evil.example"}, 501),
    ("PUT", "/answer", {}, 501),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "headers", "status"), REFUSED)
def test_who_may_not_is_refused(asked: Asked, method: str, path: str, headers: dict[str, str], status: int) -> None:
    body = json.dumps({"id": asked.get()["id"]}).encode() if method == "POST" else None
    found, data = asked.speak(method, path, body, headers)
    assert found == status
    assert list(data) == ["error"]
    assert not asked.answer.done()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:9000"])
def test_our_own_page_may(asked: Asked, host: str) -> None:
    """Also through a tunnel, which changes the port."""
    assert asked.speak("GET", "/request", headers={"Host": host, "Origin": f"http://{host}"})[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b"[" * 60_000, b'{"id": NaN}', b"null", b'{"id": ' + b"9" * 5000 + b"}"],
)
def test_a_malformed_answer_is_refused(asked: Asked, body: bytes) -> None:
    status, data = asked.speak("POST", "/answer", body)
    assert status in (400, 409)
    assert data["error"]
    assert not asked.answer.done()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300) | st.text(alphabet="GETPOS /answer\r\n:HTP1.0x", max_size=200).map(str.encode))
def test_garbage_does_not_disturb_it(asked: Asked, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", asked.port), timeout=LONG) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass
    assert asked.get() is not None


def test_who_holds_every_connection_is_cut_off(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop now and then keeps a socket from timing out, but not from being late."""
    monkeypatch.setattr(web, "PATIENCE", 1.0)
    before = threading.active_count()
    held = [socket.create_connection(("127.0.0.1", asked.port), timeout=LONG) for _ in range(200)]
    try:
        assert threading.active_count() <= before + web.CONNECTIONS

        def served() -> bool:
            for connection in held:
                with suppress(OSError):
                    connection.sendall(b"G")
            with suppress(OSError, http.client.HTTPException):
                return asked.speak("GET", "/request")[0] == 200
            return False

        until(served)
    finally:
        for connection in held:
            connection.close()
    assert not asked.answer.done()


def test_nobody_answers_in_time(tmp_path: Path) -> None:
    with rf.OperatorReset("http", 0.1) as operator, pytest.raises(OperatorTimeout, match=r"within 0\.1 seconds"):
        operator.perform(FELL)


def test_a_port_that_is_taken_and_a_folder_that_is_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(rf.InvalidInput, match=f"port {port} of 127.0.0.1 cannot be used"):
            rf.OperatorReset(f"http:{port}").perform(FELL)
    (tmp_path / "file").write_text("")
    with pytest.raises(rf.InvalidInput, match="address file cannot be written"):
        rf.OperatorReset("http", address=tmp_path / "file" / "x").perform(FELL)


def test_it_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom resetfree.problems.operators import OperatorReset, Request\n"
        "operator = OperatorReset('http', 0.2, address=Path(sys.argv[1]))\n"
        "try:\n    operator.perform(Request('cart', 'reset', ''))\nexcept Exception as error:\n    print(error)\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "address.json")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "within 0.2 seconds" in done.stdout
    assert list(tmp_path.iterdir()) == []
