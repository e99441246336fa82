"""Wires: ways to send and receive packets without waiting, at the machine's end and at the learner's.

Addresses are udp://HOST:PORT, or serial:///dev/NAME?baud=115200 (by pyserial, extra `serial`: packets are framed).
"""

import errno
import select
import socket
import struct
import sys
import time
from abc import abstractmethod
from collections.abc import Hashable
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.core.system import Closes
from resetfree.problems.remote.packets import LONGEST, Buffer, Frames, frame

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


AT_ONCE = 4096  # bytes that are read before the clock is read again
PEER = "line"  # the only sender that a line has


class SerialLine(Closes):
    """An open serial line, and the frames that come over it."""

    def __init__(self, device: str, baud: int) -> None:
        try:
            import serial
        except ImportError as error:
            raise InvalidInput("A serial line needs pyserial: install resetfree with its extra 'serial'.") from error
        try:
            self.serial = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
            self.serial.reset_input_buffer()
        except (OSError, ValueError, OverflowError) as error:  # SerialException is an OSError
            why = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise InvalidInput(f"The serial line '{device}' cannot be opened with {baud} baud: {why}.") from error
        self._device, self._frames = device, Frames()

    def put(self, packet: Buffer) -> None:
        """Send a packet; one that cannot be sent now is lost, or comes in part and is dropped there."""
        try:
            self.serial.write(frame(packet))
        except OSError:  # full (SerialTimeoutException), or unplugged
            return

    def take(self, buffer: bytearray) -> int:
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

    def fileno(self) -> int:
        """Of the line."""
        return int(self.serial.fileno())

    def close(self) -> None:
        """Close the line."""
        self.serial.close()


class SerialWire(SerialLine, Wire):
    """The learner's end of a serial line."""

    def send(self, packet: Buffer) -> None:
        """Send a packet."""
        self.put(packet)

    def receive(self, buffer: bytearray) -> int:
        """The next packet."""
        return max(self.take(buffer), 0)


class SerialPort(SerialLine, Port):
    """The machine's end of a serial line."""

    def __init__(self, device: str, baud: int) -> None:
        super().__init__(device, baud)
        self.url = f"serial://{device}?baud={baud}"

    def send(self, packet: Buffer, address: Any) -> None:
        """Send a packet."""
        self.put(packet)

    def receive(self, buffer: bytearray) -> tuple[int, Hashable]:
        """The next packet."""
        size, self.came_ns = self.take(buffer), time.monotonic_ns()
        return size, PEER


BAUD = 115_200


def split_address(address: Any) -> SplitResult:
    """The parts of a machine's address; raises InvalidInput.

    >>> split_address("udp://127.0.0.1:9000").port
    9000
    """
    try:
        parts = urlsplit(address) if isinstance(address, str) else urlsplit("")
        udp = parts.scheme == "udp" and parts.hostname and parts.port and not (parts.path or parts.query)
        serial = parts.scheme == "serial" and parts.path and not parts.netloc
    except ValueError:  # a port that is no number
        udp = serial = False
    if not udp and not serial:
        raise InvalidInput(f"{EXPECTED} Got {address!r} instead.")
    return parts


def open_wire(address: Any) -> Wire:
    """The wire for an address; raises InvalidInput."""
    parts = split_address(address)
    if parts.scheme == "udp":
        return UdpWire(str(parts.hostname), int(parts.port or 0))
    options = parse_qs(parts.query, keep_blank_values=True)
    baud = options.pop("baud", [str(BAUD)])[-1]
    if options or not baud.isdecimal() or not 0 < int(baud[:9]) == int(baud):
        raise InvalidInput(f"{EXPECTED} Got {address!r} instead.")
    return SerialWire(parts.path, int(baud))


def open_line(device: str, baud: int) -> Port:
    """The machine's end of a serial line; raises InvalidInput."""
    return SerialPort(device, baud)
