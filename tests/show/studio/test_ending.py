"""Ctrl-C and SIGTERM: games are saved, processes are gone, and slow requests delay nothing."""

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.show.studio.serving import Served
from tests.waiting import until

import resetfree as rf
from resetfree.core.web import LOOPBACK

# Reports and certificates that would take ten minutes.
FOREVER = """
import sys, time
import resetfree as rf
from resetfree.show.cli import main
from resetfree.show.studio import report_jobs as reporting
reporting.command = lambda runs, page: ["/bin/sh", "-c", f"echo $$ > '{runs[0].parent}/reporter'; exec sleep 600"]
rf.Run.certificates = lambda run: time.sleep(600)
sys.exit(main(["studio", *sys.argv[1:]]))
"""
# An episode that takes ten minutes, after the tenth.
LONG = """
import sys, time
from resetfree.show.cli import main
from resetfree.show.studio.lanes import Live
usual = Live._progress
def progress(lane, game, this):
    usual(lane, game, this)
    if this.k == 10:
        (lane.path.parent / "long").touch()
        time.sleep(600)
Live._progress = progress
sys.exit(main(["studio", *sys.argv[1:]]))
"""


@contextmanager
def studio(folder: Path, text: str) -> Iterator[Served]:
    """A studio in which something is as this program makes it."""
    command = [sys.executable, "-c", text, "--folder", str(folder), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
            assert found is not None
            yield Served(process, int(found[1]), folder)
        finally:
            process.kill()


def ask_for_ever(studio: Served, path: str) -> None:
    def ask() -> None:
        with suppress(OSError, AssertionError):  # the end of the studio is the end of it
            studio.ask("GET", path)

    threading.Thread(target=ask, daemon=True).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_waits_for_games_only(tmp_path: Path, number: signal.Signals) -> None:
    """Beside a game: a report and certificates that take for ever, one who watches, and one who does not even read."""
    with studio(tmp_path, FOREVER) as one:
        name, by_hand = one.start(episodes=10**6, pace=100.0), one.start(by_hand=True)
        idle = socket.create_connection(("127.0.0.1", one.port))
        asleep = socket.create_connection(("127.0.0.1", one.port))
        asleep.sendall(f"GET /api/watch?name={name} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        for path in (f"/api/watch?name={name}", f"/api/certificates?name={name}", f"/api/report?name={name}"):
            ask_for_ever(one, path)
        until(lambda: (tmp_path / "reporter").exists() and bool((tmp_path / "reporter").read_text().strip()))
        reporter = int((tmp_path / "reporter").read_text())
        k = one.frame(name, lambda frame: frame["lanes"][0]["k"] >= 20)["lanes"][0]["k"]
        one.process.send_signal(number)
        out, errors = one.process.communicate()
        for connection in (idle, asleep):
            connection.close()
    assert one.process.returncode == 0
    assert out == "Ended; every run is saved.\n"
    assert errors == ""
    assert len(rf.load(tmp_path / f"{name}.rfrun")) >= k
    assert len(rf.load(tmp_path / f"{by_hand}.rfrun")) == 0
    assert not list(tmp_path.glob("*.lock"))
    until(lambda: not Path(f"/proc/{reporter}").exists())


def test_who_ends_the_studio_in_a_long_episode_is_told_and_need_not_wait(tmp_path: Path) -> None:
    with studio(tmp_path, LONG) as one:
        name = one.start(episodes=100, pace=20.0)
        path = tmp_path / f"{name}.rfrun"
        until((tmp_path / "long").exists)
        one.process.send_signal(signal.SIGINT)
        assert one.process.stderr is not None
        assert one.process.stderr.readline().startswith("An episode is still being played")
        one.process.send_signal(signal.SIGINT)
        out, errors = one.process.communicate()
    assert (one.process.returncode, out, errors.strip()) == (130, "", "Stopped.")
    saved = len(rf.load(path))
    assert 0 < saved < 10
    run = rf.learn(
        "drawn-v0", episodes=100, path=path, resume=True, settings={"problem": rf.load(path).spec["problem_options"]}
    )
    plain = rf.learn("drawn-v0", episodes=100, settings={"problem": run.spec["problem_options"]})
    assert run.columns["reward"].tolist() == plain.columns["reward"].tolist()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "localhost"])
def test_a_host_beyond_this_machine_comes_with_a_warning(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "resetfree.show.cli", "studio", "--no-browser", "--port", "0", "--host", host]
    with subprocess.Popen(
        [*command, "--folder", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    if said == "" and host == "::":
        pytest.skip("this machine has no IPv6")
    warned = f"everyone who can reach {host} and has the token" in errors and "can start runs" in errors
    assert warned == ("token=" in said) == (host not in LOOPBACK)
    assert errors.count("\n") == int(warned)
    assert process.returncode == 0  # however soon the signal came
