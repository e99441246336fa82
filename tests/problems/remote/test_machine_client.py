"""Both ends of a wire: the clock of a machine, and the learner's client, which never waits."""

import os
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.machines import switch_on
from resetfree.problems.remote.faults import Faults
from resetfree.problems.remote.packets import ANSWERS, NUMBER, READING, Buffer, Kind, packet, read
from resetfree.problems.remote.remote_machine import AT_ONCE, MachineClient, MachineSilent
from resetfree.problems.remote.station import SECOND, Serving, Station, StationCounts
from resetfree.problems.remote.wires import Port, UdpPort, UdpWire, Wire

ME = "me"


class Loop(Wire):
    """A wire to a station in the same thread: what is sent is answered at once."""

    def __init__(self, station: Station | None = None) -> None:
        self.station, self.inbox = station, deque[bytes]()
        self.sent: list[bytes] = []

    def send(self, packet: Any) -> None:
        self.sent.append(bytes(packet))
        if self.station is not None:
            now = time.monotonic_ns()
            self.inbox.extend(reply for reply, _ in self.station.receive(packet, len(packet), ME, now))

    def receive(self, buffer: bytearray) -> int:
        if not self.inbox:
            return 0
        one = self.inbox.popleft()
        buffer[: len(one)] = one
        return len(one)

    def fileno(self) -> int:
        return -1

    def wait(self, seconds: float) -> None:
        assert seconds <= 1.0

    def close(self) -> None:
        self.station = None


@pytest.fixture
def wire() -> Loop:
    return Loop(Station(*switch_on("cartpole"), bytes(16), seed=0))


def tick(wire: Loop) -> bytes:
    assert wire.station is not None
    one = wire.station.advance(time.monotonic_ns())
    assert one is not None
    return one


def test_commands_answer_the_newest_sensors_and_are_counted(wire: Loop) -> None:
    client = MachineClient(wire)
    statement = client.connect(1.0)
    assert statement.name == "cartpole"
    assert client.sensors.number == 1
    for i in range(1, 5):
        assert client.command(np.array([0.25])) == i
        header = read(wire.sent[-1], len(wire.sent[-1]))
        assert header is not None
        assert (header.kind, header.number) == (Kind.COMMAND, i)
        assert NUMBER.unpack_from(wire.sent[-1], 32) == (i,)
        assert np.frombuffer(wire.sent[-1], "<f8", 1, 40) == [0.25]
        assert not client.poll()
        wire.inbox.append(tick(wire))
        before = time.monotonic_ns()
        assert client.poll()
        assert before <= client.sensors.received_ns <= time.monotonic_ns()
        assert (client.sensors.number, client.sensors.applied, client.sensors.tick) == (i + 1, i, i)
    client.repeat()
    assert wire.sent[-1] == wire.sent[-2]
    client.close()
    last = read(wire.sent[-1], len(wire.sent[-1]))
    assert last is not None
    assert last.kind == Kind.BYE


def test_only_newer_sensors_of_the_session_count(wire: Loop) -> None:
    client = MachineClient(wire)
    client.connect(1.0)
    client.command(np.zeros(1))
    readings = [tick(wire) for _ in range(5)]
    wire.inbox.extend([readings[3], readings[1], readings[3], readings[0]])
    assert client.poll()
    assert (client.sensors.number, client.missed, client.dropped) == (5, 3, 3)
    client.connect(1.0)
    assert client.sensors.number == 1
    wire.inbox.append(readings[4])  # of the session before
    assert not client.poll()
    assert client.dropped == 4


def test_reading_and_commanding_allocate_next_to_nothing(wire: Loop) -> None:
    client = MachineClient(wire)
    client.connect(1.0)
    station, wire.station = wire.station, None
    assert station is not None
    action, readings = np.zeros(1), [station.advance(0) or b"" for _ in range(400)]
    for one in readings[:50]:  # warm
        wire.inbox.append(one)
        client.poll()
        client.command(action)
    wire.sent.clear()
    tracemalloc.start()
    try:
        for one in readings[50:]:
            wire.inbox.append(one)
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            client.poll()
            client.command(action)
            wire.sent.clear()
            now, peak = tracemalloc.get_traced_memory()
            assert now - before < 1000
            assert peak - before < 3000  # a packet that the test keeps, and numbers
    finally:
        tracemalloc.stop()


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=120),
            st.builds(packet, st.sampled_from(list(Kind)), *[st.integers(0, 9)] * 3, st.binary(max_size=80)),
        ),
        max_size=40,
    )
)
def test_whatever_comes_only_sensors_in_order_count(junk: list[bytes]) -> None:
    wire = Loop(Station(*switch_on("cartpole"), bytes(16), seed=0))
    client = MachineClient(wire)
    client.connect(1.0)
    before = client.sensors.values.copy()
    wire.inbox.extend(one or b"x" for one in junk)
    assert not client.poll()
    np.testing.assert_array_equal(client.sensors.values, before)
    assert client.dropped == len(junk)


def test_one_poll_reads_a_bounded_number_of_packets(wire: Loop) -> None:
    client = MachineClient(wire)
    client.connect(1.0)
    wire.inbox.extend([b"junk"] * (3 * AT_ONCE))
    client.poll()
    assert len(wire.inbox) == 2 * AT_ONCE


def test_a_machine_that_says_nonsense_or_another_version_is_refused() -> None:
    class Says(Loop):
        def __init__(self, text: bytes, version: int = 1) -> None:
            super().__init__()
            self.text, self.version = text, version

        def send(self, packet_: Any) -> None:
            one = bytearray(packet(Kind.WELCOME, 5, 0, 0, bytes(packet_[32:40]) + self.text))
            one[4] = self.version
            self.inbox.append(bytes(one))

    with pytest.raises(rf.InvalidInput, match="statement of the machine"):
        MachineClient(Says(b"{}")).connect(1.0)
    with pytest.raises(MachineSilent, match="speaks version 7 of the protocol, and this is version 1"):
        MachineClient(Says(b"{}", 7)).connect(0.1)
    with pytest.raises(MachineSilent, match=r"did not answer within 0\.1 s"):
        MachineClient(Loop()).connect(0.1)


def test_sensors_of_another_size_are_dropped(wire: Loop) -> None:
    client = MachineClient(wire)
    client.connect(1.0)
    session = client._session
    for numbers in (3, 5):
        wire.inbox.append(packet(Kind.SENSORS, session, 99, 0, READING.pack(0, 0, 0, 0, 0.0) + bytes(8 * numbers)))
    assert not client.poll()
    assert client.dropped == 2


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
