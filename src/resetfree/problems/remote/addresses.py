"""Addresses of machines: udp://HOST:PORT, or serial:///dev/NAME?baud=115200."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from resetfree.core.errors import InvalidInput
from resetfree.problems.remote.wires import EXPECTED, Port, UdpWire, Wire

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
    wire: Wire = _serial().SerialWire(parts.path, int(baud))
    return wire


def open_line(device: str, baud: int) -> Port:
    """The machine's end of a serial line; raises InvalidInput."""
    port: Port = _serial().SerialPort(device, baud)
    return port


def _serial() -> Any:
    """The module that needs pyserial."""
    try:
        from resetfree.problems.remote import serial_wire
    except ImportError as error:
        raise InvalidInput("A serial line needs pyserial: install resetfree with its extra 'serial'.") from error
    return serial_wire
