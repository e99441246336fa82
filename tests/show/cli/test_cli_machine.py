"""`resetfree machine` as a program of its own: how it begins and ends, and that nothing sent to it does harm."""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.show.cli.commands import refused, run
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.problems.machines import cart_pole
from resetfree.problems.remote.packets import Kind, packet
from resetfree.problems.remote.remote_machine import MachineClient
from resetfree.problems.remote.wires import LeverKey, UdpPort, open_wire, pull

FLOOD = 100_000


class Program:
    """A machine in a process of its own."""

    def __init__(self, folder: Path, *words: str, stdin: Any = subprocess.DEVNULL) -> None:
        self.file = folder / "lever.key"
        command = [sys.executable, "-m", "resetfree.show.cli", "machine", *words, "--key", str(self.file), "--json"]
        self.process = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        until(lambda: self.file.exists() or self.process.poll() is not None)
        self.key = LeverKey.read(self.file)

    def end(self, number: signal.Signals = signal.SIGINT) -> dict[str, Any]:
        """What it says at its end."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=LONG)
        assert self.process.returncode == 0, err
        assert out.count("\n") == 1
        assert "Traceback" not in err
        assert not self.file.exists()
        said: dict[str, Any] = json.loads(out)
        return said

    def memory(self) -> int:
        """Bytes that it has in memory."""
        return 4096 * int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])


@contextmanager
def program(folder: Path, *words: str, stdin: Any = subprocess.DEVNULL) -> Iterator[Program]:
    one = Program(folder, *words, stdin=stdin)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def steer(client: MachineClient, readings: int) -> None:
    """Steer the cart-pole by its controller until so many sensor packets have come."""

    def newer() -> bool:
        client.wait(0.1)
        return client.poll()

    for _ in range(readings):
        until(newer, pause=0.0)
        client.command(cart_pole.controller(client.sensors.values))


def test_it_lives_by_the_clock_falls_when_left_alone_and_gets_up_by_its_lever(tmp_path: Path) -> None:
    with program(tmp_path, "cartpole", "--rate", "100") as machine:
        assert machine.file.stat().st_mode & 0o777 == 0o600
        with MachineClient(open_wire(machine.key.url)) as client:
            client.connect(LONG)
            client.command(np.zeros(1))

            def down() -> bool:
                client.poll()
                return bool(client.sensors.fallen)

            until(down)  # nobody steers it
            assert client.sensors.life == 0
            first = client.sensors.machine_ns, client.sensors.tick
            with open_wire(machine.key.url) as wire:
                assert pull(wire, bytes(16), 0.3) is None
                assert pull(wire, machine.key.token, LONG) == 1
            client.connect(LONG)
            assert not client.sensors.fallen
            steer(client, 100)
            passed = (client.sensors.machine_ns - first[0]) * 1e-9
            assert 0 < client.sensors.tick - first[1] <= 100 * passed + 2
            assert 0 <= time.monotonic_ns() - client.sensors.received_ns < LONG * 1e9
        said = machine.end()
    assert said["machine"] == "cartpole"
    assert (said["pulls"], said["sessions"]) == (1, 2)
    assert min(said["falls"], said["watchdog"], said["wrong_token"]) >= 1
    assert said["ticks"] + said["lost"] == pytest.approx(100 * said["seconds"], abs=100)  # its time is the clock's


def test_a_flood_of_packets_neither_stops_it_nor_fills_its_memory(tmp_path: Path) -> None:
    with program(tmp_path, "cartpole", "--rate", "50") as machine:
        with MachineClient(open_wire(machine.key.url)) as client, socket.socket(type=socket.SOCK_DGRAM) as stranger:
            client.connect(LONG)
            _, _, port = machine.key.url.rpartition(":")
            stranger.connect(("127.0.0.1", int(port)))
            junk = [os.urandom(n) for n in (0, 1, 36, 60, 1400)]
            junk += [packet(kind, 1, 1, 1, bytes(24)) for kind in Kind]
            junk += [packet(Kind.HELLO, 0, 0, 0, bytes(8)), packet(Kind.COMMAND, 1, 99, 0, bytes(16))]
            before, ticks, during = machine.memory(), client.sensors.tick, 0
            for i in range(FLOOD):
                stranger.send(junk[i % len(junk)])
                if i % 50 == 0 and client.poll():
                    during += 1
                    client.command(cart_pole.controller(client.sensors.values))
            assert during  # it went on in the flood
            client.connect(LONG)  # a busy computer may have kept us silent for so long that a stranger got the session
            steer(client, 25)
            assert client.sensors.tick >= ticks + 25
            assert machine.memory() - before < 30e6
        said = machine.end()
    assert said["malformed"] > 100
    assert said["busy"] > 10
    assert said["wrong_session"] > 10
    assert said["pulls"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_soon_in_lockstep_too(number: signal.Signals, tmp_path: Path) -> None:
    with program(tmp_path, "pendulum", "--lockstep") as machine:
        assert machine.end(number)["ticks"] == 0


def test_enter_at_its_terminal_pulls_the_lever(tmp_path: Path) -> None:
    """In a session of its own whose terminal it is."""
    file = tmp_path / "lever.key"
    words = ["-m", "resetfree.show.cli", "machine", "cartpole", "--rate", "200", "--key", str(file)]
    master, slave = os.openpty()
    # Not pty.fork: libraries that other tests have loaded in this process have threads.
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", take, sys.executable, *words]
    machine = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        until(file.exists)
        with MachineClient(open_wire(LeverKey.read(file).url)) as client:
            client.connect(LONG)
            os.write(master, b"\n")

            def up() -> bool:
                client.poll()
                return bool(client.sensors.life == 1)

            until(up)
        os.write(master, b"\x03")
        said = b""
        with suppress(OSError):  # when the terminal is closed
            while select.select([master], [], [], LONG)[0]:
                said += os.read(master, 65536)
        assert b"Enter pulls the lever" in said
        assert b"Switched off" in said
        assert machine.wait(LONG) == 0
    finally:
        machine.kill()
        machine.wait()
        os.close(master)


def test_a_port_in_use_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with UdpPort() as taken:
        port = taken.url.rpartition(":")[2]
        err = refused(capsys, "machine", "cartpole", "--port", port)
    assert err == f"The port {port} is used by another program: choose another '--port', or 0 for any free one.\n"


def test_it_can_be_switched_off_after_a_while(capsys: pytest.CaptureFixture[str]) -> None:
    assert main_says(capsys, "--seconds", "0.2")["ticks"] >= 1
    status, out, _ = run(capsys, "machine", "tanks", "--seconds", "0.01", "--loss", "0.5", "--freeze", "1")
    assert status == 0
    assert "The token of its lever is" in out
    assert "Switched off after 0." in out
    for wrong in ("inf", "nan", "1e308", "-1"):
        assert "'--seconds'" in refused(capsys, "machine", "tanks", "--seconds", wrong)


def main_says(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status, out, err = run(capsys, "machine", "cartpole", *words, "--json")
    assert status == 0
    assert err.startswith("The machine is at udp://127.0.0.1:")
    return json.loads(out)


def test_the_page_of_keys_has_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "api" / "json.md").read_text()
    own = page[page.index("## `resetfree machine --json`") :].split("\n## ")[0]
    cells = [line.split("|")[1] for line in own.splitlines() if line.startswith("| `")]
    keys = {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}
    assert keys == set(main_says(capsys, "--seconds", "0"))


def test_it_can_be_on_a_serial_line(capsys: pytest.CaptureFixture[str]) -> None:
    master, slave = os.openpty()
    device = os.ttyname(slave)
    status, out, said = run(
        capsys, "machine", "cartpole", "--serial", device, "--baud", "9600", "--seconds", "0.1", "--json"
    )
    assert "learn on it from the other end: resetfree run serial:///dev/NAME?baud=9600)" in said
    assert (status, json.loads(out)["url"]) == (0, f"serial://{device}?baud=9600")
    os.close(slave)
    os.close(master)
    refused(capsys, "machine", "cartpole", "--serial", "/dev/null")


def test_a_key_replaces_nothing_but_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "thesis.txt"
    file.write_text("all I have")
    refused(capsys, "machine", "cartpole", "--seconds", "0", "--key", str(file))
    assert file.read_text() == "all I have"
    one, other = LeverKey("udp://127.0.0.1:9"), LeverKey("udp://127.0.0.1:9")
    file.unlink()
    one.write(file)
    other.write(file)  # what a machine left that was killed
    one.remove(file)
    assert LeverKey.read(file) == other
    assert other.token.hex() not in repr(other)
    other.remove(file)
    assert not file.exists()
    for text in ("", "{}", '{"url": "x", "token": "y"}', '{"url": "udp://x", "token": "' + "0" * 32 + '"}', "[" * 9000):
        file.write_text(text)
        with pytest.raises(rf.InvalidInput):
            LeverKey.read(file)
    with pytest.raises(rf.InvalidInput, match="cannot be read"):
        LeverKey.read(tmp_path / "none")
