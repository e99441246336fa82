"""The learner's end: it never waits, allocates next to nothing, and keeps only the newest sensors in order."""

import time
import tracemalloc
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.problems.machines import switch_on
from resetfree.problems.remote.packets import NUMBER, READING, Kind, packet, read
from resetfree.problems.remote.remote_machine import AT_ONCE, MachineClient, MachineSilent
from resetfree.problems.remote.station import Station
from resetfree.problems.remote.wires import Wire

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
