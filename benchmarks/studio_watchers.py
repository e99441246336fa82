"""The delay from a press of Pause until every connected viewer shows it. By default with 4, 16 and 64 viewers.

Run: python benchmarks/studio_watchers.py [--watchers 4 16 64] [--presses 10] [--pace 0]. A real server plays a game of
two players; each viewer is a connection that reads all frames. A delay is the time from the request (Pause, or Go) to
the first frame that shows it, for each viewer and each press; the server polls for changes 15 times a second, so that
33 ms of it are waiting on average. Frames are those that one viewer received in a second while the game was running.
The end is from Ctrl-C, with all viewers connected, to the end of the process, its run files saved.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from rich.console import Console

GRID = {"rows": ["S...#...", ".XX...X.", "....#...", ".X.....G"], "slip": 0.1, "horizon": 12}
PLAYERS = [{"primal": "support-elimination"}, {"primal": "linear-ucb"}]
PAUSED = re.compile(rb'"paused":(true|false)')
PATIENCE = 60.0


def post(port: int, path: str, data: object) -> dict[str, str]:
    """The answer to one POST request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", path, json.dumps(data), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer: dict[str, str] = json.loads(response.read())
    connection.close()
    if response.status != 200:
        raise SystemExit(answer["error"])
    return answer


class Watcher(threading.Thread):
    """Reads frames, and records when their field `paused` changes."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(daemon=True)
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", f"/api/watch?name={name}")
        self._response = self._connection.getresponse()
        self.changes: queue.Queue[tuple[bytes, float]] = queue.Queue()
        self.frames = 0

    def run(self) -> None:
        """Read until the server ends."""
        before = b""
        try:
            while line := self._response.readline():
                found = PAUSED.search(line[:200])
                if found is not None:
                    self.frames += 1
                    if found[1] != before:
                        before = found[1]
                        self.changes.put((before, time.monotonic()))
        except (OSError, http.client.HTTPException):
            return

    def saw(self, paused: bytes) -> float:
        """The time at which it saw this value of `paused`."""
        while True:
            seen, at = self.changes.get(timeout=PATIENCE)
            if seen == paused:
                return at


def measure(n: int, presses: int, pace: float) -> tuple[list[float], float, float]:
    """The delays of n viewers, the frames per second of each, and the seconds that the end took."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "resetfree.show.cli", "studio", "--no-browser", "--port", "0"]
        command += ["--folder", folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
        try:
            assert server.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
            assert found is not None
            port = int(found[1])
            request = {"grid": GRID, "lanes": PLAYERS, "episodes": 1_000_000, "pace": pace}
            name = post(port, "/api/start", request)["name"]
            watchers = [Watcher(port, name) for _ in range(n)]
            for one in watchers:
                one.start()
            for one in watchers:
                one.saw(b"false")
            delays, frames, seconds = [], 0, 0.0
            for _ in range(presses):
                began, before = time.monotonic(), sum(one.frames for one in watchers)
                time.sleep(1.0)
                seconds += time.monotonic() - began
                frames += sum(one.frames for one in watchers) - before
                for action, state in (("pause", b"true"), ("go", b"false")):
                    pressed = time.monotonic()
                    post(port, "/api/control", {"name": name, "action": action})
                    delays += [one.saw(state) - pressed for one in watchers]
            pressed = time.monotonic()
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE)
            return delays, frames / n / seconds, time.monotonic() - pressed
        finally:
            server.kill()
            server.communicate()


def main() -> int:
    """Print a line for each number of watchers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchers", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--presses", type=int, default=10)
    parser.add_argument("--pace", type=float, default=0.0, help="episodes per second; 0: no limit")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    for n in arguments.watchers:
        delays, rate, end = measure(n, arguments.presses, arguments.pace)
        tenths = statistics.quantiles(delays, n=10)
        console.print(
            f"{n:3d} watchers: median delay {1000 * statistics.median(delays):6.0f} ms, "
            f"nine of ten within {1000 * tenths[-1]:6.0f} ms, {rate:.1f} frames a second each, "
            f"end within {1000 * end:.0f} ms",
            soft_wrap=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
