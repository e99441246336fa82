"""A serial line as a wire, by pyserial (extra `serial`): the same packets, framed (see `framing`)."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

import serial

from resetfree.core.errors import InvalidInput
from resetfree.problems.remote.framing import Frames, frame
from resetfree.problems.remote.packets import Buffer
from resetfree.problems.remote.wires import Port, Wire, WireBroken

AT_ONCE = 4096  # bytes that are read before the clock is read again
PEER = "line"  # the only sender that a line has


class Line:
    """An open serial line, and the frames that come over it."""

    def __init__(self, device: str, baud: int) -> None:
        try:
            self.serial = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
            self.serial.reset_input_buffer()
        except (OSError, ValueError, OverflowError) as error:  # SerialException is an OSError
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise InvalidInput(f"The serial line '{device}' cannot be opened with {baud} baud: {why}.") from error
        self._device, self._frames = device, Frames()

    def send(self, packet: Buffer) -> None:
        """Send a packet; one that cannot be sent now is lost, or comes in part and is dropped there."""
        try:
            self.serial.write(frame(packet))
        except OSError:  # full (SerialTimeoutException), or unplugged
            return

    def receive(self, buffer: bytearray) -> int:
        """Read the next packet into the buffer; returns its size, -1 if there is none; raises WireBroken."""
        packet = self._frames.next()
        if packet is None:
            try:
                self._frames.feed(self.serial.read(AT_ONCE))
            except OSError as error:
                raise WireBroken(f"The serial line '{self._device}' was unplugged.") from error
            packet = self._frames.next()
        if packet is None:
            return -1
        size = min(len(packet), len(buffer))
        buffer[:size] = packet[:size]
        return size

    def close(self) -> None:
        """Close the line."""
        self.serial.close()


class SerialWire(Wire):
    """The learner's end of a serial line."""

    def __init__(self, device: str, baud: int) -> None:
        self._line = Line(device, baud)

    def send(self, packet: Buffer) -> None:
        """Send a packet."""
        self._line.send(packet)

    def receive(self, buffer: bytearray) -> int:
        """The next packet."""
        return max(self._line.receive(buffer), 0)

    def fileno(self) -> int:
        """Of the line."""
        return int(self._line.serial.fileno())

    def close(self) -> None:
        """Close the line."""
        self._line.close()


class SerialPort(Port):
    """The machine's end of a serial line."""

    def __init__(self, device: str, baud: int) -> None:
        self._line = Line(device, baud)
        self.url = f"serial://{device}?baud={baud}"

    def send(self, packet: Buffer, address: Any) -> None:
        """Send a packet."""
        self._line.send(packet)

    def receive(self, buffer: bytearray) -> tuple[int, Hashable]:
        """The next packet."""
        size, self.came_ns = self._line.receive(buffer), time.monotonic_ns()
        return size, PEER

    def fileno(self) -> int:
        """Of the line."""
        return int(self._line.serial.fileno())

    def close(self) -> None:
        """Close the line."""
        self._line.close()
