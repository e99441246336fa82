"""The learner's end of the protocol: commands out, the newest sensors in, neither of which waits or allocates much.

`command` and `poll` are apart, so that a loop at a fixed rate can read, act and write when it is time:

    while acting:
        client.poll()                            # fills `client.sensors` with the newest reading, if one came
        client.command(policy(client.sensors.values))

Legend: A numbers in an action, D sensors.
"""

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.errors import ResetFreeError
from resetfree.core.interrupts import SLICE
from resetfree.core.settings import expect
from resetfree.core.system import Closes
from resetfree.problems.remote.packets import (
    ANSWERS,
    CHECKSUM,
    HEADER,
    NUMBER,
    READING,
    VERSION,
    Flag,
    Header,
    Kind,
    MachineStatement,
    other_version,
    packet,
    read,
    seal,
    size_of,
)
from resetfree.problems.remote.wires import Wire, fresh_buffer

AGAIN = 0.05  # seconds after which a packet that was not answered is sent again
AT_ONCE = 256  # packets that one poll reads at most


class MachineSilent(ResetFreeError):
    """No answer from the machine in time."""


class Sensors:
    """The newest reading; the same object is filled again and again."""

    __slots__ = ("applied", "flags", "life", "machine_ns", "number", "received_ns", "reward", "tick", "values")

    def __init__(self, d: int) -> None:
        self.number = 0  # of the packet, in its session; 0 before the first
        self.received_ns = 0  # when it was read, of this computer's monotonic clock
        self.machine_ns = 0  # when it was sent, of the machine's clock
        self.applied = 0  # number of the newest command that counted
        self.tick = 0  # ticks of the machine since it was switched on
        self.life = 0  # pulls of its lever
        self.flags = 0  # of `packets.Flag`
        self.reward = 0.0  # of the newest tick
        self.values: Floats = np.zeros(d)  # [D]

    @property
    def fallen(self) -> bool:
        """Whether the machine must be put back."""
        return bool(self.flags & Flag.FALLEN)

    @property
    def held(self) -> bool:
        """Whether the machine is held until the first command."""
        return bool(self.flags & Flag.HELD)


class MachineClient(Closes):
    """Commands one machine, in sessions.

    `statement` and `sensors` are there after `connect`. Counted besides: `dropped` packets that were not in order, and
    `missed` sensor packets (lost, overtaken, or read too late).
    """

    statement: MachineStatement
    sensors: Sensors

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.dropped, self.missed = 0, 0
        self._buffer = fresh_buffer()
        self._session, self._number, self._greeting = 0, 0, 0

    def connect(self, seconds: float, *, refused_after: float = math.inf) -> MachineStatement:
        """Begin a new session, and return with its first sensors; raises MachineSilent after so many seconds.

        refused_after: seconds after which it is enough that no program listens there.

        Packets of earlier sessions, which may still be under way, no longer count.
        """
        self._session, self._greeting = 0, max(time.monotonic_ns(), self._greeting + 1)
        hello = packet(Kind.HELLO, 0, 0, self._greeting, NUMBER.pack(self._greeting))
        begun, busy, version = time.monotonic(), False, None
        end, again = begun + seconds, begun
        while True:
            now = time.monotonic()
            if self.wire.refused and now - begun >= refused_after:
                raise MachineSilent("no program listens there")
            if now >= end:
                raise MachineSilent(_why_silent(busy, version, seconds))
            if now >= again:
                self.wire.send(hello)
                again = now + AGAIN
            self.wire.wait(min(again, end) - now)
            for _ in range(AT_ONCE):
                size = self.wire.receive(self._buffer)
                if not size:
                    break
                header = read(self._buffer, size)
                version = other_version(self._buffer, size) or version
                if header is not None and header.kind in (Kind.WELCOME, Kind.BUSY) and self._is_answer(header):
                    busy = header.kind == Kind.BUSY
                    if not busy:
                        self._welcome(header)
                elif self._session and header is not None and self._take(header):
                    return self.statement

    def poll(self) -> bool:
        """Read all packets that came; returns whether `sensors` is newer than before. Never waits."""
        newer = False
        for _ in range(AT_ONCE):
            size = self.wire.receive(self._buffer)
            if not size:
                break
            header = read(self._buffer, size)
            if header is not None and self._take(header):
                newer = True
            else:
                self.dropped += 1
        return newer

    def command(self, action: NDArray[Any]) -> int:
        """Send an action [A], as the answer to the newest sensors; returns its number. Never waits."""
        if not self._session:
            raise MachineSilent("the session with it has ended: reset it first")
        self._number += 1
        self._action[:] = action
        ANSWERS.pack_into(self._command, HEADER.size, self.sensors.number)
        now = time.monotonic_ns()
        seal(self._command, self._signed, Kind.COMMAND, session=self._session, number=self._number, time_ns=now)
        self.wire.send(self._command)
        return self._number

    def repeat(self) -> None:
        """Send the newest command once more, as it was."""
        self.wire.send(self._command)

    def wait(self, seconds: float) -> None:
        """Wait until something comes, at most so long and at most a moment."""
        self.wire.wait(min(seconds, SLICE))

    def close(self) -> None:
        """End the session, and close the wire."""
        self.leave()
        self.wire.close()

    def leave(self) -> None:
        """End the session; `connect` begins another one."""
        if self._session:
            self.wire.send(packet(Kind.BYE, self._session, 0, time.monotonic_ns()))
            self._session = 0

    def _is_answer(self, header: Header) -> bool:
        """Whether a packet answers the newest greeting."""
        if header.length < NUMBER.size:
            return False
        (greeting,) = NUMBER.unpack_from(self._buffer, HEADER.size)
        return bool(greeting == self._greeting)

    def _welcome(self, header: Header) -> None:
        if self._session == header.session:
            return
        text = bytes(self._buffer[HEADER.size + NUMBER.size : HEADER.size + header.length])
        self.statement = MachineStatement.read(text)
        expect(header.session, "session of a machine", "be a number from 1", header.session)
        a, d = len(self.statement.actions), len(self.statement.sensors)
        self._session, self._number = header.session, 0
        self.sensors = Sensors(d)
        # Everything that a command and a reading need is made here, once.
        self._reading_size = READING.size + 8 * d
        self._values = np.frombuffer(self._buffer, "<f8", d, HEADER.size + READING.size)
        self._command = bytearray(size_of(ANSWERS.size + 8 * a))
        self._signed = memoryview(self._command)[: -CHECKSUM.size]
        self._action = np.frombuffer(self._command, "<f8", a, HEADER.size + ANSWERS.size)

    def _take(self, header: Header) -> bool:
        """Fill `sensors` from the buffer, if it holds newer ones that belong to the connection."""
        now, sensors = time.monotonic_ns(), self.sensors
        if header.kind != Kind.SENSORS or header.session != self._session or header.length != self._reading_size:
            return False
        if header.number <= sensors.number:
            return False
        self.missed += header.number - sensors.number - 1
        sensors.applied, sensors.tick, sensors.life, sensors.flags, sensors.reward = READING.unpack_from(
            self._buffer, HEADER.size
        )
        sensors.values[:] = self._values
        sensors.number, sensors.machine_ns, sensors.received_ns = header.number, header.time_ns, now
        return True


def _why_silent(busy: bool, version: int | None, seconds: float) -> str:
    if busy:
        return "it is commanded by another program"
    if version is not None:
        return f"it speaks version {version} of the protocol, and this is version {VERSION}"
    return f"it did not answer within {seconds:g} s"
