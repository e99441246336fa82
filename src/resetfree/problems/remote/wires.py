"""Wires: ways to send and receive packets without waiting, at the machine's end and at the learner's.

A machine that is served with a key file (`resetfree machine --key FILE`) has a lever: the file has the machine's
address, and the token that every pull must carry. The acting process has no key, so that it cannot put the machine back
by accident: that is the operator's to do, whom --operator lever:FILE names.

Addresses are udp://HOST:PORT, or serial:///dev/NAME?baud=115200 (by pyserial, extra `serial`: packets are framed).
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import select
import socket
import struct
import sys
import time
from abc import abstractmethod
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import SplitResult, parse_qs, urlsplit

from resetfree.core import InvalidInput, OperatorTimeout, ResetFreeError, Rule, arguments, check
from resetfree.core.files import drafted
from resetfree.core.interrupts import SLICE
from resetfree.core.system import NOFOLLOW, Closes
from resetfree.problems.operators.channel import Answer, Channel, Request, clean
from resetfree.problems.remote.packets import (
    HEADER,
    LONGEST,
    PULL,
    PULLED,
    TOKEN,
    Buffer,
    Frames,
    Kind,
    frame,
    packet,
    read,
)

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


class Udp(Closes):
    """What both ends of a wire by UDP have: a socket."""

    _socket: socket.socket

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class UdpWire(Udp, Wire):
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


class UdpPort(Udp, Port):
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


LARGEST_KEY = 4096  # bytes of a key file


class KeyForm(TypedDict):
    """The JSON of a key file."""

    url: str
    token: Annotated[str, Rule(lambda text: len(text) == 2 * TOKEN and text.isascii() and text.isalnum(), "a token")]


@dataclass(frozen=True)
class LeverKey:
    """The address of a machine, and the token of its lever."""

    url: str
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN), repr=False)

    def write(self, file: Path) -> None:
        """Write a file that only its owner can read; it appears whole, and replaces no file but such a key."""
        file = arguments.path(file, "file of a lever")
        try:
            if os.path.lexists(file):
                LeverKey.read(file)
            with drafted(file) as draft:
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o600)
                with os.fdopen(handle, "w") as out:
                    json.dump({"url": self.url, "token": self.token.hex()}, out)
        except OSError as error:
            raise InvalidInput(f"The file of the lever '{file}' cannot be written: {error.strerror}.") from error

    def remove(self, file: Path) -> None:
        """Remove the file, unless another machine has replaced it or it is gone."""
        with suppress(InvalidInput, OSError):
            if LeverKey.read(file) == self:
                file.unlink()

    @classmethod
    def read(cls, file: Path) -> LeverKey:
        """The key in a file; raises InvalidInput."""
        what = f"file of the lever '{file}'"
        try:
            if arguments.is_special(arguments.path(file, "file of a lever")):
                raise InvalidInput(f"The {what} must be one that `resetfree machine --key` wrote.")
            with open(file, "rb") as given:
                form = json.loads(given.read(LARGEST_KEY))
            check(form, KeyForm, what)
            token = bytes.fromhex(form["token"])
        except OSError as error:
            raise InvalidInput(f"The {what} cannot be read: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(f"The {what} must be one that `resetfree machine --key` wrote.") from error
        split_address(form["url"])
        return cls(form["url"], token)


PULL_AGAIN = 0.05  # seconds after which a pull that was not confirmed is sent again
PATIENCE = 5.0  # seconds until the machine must confirm


def pull(wire: Wire, token: bytes, seconds: float = PATIENCE) -> int | None:
    """Pull the lever once, however often it has to be sent; returns the life that begins, None without an answer."""
    number = time.time_ns()  # larger than that of every pull before, also of another process
    lever = packet(Kind.LEVER, 0, 0, time.monotonic_ns(), PULL.pack(token, number))
    end, again, buffer = time.monotonic() + seconds, 0.0, fresh_buffer()
    while (now := time.monotonic()) < end:
        if now >= again:
            wire.send(lever)
            again = now + PULL_AGAIN
        wire.wait(min(again - now, end - now, SLICE))
        while size := wire.receive(buffer):
            header = read(buffer, size)
            if header is None or header.kind != Kind.PULLED or header.length != PULLED.size:
                continue
            confirmed, life = PULLED.unpack_from(buffer, HEADER.size)
            if confirmed == number:
                return int(life)
    return None


class LeverChannel(Channel):
    """Pulls the lever for every request: an automatic operator, for machines that stand up by themselves.

    file: that of `resetfree machine --key FILE`.
    """

    name = "lever"

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def ask(self, request: Request, deadline: float | None) -> Answer:
        """Pull the lever, and return when the machine has confirmed it."""
        key = LeverKey.read(self._file)  # anew: a machine that is switched on again has another
        with open_wire(key.url) as wire:
            life = pull(wire, key.token, PATIENCE if deadline is None else deadline)
        if life is None:
            raise OperatorTimeout(
                f"No machine at {key.url} confirmed the reset of '{clean(request.problem)}': is it switched on, and is "
                f"'{self._file}' its key?"
            )
        return Answer("lever", f"life {life}")
