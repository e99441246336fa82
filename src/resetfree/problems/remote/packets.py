"""Packets between a machine and the program that commands it: a header, a payload and a checksum, little-endian.

Every byte is described in docs/connect_your_machine.md. Nothing here allocates by a size that a packet states.

Legend: A numbers in an action, D sensors.
"""

from __future__ import annotations

import zlib
from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple, TypeAlias

MAGIC, VERSION = b"RFMC", 1
HEADER = Struct("<4sBBHQQQ")  # magic, version, kind, bytes of payload, session, number, time of the sender in ns
CHECKSUM = Struct("<I")  # CRC-32 of everything before it
NUMBER = Struct("<Q")  # of a greeting, in HELLO, WELCOME and BUSY; a WELCOME goes on with the statement as JSON
ANSWERS = Struct("<Q")  # COMMAND: the sensors that it answers; A float64 follow
READING = Struct("<QQIId")  # SENSORS: applied command, tick, life, flags, reward; D float64 follow
PULL = Struct("<16sQ")  # LEVER: token, number of the pull
PULLED = Struct("<QI")  # PULLED: number of the pull, life that begins
LONGEST = 8192  # bytes of a packet
MOST = 64  # numbers in an action, and sensors
TOKEN = 16  # bytes
Buffer: TypeAlias = bytes | bytearray | memoryview


class Kind(IntEnum):
    """What a packet is."""

    HELLO = 1  # to the machine: begin a session
    WELCOME = 2  # the session, and what the machine says of itself
    BUSY = 3  # another program commands the machine
    COMMAND = 4  # to the machine: an action
    SENSORS = 5  # what the machine measured
    LEVER = 6  # to the machine, from the operator: put it back
    PULLED = 7  # it is put back
    BYE = 8  # to the machine: the session ends


class Flag(IntFlag):
    """What is special about a reading."""

    FALLEN = 1  # the machine is at a limit, and stays there until the lever is pulled
    HELD = 2  # it was put back, and is held until the first command
    NEUTRAL = 4  # no command came in time: the watchdog chose the action


class Header(NamedTuple):
    """The header of a packet that is in order."""

    magic: bytes
    version: int
    kind: int
    length: int  # bytes of payload
    session: int
    number: int  # counted by the sender, from 1 in each session
    time_ns: int  # the sender's own clock


def size_of(payload: int) -> int:
    """Bytes of a packet with so many bytes of payload."""
    return HEADER.size + payload + CHECKSUM.size


def seal(buffer: bytearray, view: memoryview, kind: int, session: int, number: int, time_ns: int) -> None:
    """Write the header and the checksum of a packet of exactly this buffer, whose payload is in place.

    view: all of the buffer but the checksum, made once.
    """
    payload = len(buffer) - HEADER.size - CHECKSUM.size
    HEADER.pack_into(buffer, 0, MAGIC, VERSION, kind, payload, session, number, time_ns)
    CHECKSUM.pack_into(buffer, len(buffer) - CHECKSUM.size, zlib.crc32(view))


def packet(kind: int, session: int, number: int, time_ns: int, payload: Buffer = b"") -> bytes:
    r"""A packet.

    >>> one = packet(Kind.BYE, session=7, number=1, time_ns=0)
    >>> len(one), one[:6], read(one, len(one)).session
    (36, b'RFMC\x01\x08', 7)
    """
    buffer = bytearray(size_of(len(payload)))
    buffer[HEADER.size : HEADER.size + len(payload)] = payload
    seal(buffer, memoryview(buffer)[: -CHECKSUM.size], kind, session, number, time_ns)
    return bytes(buffer)


def read(buffer: Buffer, size: int) -> Header | None:
    """The header of the packet in the first `size` bytes; None if they are no whole packet of this version.

    >>> one = packet(Kind.BYE, 7, 1, 0)
    >>> read(one, len(one) - 1) is None, read(one[:-1] + bytes([one[-1] ^ 1]), len(one)) is None
    (True, True)
    """
    if not HEADER.size + CHECKSUM.size <= size <= LONGEST:
        return None
    header = Header._make(HEADER.unpack_from(buffer))
    if header.magic != MAGIC or header.version != VERSION or size_of(header.length) != size:
        return None
    end = size - CHECKSUM.size
    (checksum,) = CHECKSUM.unpack_from(buffer, end)
    return header if zlib.crc32(memoryview(buffer)[:end]) == checksum else None


def other_version(buffer: Buffer, size: int) -> int | None:
    """The version of a packet of another version of this protocol; None if it is none."""
    if size < HEADER.size or bytes(buffer[: len(MAGIC)]) != MAGIC or buffer[len(MAGIC)] == VERSION:
        return None
    return int(buffer[len(MAGIC)])
