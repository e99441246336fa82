"""Wires and what is sent over them: frames, packets, and what a machine says of itself."""

import json
import math
import os
import select
import struct
import threading
import tty
import zlib
from collections.abc import Hashable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bank import same_rounds
from tests.problems.remote.machines_served import served
from tests.problems.remote.test_from_machine import HORIZON, SEED, OwnChance, learn

import resetfree as rf
from resetfree.problems.machines import MACHINES, switch_on
from resetfree.problems.machines.cart_pole import CartPole
from resetfree.problems.remote.packets import (
    LONGEST,
    LONGEST_FRAME,
    VERSION,
    Frames,
    Kind,
    MachineStatement,
    Signal,
    frame,
    other_version,
    packet,
    read,
    size_of,
    stuff,
    unstuff,
)
from resetfree.problems.remote.wires import SerialPort, WireBroken, fresh_buffer, open_wire, pull

WORDS = st.integers(0, 2**64 - 1)
packets = st.builds(packet, st.sampled_from(list(Kind)), WORDS, WORDS, WORDS, st.binary(max_size=200))


@given(st.sampled_from(list(Kind)), WORDS, WORDS, WORDS, st.binary(max_size=200))
def test_a_packet_is_read_as_it_was_sealed(kind: Kind, session: int, number: int, time_ns: int, payload: bytes) -> None:
    one = packet(kind, session, number, time_ns, payload)
    header = read(one, len(one))
    assert header is not None
    assert header[2:] == (kind, len(payload), session, number, time_ns)
    assert one[32:-4] == payload
    assert len(one) == size_of(len(payload))


def test_every_byte_is_where_the_page_says() -> None:
    one = packet(Kind.COMMAND, 0x0102030405060708, 9, 10, b"\x07" * 16)
    assert one[:4] == b"RFMC"
    assert (one[4], one[5], one[6] + 256 * one[7]) == (1, 4, 16)
    assert one[8:16] == bytes([8, 7, 6, 5, 4, 3, 2, 1])
    assert struct.unpack_from("<QQ", one, 16) == (9, 10)
    assert one[32:48] == b"\x07" * 16
    assert struct.unpack_from("<I", one, 48) == (zlib.crc32(one[:48]),)


@given(packets, st.data())
def test_a_packet_with_one_changed_byte_is_refused(one: bytes, data: st.DataObject) -> None:
    place, change = data.draw(st.integers(0, len(one) - 1)), data.draw(st.integers(1, 255))
    damaged = one[:place] + bytes([one[place] ^ change]) + one[place + 1 :]
    assert read(damaged, len(damaged)) is None


@given(packets, st.integers(1, 60), st.binary(max_size=300))
def test_a_packet_that_is_cut_or_too_long_and_random_bytes_are_refused(one: bytes, n: int, junk: bytes) -> None:
    assert read(one[:-n], len(one) - n) is None
    assert read(one + bytes(n), len(one) + n) is None
    assert read(junk, len(junk)) is None


def test_sizes_are_bounded_and_other_versions_are_told() -> None:
    assert read(packet(Kind.WELCOME, 1, 1, 1, bytes(LONGEST - 36)), LONGEST) is not None
    assert read(packet(Kind.WELCOME, 1, 1, 1, bytes(LONGEST - 35)), LONGEST + 1) is None
    one = bytearray(packet(Kind.BYE, 1, 1, 1))
    assert other_version(one, len(one)) is None
    one[4] = 2
    assert read(one, len(one)) is None
    assert other_version(one, len(one)) == VERSION + 1
    assert other_version(b"RFMC\x02", 5) is None
    with pytest.raises(struct.error):  # a payload whose length its header cannot state
        packet(Kind.WELCOME, 1, 1, 1, bytes(70_000))


bytes_with_zeros = st.one_of(st.binary(max_size=600), st.binary(max_size=9).map(lambda part: part * 120))


@given(bytes_with_zeros)
def test_what_is_stuffed_has_no_zeros_and_comes_back(data: bytes) -> None:
    stuffed = stuff(data)
    assert 0 not in stuffed
    assert unstuff(stuffed) == data
    assert len(stuffed) <= len(data) + len(data) // 254 + 1


@given(st.binary(max_size=300))
def test_what_was_not_stuffed_is_refused_or_read_but_never_raises(data: bytes) -> None:
    found = unstuff(data)
    assert found is None or len(found) < len(data)


@given(st.lists(bytes_with_zeros.filter(len), max_size=5), st.binary(max_size=50), st.data())
def test_frames_are_found_again_after_noise_and_in_any_pieces(
    parts: list[bytes], noise: bytes, data: st.DataObject
) -> None:
    frames, found = Frames(), []
    stream = noise + b"".join(map(frame, parts))
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        frames.feed(stream[:cut])
        stream = stream[cut:]
    while (one := frames.next()) is not None:
        found.append(one)
    assert found[len(found) - len(parts) :] == parts


def test_a_frame_without_end_is_not_kept() -> None:
    frames = Frames()
    for _ in range(100):
        frames.feed(b"x" * 1000)
    assert len(frames._open) <= LONGEST_FRAME
    frames.feed(frame(b"packet"))
    assert frames.next() == b"packet"
    assert frames.next() is None
    assert frames.broken == 1
    longest = os.urandom(LONGEST)
    frames.feed(frame(longest))
    assert frames.next() == longest


class Noise:
    """What may happen between two ends of a line: every so many bytes one is lost or changed."""

    def __init__(self, every: int) -> None:
        self.every, self.count = every, 0

    def __call__(self, data: bytes) -> bytes:
        if not self.every:
            return data
        out = bytearray()
        for one in data:
            self.count += 1
            if self.count % self.every:
                out.append(one)
            elif self.count % (2 * self.every):
                out.append(one ^ 0x55)
        return bytes(out)


@contextmanager
def cable(noise: int = 0) -> Iterator[tuple[str, str]]:
    """The devices at both ends: two pseudo-terminals, joined by a thread."""
    pairs = [os.openpty() for _ in range(2)]
    (one, near), (other, far) = pairs
    for _, end in pairs:
        tty.setraw(end)
    ended, spoils = threading.Event(), {one: Noise(noise), other: Noise(noise)}

    def carry() -> None:
        while not ended.is_set():
            for ready in select.select([one, other], [], [], 0.05)[0]:
                os.write(other if ready == one else one, spoils[ready](os.read(ready, 4096)))

    thread = threading.Thread(target=carry)
    thread.start()
    try:
        yield os.ttyname(near), os.ttyname(far)
    finally:
        ended.set()
        thread.join()
        for pair in pairs:
            for end in pair:
                os.close(end)


@pytest.mark.parametrize("noise", [0, 997], ids=["clean", "noisy"])
def test_a_run_over_a_line_is_that_of_the_machine_in_this_process(noise: int, tmp_path: Path) -> None:
    here = learn(rf.from_gym(OwnChance(CartPole()), horizon=HORIZON), episodes=3)
    with (
        cable(noise) as (near, far),
        served(tmp_path, lockstep=True, seed=SEED, port=SerialPort(far, 115_200)) as machine,
    ):
        wires: list[Any] = []

        def opened() -> Any:
            wires.append(open_wire(f"serial://{near}?baud=115200"))
            return wires[-1]

        def put_back(request: Any) -> str:
            assert pull(wires[-1], machine.key.token, 60.0) is not None
            return "by the line"

        with closing(rf.from_machine(opened, horizon=HORIZON, operator=rf.OperatorReset(put_back), timeout=60.0)) as it:
            there = learn(it, episodes=3)
        assert (machine.station.counts.repeated > 0) == bool(noise)
    same_rounds(here, there)


def test_by_its_address(tmp_path: Path) -> None:
    with cable() as (near, far), served(tmp_path, rate=100.0, port=SerialPort(far, 9600)) as machine:
        assert machine.url == f"serial://{far}?baud=9600"
        address = f"serial://{near}?baud=9600"
        with closing(rf.from_machine(address, timeout=60.0)) as problem:
            env: Any = problem.env
            before = env.client.sensors.tick
            env.step(np.zeros(1))
            assert env.client.sensors.tick > before
            with pytest.raises(rf.InvalidInput, match="cannot be opened"):  # it is in use
                rf.from_machine(address)


def test_what_is_no_line_is_refused_in_one_sentence(tmp_path: Path) -> None:
    for device in (tmp_path / "none", tmp_path):
        with pytest.raises(rf.InvalidInput, match="cannot be opened with 115200 baud"):
            rf.from_machine(f"serial://{device}")
    for query in ("baud=fast", "baud=", "baud=-5", "speed=9600", "baud=0", f"baud={'9' * 30}"):
        with pytest.raises(rf.InvalidInput, match="The address of a machine must be"):
            rf.from_machine(f"serial:///dev/tty?{query}")


def test_a_line_that_is_unplugged_is_noticed_at_both_ends() -> None:
    for end in (lambda device: open_wire(f"serial://{device}"), lambda device: SerialPort(device, 9600)):
        master, slave = os.openpty()
        tty.setraw(slave)
        line = end(os.ttyname(slave))
        os.close(slave)
        os.close(master)
        with pytest.raises(WireBroken, match="was unplugged"):
            line.receive(fresh_buffer())
        line.close()


def test_every_sender_on_a_line_is_the_same() -> None:
    with cable() as (near, far), SerialPort(far, 9600) as port, open_wire(f"serial://{near}?baud=9600") as wire:
        senders: list[Hashable] = []
        for text in (b"one", b"two"):
            wire.send(text)
            buffer, size = fresh_buffer(), -1
            while size < 0:
                select.select([port.fileno()], [], [], 1.0)
                size, sender = port.receive(buffer)
            assert bytes(buffer[:size]) == text
            senders.append(sender)
        assert senders[0] == senders[1]


FORM = json.loads(switch_on("cartpole")[1].text)


@pytest.mark.parametrize("name", MACHINES)
def test_a_statement_is_read_as_it_was_said(name: str) -> None:
    machine, says = switch_on(name, rate=123.0)
    assert MachineStatement.read(says.text.encode()) == says
    assert machine.dt == 1 / 123.0
    assert says.action_space == machine.action_space
    assert (says.observation_space.low == getattr(machine.observation_space, "low")).all()  # noqa: B009
    assert says.observation_space.names == MACHINES[name].sensors
    assert len(says.text) < LONGEST - 100


def test_a_sensor_may_have_no_bounds() -> None:
    says = MachineStatement.read(json.dumps({**FORM, "sensors": [{"name": "heat", "low": None, "high": 5}]}).encode())
    assert says.sensors == (Signal("heat", -math.inf, 5.0),)
    assert MachineStatement.read(says.text.encode()) == says


ACTION = {"name": "force", "low": -1.0, "high": 1.0, "neutral": 0.0}
SENSOR = {"name": "angle", "low": -1.0, "high": 1.0}


CHANGES: list[dict[str, Any]] = [
    *({"rate": wrong} for wrong in (0, "fast", 10**400)), {"name": "a\nb"}, {"name": ""}, {"lockstep": 1},
    {"watchdog_ms": -1}, {"actions": []}, {"actions": [ACTION] * 2}, {"actions": [{**ACTION, "low": None}]},
    {"actions": [{**ACTION, "neutral": 2.0}]}, {"actions": [{**ACTION, "high": -2.0}]},
    {"sensors": [{**SENSOR, "high": -2.0}]}, {"sensors": [{**SENSOR, "name": f"s{i}"} for i in range(65)]},
    {"sensors": [{**SENSOR, "low": 10**400}]}, {"reward": {"low": 1, "high": 1}}, {"fall": "x" * 1000}, {"more": 1},
]  # fmt: skip
TEXTS = [b"", b"{", b"[" * 5000, b"NaN", b"\xff", json.dumps(FORM).replace("50.0", "NaN").encode()]
TEXTS += [json.dumps({**FORM, **change}).encode() for change in CHANGES]
TEXTS += [json.dumps({name: value for name, value in FORM.items() if name != key}).encode() for key in FORM]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_wrong_statement_is_refused_in_one_sentence(text: bytes) -> None:
    with pytest.raises(rf.InvalidInput, match="statement of the machine"):
        MachineStatement.read(text)
