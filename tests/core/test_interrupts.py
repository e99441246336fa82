"""Ctrl-C and SIGTERM are heard wherever the program waits, also when they land where nothing wakes the wait.

The handler of a signal that another thread receives is run by the main thread, which nobody wakes: exactly what happens
to one that lands between Python's last look and the system call. Who sends a signal here sends it so.
"""

import hashlib
import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import surroundings, until

import resetfree as rf
from resetfree.core import interrupts
from resetfree.problems.operators import http
from resetfree.problems.operators.channel import Request
from resetfree.runs.file.ledger import read
from resetfree.show.cli import main
from resetfree.studies.engines import Workers

LONG = 600.0  # seconds that a wait takes if the signal is lost
SOON = 300.0  # seconds within which it must be heard, on a machine under any load
REQUEST = Request("plant", "reset", "")


@contextmanager
def unnoticed(number: int, when: Callable[[], object]) -> Iterator[None]:
    """Let another thread receive a signal, some time after `when` has returned: the main thread waits by then."""

    def send() -> None:
        when()
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=send)
    began = time.monotonic()
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert time.monotonic() - began < SOON


class Screen:
    """A terminal as standard input, and what is shown there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._keys, self._terminal = pty.openpty()
        monkeypatch.setattr(sys, "stdin", os.fdopen(self._terminal, closefd=False))

    def until_prompt(self) -> None:
        seen = b""
        while not seen.endswith(b"> "):
            if not select.select([self._keys], [], [], SOON)[0]:
                return
            seen += os.read(self._keys, 65_536)

    def close(self) -> None:
        os.close(self._keys)
        os.close(self._terminal)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    one = Screen(monkeypatch)
    yield one
    one.close()


def ask_a_terminal(tmp_path: Path, screen: Screen) -> tuple[rf.OperatorReset, Callable[[], object]]:
    return rf.OperatorReset(by="terminal", deadline=LONG), screen.until_prompt


def ask_by_http(tmp_path: Path, screen: Screen) -> tuple[rf.OperatorReset, Callable[[], object]]:
    address = tmp_path / "address.json"
    return rf.OperatorReset(by="http", deadline=LONG, address=address), lambda: until(address.exists)


def ask_through_a_folder(tmp_path: Path, screen: Screen) -> tuple[rf.OperatorReset, Callable[[], object]]:
    desk = tmp_path / "desk"
    return rf.OperatorReset(by=desk, deadline=LONG), lambda: until((desk / "request.json").exists)


def ask_a_function(tmp_path: Path, screen: Screen) -> tuple[rf.OperatorReset, Callable[[], object]]:
    called, never = threading.Event(), threading.Event()

    def perform(request: Request) -> None:
        called.set()
        never.wait(LONG)

    return rf.OperatorReset(by=perform, deadline=LONG), lambda: called.wait(SOON)


WAYS = (ask_a_terminal, ask_by_http, ask_through_a_folder, ask_a_function)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_operator_is_waited_for_after_a_signal(way: Any, number: int, tmp_path: Path, screen: Screen) -> None:
    operator, asked = way(tmp_path, screen)
    with interrupts.terminable(), operator, unnoticed(number, asked), pytest.raises(KeyboardInterrupt):
        operator.perform(REQUEST)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_processes_are_not_waited_for_after_a_signal() -> None:
    with Workers(1, time.sleep) as workers:
        assert [job for job, _ in workers.do(deque([0.0]))] == [0.0]  # its process is up
        with unnoticed(signal.SIGINT, lambda: time.sleep(0.5)), pytest.raises(KeyboardInterrupt):
            list(workers.do(deque([SOON + 5.0])))


def test_signals_at_fifty_moments_around_a_prompt_are_all_heard(screen: Screen) -> None:
    """From 0 to 2 ms after the prompt is on the screen: before, in and after the way into the wait."""
    chance = random.Random(0)
    operator = rf.OperatorReset(by="terminal", deadline=LONG)
    began = time.monotonic()
    for moment in (chance.uniform(0.0, 0.002) for _ in range(50)):

        def send(moment: float = moment) -> None:
            screen.until_prompt()
            time.sleep(moment)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            operator.perform(REQUEST)
        thread.join()
    assert time.monotonic() - began < LONG  # one that is lost takes that long alone


def command(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "resetfree.show.cli", "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=surroundings(),
    )  # fmt: skip


def test_sigterm_saves_a_run_as_ctrl_c_does(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    process = command("grid-v0", "--primal", "uniform", "--episodes", "1000000", "--out", str(path))
    until(lambda: path.exists() and len(rf.load(path)) > 0)
    process.terminate()
    out, err = process.communicate(timeout=SOON)
    assert (process.returncode, out) == (143, "")
    assert "Stopped after " in err
    assert f"Continue with: resetfree run grid-v0 --resume --out {path}" in err
    saved = rf.load(path)
    assert 0 < len(saved) == read(path).k < 10**6
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.rfrun"]


def test_sigterm_stops_a_run_that_waits_and_leaves_nothing_behind(tmp_path: Path) -> None:
    text = "tests.problems.operators.plant:make --primal uniform --dual counting --feedback realised --episodes 40"
    process = command(*text.split(), "--operator", "http", "--out", str(tmp_path / "a.rfrun"))
    until((tmp_path / "a.rfrun.operator.json").exists)
    process.terminate()
    out, err = process.communicate(timeout=SOON)
    assert (process.returncode, out) == (143, "")
    assert "Stopped after 0 of 40 episodes" in err
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.rfrun"]


def test_who_ignores_ctrl_c_is_left_alone_and_sigterm_still_stops(tmp_path: Path) -> None:
    """As a shell starts a program in the background."""
    path = tmp_path / "a.rfrun"
    words = f"{sys.executable} -m resetfree.show.cli run grid-v0 --primal uniform --episodes 1000000 --out {path}"
    process = subprocess.Popen(["sh", "-c", f"trap '' INT; exec {words}"], stderr=subprocess.PIPE, text=True)
    until(lambda: path.exists() and len(rf.load(path)) > 0)
    process.send_signal(signal.SIGINT)
    k = len(rf.load(path))
    until(lambda: len(rf.load(path)) > k)
    assert process.poll() is None
    process.terminate()
    _, err = process.communicate(timeout=SOON)
    assert process.returncode == 143, err
    assert len(rf.load(path)) > k


def test_a_command_puts_back_what_sigterm_did_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert main(["list", "problems"]) == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert main(["list", "problems"]) == 0
        with interrupts.terminable():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Signals:
    """Somebody whose finaliser a signal lands in."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_python_drops_is_sent_again(number: signal.Signals, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> bool:
        """Where no test framework looks on."""
        with interrupts.terminable() as terminated:
            try:
                one = Signals(number)
                del one
                interrupts.wait(lambda seconds: time.sleep(seconds), SOON)
            except KeyboardInterrupt:
                return terminated.received == (number == signal.SIGTERM)
        return False

    assert interrupted()
    assert capsys.readouterr().err == ""


def test_what_else_python_drops_is_still_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        def __del__(self) -> None:
            raise ValueError("dropped")

    seen: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: seen.append(str(dropped.exc_value)))
    with interrupts.terminable():
        one = Fails()
        del one
    assert seen == ["dropped"]


def test_an_operator_who_is_closed_while_the_address_is_written_takes_it_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal lands just after the file has its name."""
    write = http._write_address

    def interrupted(board: Any) -> None:
        write(board)
        raise KeyboardInterrupt

    monkeypatch.setattr(http, "_write_address", interrupted)
    address = tmp_path / "operator.json"
    with pytest.raises(KeyboardInterrupt), rf.OperatorReset(by="http", address=address) as operator:
        operator.perform(REQUEST)
    assert not list(tmp_path.iterdir())


def test_a_second_signal_does_not_wait_for_the_round() -> None:
    with interrupts.terminable() as terminated, interrupts.held() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop
        assert terminated.received
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), stop.at_once():
            raise AssertionError("must not be reached")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def compiled(seconds: float) -> None:
    """Compiled code that takes at least about so long, and in which no handler of Python runs."""
    began = time.thread_time()  # not that of a busy machine, which may be twice as fast a moment later
    hashlib.pbkdf2_hmac("sha256", b"", b"", 50_000)
    once = time.thread_time() - began
    hashlib.pbkdf2_hmac("sha256", b"", b"", int(50_000 * seconds / once))


def test_the_first_signal_is_answered_in_the_middle_of_compiled_code() -> None:
    happened: list[str] = []

    def send() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    with interrupts.held(lambda: happened.append("said")) as stop:
        thread.start()
        compiled(3.0)
        happened.append("returned")
    thread.join()
    assert stop
    assert happened == ["said", "returned"]
    assert signal.set_wakeup_fd(-1) == -1


def test_nothing_is_said_where_all_ends_in_time_or_at_once() -> None:
    said: list[int] = []
    for _ in range(3):
        with interrupts.held(lambda: said.append(1)) as stop:
            signal.raise_signal(signal.SIGINT)
        assert stop
    with pytest.raises(KeyboardInterrupt), interrupts.held(lambda: said.append(1)) as stop, stop.at_once():
        signal.raise_signal(signal.SIGINT)
    assert said == []


def test_an_event_loop_keeps_its_own_socket() -> None:
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    try:
        with interrupts.held() as stop:
            signal.raise_signal(signal.SIGINT)
        assert stop
        assert reader.recv(10) == bytes([signal.SIGINT])
    finally:
        assert signal.set_wakeup_fd(-1) == writer.fileno()
        reader.close()
        writer.close()


def test_a_run_says_that_it_stops_after_a_long_round(capfd: pytest.CaptureFixture[str]) -> None:
    """A plan of compiled code: the run ends after it, and says so before."""

    def slow(game: Any, this: Any) -> None:
        if this.k == 3:
            os.kill(os.getpid(), signal.SIGINT)
            compiled(2.0)

    with pytest.raises(rf.Stopped, match="Stopped after 3 of 50"):
        rf.learn("grid-v0", "uniform", episodes=50, progress=slow)
    assert capfd.readouterr().err == f"{interrupts.STOPPING}\n"
