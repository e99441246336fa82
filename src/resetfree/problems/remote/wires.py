"""Wires: ways to send and receive packets without waiting, at the machine's end and at the learner's."""

from __future__ import annotations

import errno
import select
import socket
import struct
import sys
import time
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.core.system import Closes
from resetfree.problems.remote.packets import LONGEST, Buffer

HOST = "127.0.0.1"
EXPECTED = "The address of a machine must be udp://HOST:PORT or serial:///dev/NAME?baud=115200."


STAMPED = 35  # SO_TIMESTAMPNS of Linux: the kernel says when a packet came
SECOND = 1_000_000_000  # ns
STAMP = struct.Struct("@qq")  # seconds and nanoseconds of the wall clock


class WireBroken(ResetFreeError):
    """A wire that carries nothing any more: a serial line that was unplugged."""


class Wire(Closes):
    """Packets to and from one machine; nothing here waits but `wait`."""

    refused = False  # whether the last that was heard is that no program listens there

    @abstractmethod
    def send(self, packet: Buffer) -> None:
        """Send a packet; one that cannot be sent now is lost."""

    @abstractmethod
    def receive(self, buffer: bytearray) -> int:
        """Read the next packet into the buffer; returns its size, 0 if there is none; raises WireBroken."""

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor that becomes readable when something comes."""

    def wait(self, seconds: float) -> None:
        """Wait until something comes, at most so long."""
        select.select([self.fileno()], [], [], max(seconds, 0.0))


class UdpWire(Wire):
    """A socket that receives from the machine's address only."""

    def __init__(self, host: str, port: int) -> None:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind, protocol)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{EXPECTED} Got a host that cannot be found, {host!r}, instead.") from error
        try:
            self._socket.setblocking(False)
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise InvalidInput(f"The machine at udp://{host}:{port} cannot be reached: {error.strerror}.") from error

    def send(self, packet: Buffer) -> None:
        """Send a packet; lost if no machine listens there."""
        try:
            self._socket.send(packet)
        except OSError as error:  # full, or refused: the protocol allows for lost packets
            self.refused = isinstance(error, ConnectionRefusedError)

    def receive(self, buffer: bytearray) -> int:
        """The next packet; what is longer than any packet is cut, and refused by its checksum."""
        try:
            size = self._socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        except OSError as error:  # what was sent before was refused
            self.refused = isinstance(error, ConnectionRefusedError)
            return 0
        self.refused = False
        return size

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class Port(Closes):
    """The machine's end of a wire: packets with their senders; nothing here waits."""

    url: str  # by which it is reached
    came_ns = 0  # when the packet came that was received last, on the monotonic clock

    @abstractmethod
    def send(self, packet: Buffer, address: Any) -> None:
        """Send a packet; one that cannot be sent now is lost."""

    @abstractmethod
    def receive(self, buffer: bytearray) -> tuple[int, Hashable]:
        """Read the next packet into the buffer; returns its size, -1 if there is none, and its sender.

        Raises WireBroken.
        """

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor that becomes readable when something comes."""


class UdpPort(Port):
    """A socket on loopback: packets from anybody on this computer.

    port: 0 for any free one.
    """

    def __init__(self, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((HOST, port))
        except OSError as error:
            self._socket.close()
            if error.errno == errno.EADDRINUSE:
                raise InvalidInput(
                    f"The port {port} is used by another program: choose another '--port', or 0 for any free one."
                ) from error
            raise InvalidInput(f"The port {port} cannot be used: {error.strerror}.") from error
        self._socket.setblocking(False)
        if sys.platform == "linux":
            self._socket.setsockopt(socket.SOL_SOCKET, STAMPED, 1)
        self.url = f"udp://{HOST}:{self._socket.getsockname()[1]}"

    def send(self, packet: Buffer, address: Any) -> None:
        """Send a packet; one that cannot be sent now is lost."""
        try:
            self._socket.sendto(packet, address)
        except OSError:
            return

    def receive(self, buffer: bytearray) -> tuple[int, Hashable]:
        """The next packet, which may be empty; it came when the kernel got it, however late it is read."""
        try:
            size, about, _, sender = self._socket.recvmsg_into([buffer], socket.CMSG_SPACE(STAMP.size))
        except OSError:
            return -1, None
        now = self.came_ns = time.monotonic_ns()
        for level, kind, data in about:
            if (level, kind, len(data)) == (socket.SOL_SOCKET, STAMPED, STAMP.size):
                seconds, ns = STAMP.unpack(data)
                self.came_ns = now - max(time.time_ns() - seconds * SECOND - ns, 0)
        return size, sender

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def fresh_buffer() -> bytearray:
    """A buffer that holds any packet; one byte more, so that one that is too long is noticed."""
    return bytearray(LONGEST + 1)
