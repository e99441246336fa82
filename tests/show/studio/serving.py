"""A real studio in a process of its own, and plain ways to talk to it."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import LONG

from resetfree.show.studio.server import Server, Studio

GRID = {"rows": ["S...", ".XX.", "...G"], "slip": 0.1, "horizon": 8}


@dataclass
class Served:
    """Where a studio is."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(
        self, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """One request with exactly these headers beside the usual ones; status, body and headers of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            body = None if data is None else data if isinstance(data, bytes) else json.dumps(data).encode()
            sent = {"Content-Type": "application/json"} if body is not None else {}
            if self.token:
                sent["X-Resetfree-Token"] = self.token
            connection.request(method, path, body, {**sent, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read(), dict(response.getheaders())
        finally:
            connection.close()

    def json(self, method: str, path: str, data: Any = None) -> Any:
        status, body, _ = self.ask(method, path, data)
        assert status == 200, body
        return json.loads(body)

    def refusal(self, method: str, path: str, data: Any = None, headers: dict[str, str] | None = None) -> str:
        """What a request is refused with: one sentence, never a traceback."""
        status, body, _ = self.ask(method, path, data, headers)
        assert 400 <= status < 500, (status, body)
        sentence = json.loads(body)["error"]
        assert isinstance(sentence, str)
        assert sentence
        assert "Traceback" not in sentence
        return sentence

    def start(self, **asked: Any) -> str:
        return str(self.json("POST", "/api/start", {"grid": GRID, "lanes": [{}], **asked})["name"])

    def control(self, name: str, action: str, **more: Any) -> None:
        self.json("POST", "/api/control", {"name": name, "action": action, **more})

    def frame(self, name: str, good: Callable[[dict[str, Any]], bool] = lambda frame: True) -> dict[str, Any]:
        """The first frame of the stream that is as wanted."""
        for kind, data in self.stream(name):
            if kind == "frame" and good(data):
                return data
        raise AssertionError("the stream ended")

    def stream(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request(
                "GET", f"/api/watch?name={name}", headers={"X-Resetfree-Token": self.token} if self.token else {}
            )
            response = connection.getresponse()
            assert response.status == 200, response.read()
            kind = ""
            while line := response.readline():
                if line.startswith(b"event: "):
                    kind = line[7:].decode().strip()
                elif line.startswith(b"data: "):
                    yield kind, json.loads(line[6:])
        finally:
            connection.close()

    def alive(self) -> bool:
        return self.process.poll() is None and self.ask("GET", "/")[0] == 200


class Here:
    """A studio in this process, so that what it does can be counted."""

    def __init__(self, folder: Path) -> None:
        self.studio = Studio(folder)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, 4096
        )  # so that one who does not read is noticed
        self.server = Server(self.studio)
        self._thread = threading.Thread(target=self.server.run, args=([self._listening],), daemon=True)
        self._thread.start()

    def served(self) -> Served:
        """It, as one that is asked."""
        return Served(None, int(self._listening.getsockname()[1]), self.studio.folder.path)  # type: ignore[arg-type]

    def watch(self, name: str, buffer: int | None = None) -> "Watcher":
        connection = socket.socket()
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(LONG)
        connection.connect(self._listening.getsockname())
        connection.sendall(f"GET /api/watch?name={name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        return Watcher(connection)

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(LONG)
        self.studio.close()
        assert not self._thread.is_alive()
        self._listening.close()


class Watcher:
    """One stream, read line by line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self.frames: list[bytes] = []

    def until(self, good: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read up to a frame that is as wanted, and keep all of them."""
        event = b""
        for line in self._lines:
            if line.startswith(b"event: "):
                event = line
            if line.startswith(b"data: ") and event == b"event: frame\n":
                self.frames.append(line)
                frame: dict[str, Any] = json.loads(line[6:])
                if good(frame):
                    return frame
        raise AssertionError("the stream ended")

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(folder: Path, *words: str, token: str = "") -> Iterator[Served]:
    """`resetfree studio` until the block ends, then Ctrl-C."""
    port = free_port()
    command = [sys.executable, "-m", "resetfree.show.cli", "studio", "--folder", str(folder), "--port", str(port)]
    command += ["--no-browser", *words, *(["--token", token] if token else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("The studio is at http://"):
        process.kill()
        raise AssertionError(f"{line}{process.communicate()[1]}")
    studio = Served(process, port, folder, token)
    try:
        yield studio
    finally:
        end(studio)


def end(studio: Served, number: int = signal.SIGINT) -> str:
    """Send a signal, wait, and return what was said; ending twice does nothing."""
    if studio.process.poll() is None:
        studio.process.send_signal(number)
    try:
        out, errors = studio.process.communicate(timeout=LONG)
    except subprocess.TimeoutExpired:
        studio.process.kill()
        raise
    except ValueError:  # ended already
        return ""
    assert "Traceback" not in errors, errors
    return out
