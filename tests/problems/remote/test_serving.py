"""The clock of a machine: what comes late is caught up, what stood still for long is not."""

import os
import sys
import time
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from resetfree.problems.machines import switch_on
from resetfree.problems.remote.faults import Faults
from resetfree.problems.remote.packets import ANSWERS, NUMBER, Buffer, Kind, packet, read
from resetfree.problems.remote.station import SECOND, Serving, Station, StationCounts
from resetfree.problems.remote.wires import Port, UdpPort, UdpWire


class Clock:
    """A clock that jumps: each reading is the next of the list, then the last for ever."""

    def __init__(self, *readings: float) -> None:
        self.readings = [int(one * SECOND) for one in readings]

    def __call__(self) -> int:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def served(clock: Clock, turns: int, monkeypatch: pytest.MonkeyPatch) -> StationCounts:
    """What happened after so many turns of the loop at 50 Hz."""
    with UdpPort() as port:
        station = Station(*switch_on("tanks", rate=50.0), bytes(16), seed=0)
        serving = Serving(station, port, Faults(), 0)
        left = iter(range(turns))
        monkeypatch.setattr(time, "monotonic_ns", clock)
        serving.serve(lambda: next(left, None) is None)
        monkeypatch.undo()
    return station.counts


def test_late_ticks_pass_without_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = served(Clock(100.0, 100.2), 1, monkeypatch)
    assert (counts.ticks, counts.skipped, counts.lost) == (10, 9, 0)


def test_what_stood_still_for_long_catches_up_a_second_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = served(Clock(100.0, 3700.0), 3, monkeypatch)
    assert counts.ticks == 51
    assert counts.ticks + counts.lost == 3600 * 50


class Scripted(Port):
    """A port at which packets came at given times."""

    def __init__(self) -> None:
        self.url, self.packets, self.sent = "udp://127.0.0.1:1", list[tuple[float, bytes]](), 0
        self.readable = os.open(os.devnull, os.O_RDONLY)

    def send(self, packet: Buffer, address: Any) -> None:
        """Nobody listens."""
        self.sent += 1

    def receive(self, buffer: bytearray) -> tuple[int, Hashable]:
        """The next packet that has come."""
        if not self.packets or self.packets[0][0] * SECOND > time.monotonic_ns():
            return -1, None
        came, packet = self.packets.pop(0)
        self.came_ns, buffer[: len(packet)] = int(came * SECOND), packet
        return len(packet), "somebody"

    def fileno(self) -> int:
        """One that is always readable."""
        return self.readable

    def close(self) -> None:
        """Close that one."""
        os.close(self.readable)


@pytest.mark.parametrize(("came", "in_time"), [(100.030, 1), (100.041, 0)], ids=["before the tick", "after it"])
def test_a_machine_that_looks_late_knows_what_came_before_a_tick(
    came: float, in_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    station, port = Station(*switch_on("cartpole", rate=50.0), bytes(16), seed=0), Scripted()
    hello = packet(Kind.HELLO, 0, 0, 0, NUMBER.pack(1))
    (welcome, _), _ = station.receive(hello, len(hello), "somebody", int(100.0 * SECOND))
    found = read(welcome, len(welcome))
    assert found is not None

    def command(number: int, answers: int) -> bytes:
        return packet(Kind.COMMAND, found.session, number, 0, ANSWERS.pack(answers) + np.zeros(1).tobytes())

    port.packets = [(100.001, command(1, 1)), (came, command(2, 2))]
    times = iter([100.0, 100.002, 100.020, 100.0449])  # the last look is late: the tick was at 100.040
    now = [0]

    def stopped() -> bool:
        moment = next(times, None)
        now[0] = now[0] if moment is None else int(moment * SECOND)
        return moment is None

    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0] or int(100.0 * SECOND))
    with port:
        Serving(station, port, Faults(), 0).serve(stopped)
    assert (station.counts.due, station.counts.in_time, station.counts.commands) == (1, in_time, 2)
    assert (station.counts.ticks, station.counts.skipped, station.counts.not_judged) == (2, 0, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux says when packets come")
def test_a_packet_came_when_the_kernel_got_it_and_not_when_it_was_read() -> None:
    """The kernel begins to stamp packets some time after the first socket asked for it: on a busy machine not at once.

    Until then it stamps them when they are read.
    """
    slack, kept = SECOND // 5, list[bool]()  # the wall clock and this one are read one after the other
    with UdpPort() as port, UdpWire("127.0.0.1", int(port.url.rsplit(":", 1)[1])) as wire:
        while len(kept) < 20 and not any(kept):
            before = time.monotonic_ns()
            wire.send(b"one")
            after = time.monotonic_ns()
            time.sleep(0.5)
            assert port.receive(bytearray(10))[0] == 3
            kept.append(before - slack <= port.came_ns <= after + slack)
    assert kept[-1]
