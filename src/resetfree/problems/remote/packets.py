"""What a machine and the program that commands it send each other: packets, and the machine's statement about itself.

A packet is a header, a payload and a checksum, little-endian.
Every byte is described in docs/api/wire.md. Nothing here allocates by a size that a packet states.

On a line of bytes they are framed by consistent overhead byte stuffing (COBS): a zero ends a frame, and is nowhere
else. After noise or a lost byte the next zero is the beginning of a whole frame. Source: S. Cheshire and M. Baker,
"Consistent overhead byte stuffing", IEEE/ACM Transactions on Networking 7 (1999).

The statement has the machine's actions, sensors and rate, its reward, and what a fall is. It is JSON in the WELCOME
packet, so that a small controller can send it as one constant text. It comes over a wire and is checked before anything
is made of it.

Legend: A numbers in an action, D sensors.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
from gymnasium import spaces

from resetfree.core import Floats, InvalidInput, Positive, Range, Rule, check, shown
from resetfree.problems.gym.flattening import NamedBox

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


def seal(buffer: bytearray, view: memoryview, kind: int, *, session: int, number: int, time_ns: int) -> None:
    """Write the header and the checksum of a packet of exactly this buffer, whose payload is in place.

    view: all of the buffer but the checksum, made once.
    """
    payload = len(buffer) - HEADER.size - CHECKSUM.size
    HEADER.pack_into(buffer, 0, *Header(MAGIC, VERSION, kind, payload, session=session, number=number, time_ns=time_ns))
    CHECKSUM.pack_into(buffer, len(buffer) - CHECKSUM.size, zlib.crc32(view))


def packet(kind: int, session: int, number: int, time_ns: int, payload: Buffer = b"") -> bytes:
    r"""A packet.

    >>> one = packet(Kind.BYE, session=7, number=1, time_ns=0)
    >>> len(one), one[:6], read(one, len(one)).session
    (36, b'RFMC\x01\x08', 7)
    """
    buffer = bytearray(size_of(len(payload)))
    buffer[HEADER.size : HEADER.size + len(payload)] = payload
    seal(buffer, memoryview(buffer)[: -CHECKSUM.size], kind, session=session, number=number, time_ns=time_ns)
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


BLOCK = 254  # bytes without a zero that one code byte stands for
LONGEST_FRAME = LONGEST + LONGEST // BLOCK + 1


def stuff(data: Buffer) -> bytes:
    r"""The bytes without zeros.

    >>> stuff(b"\x11\x22\x00\x33"), stuff(b"")
    (b'\x03\x11"\x023', b'\x01')
    """
    out = bytearray()
    for part in bytes(data).split(b"\0"):
        while len(part) >= BLOCK:
            out.append(BLOCK + 1)
            out += part[:BLOCK]
            part = part[BLOCK:]
        out.append(len(part) + 1)
        out += part
    return bytes(out)


def unstuff(data: Buffer) -> bytes | None:
    r"""The bytes that were stuffed; None if these are no such bytes.

    >>> unstuff(b'\x03\x11"\x023'), unstuff(b"\x05\x11"), unstuff(b"")
    (b'\x11"\x003', None, None)
    """
    out, at, end = bytearray(), 0, len(data)
    while at < end:
        code = data[at]
        if code == 0 or at + code > end:
            return None
        out += data[at + 1 : at + code]
        at += code
        if code <= BLOCK and at < end:
            out.append(0)
    return bytes(out) if end else None


def frame(packet: Buffer) -> bytes:
    """A packet as it goes over the line; the zero before it ends whatever noise came."""
    return b"\0" + stuff(packet) + b"\0"


class Frames:
    """Cuts what comes over a line into packets; keeps no more than the longest frame."""

    def __init__(self) -> None:
        self._open = bytearray()  # the frame that is under way
        self._whole: list[bytes] = []
        self._skipping = False  # a frame that is too long
        self.broken = 0  # frames that were none

    def feed(self, data: bytes) -> None:
        """Bytes came."""
        *ended, rest = data.split(b"\0")
        for part in ended:
            self._extend(part)
            self._end()
        self._extend(rest)

    def next(self) -> bytes | None:
        """The next packet, None if none is whole."""
        return self._whole.pop(0) if self._whole else None

    def _extend(self, part: bytes) -> None:
        if self._skipping or len(self._open) + len(part) > LONGEST_FRAME:
            self._skipping = True
            self._open.clear()
        else:
            self._open += part

    def _end(self) -> None:
        packet = unstuff(self._open) if self._open else None
        if packet is not None:
            self._whole.append(packet)
        elif self._open or self._skipping:
            self.broken += 1
        self._open.clear()
        self._skipping = False


Finite: TypeAlias = Annotated[float, Range(-1e300, 1e300)]
Name: TypeAlias = Annotated[str, Rule(lambda text: bool(re.fullmatch(r"\w[\w -]{0,39}", text)), "a short name")]
Words: TypeAlias = Annotated[str, Rule(lambda text: len(text) <= 200 and text.isprintable(), "a short sentence")]


class ActionForm(TypedDict):
    """One number of an action."""

    name: Name
    low: Finite
    high: Finite
    neutral: Finite


class SensorForm(TypedDict):
    """One sensor; null for no bound."""

    name: Name
    low: Finite | None
    high: Finite | None


class RewardForm(TypedDict):
    """The range of all rewards."""

    low: Finite
    high: Finite


class StatementForm(TypedDict):
    """The JSON of a statement."""

    name: Name
    rate: Positive
    lockstep: bool
    watchdog_ms: Annotated[float, Range(0, 1e9)]
    actions: list[ActionForm]
    sensors: list[SensorForm]
    reward: RewardForm
    fall: Words


@dataclass(frozen=True)
class Signal:
    """One number of an action, or one sensor."""

    name: str
    low: float
    high: float


@dataclass(frozen=True)
class MachineStatement:
    """What a machine says of itself."""

    name: str
    rate: float  # sensor packets per second
    lockstep: bool  # whether its time goes on only by commands
    watchdog_ms: float  # it takes the neutral action after so long without a command; 0: never
    actions: tuple[Signal, ...]  # [A]
    neutral: tuple[float, ...]  # [A]
    sensors: tuple[Signal, ...]  # [D]
    reward: tuple[float, float]  # the least and the most
    fall: str  # what counts as a fall, in words

    @property
    def action_space(self) -> spaces.Box:
        """The box of actions."""
        low, high = ends(self.actions)
        return spaces.Box(low, high, dtype=np.float64)

    @property
    def observation_space(self) -> NamedBox:
        """The box of sensors, with their names."""
        return NamedBox(*ends(self.sensors), names=tuple(one.name for one in self.sensors))

    @property
    def text(self) -> str:
        """As JSON."""
        form: StatementForm = {
            "name": self.name,
            "rate": self.rate,
            "lockstep": self.lockstep,
            "watchdog_ms": self.watchdog_ms,
            "actions": [
                {"name": one.name, "low": one.low, "high": one.high, "neutral": rest}
                for one, rest in zip(self.actions, self.neutral, strict=True)
            ],
            "sensors": [{"name": one.name, "low": _number(one.low), "high": _number(one.high)} for one in self.sensors],
            "reward": {"low": self.reward[0], "high": self.reward[1]},
            "fall": self.fall,
        }
        return json.dumps(form, allow_nan=False, separators=(",", ":"))

    @classmethod
    def read(cls, text: bytes) -> MachineStatement:
        """The statement of a WELCOME packet; raises InvalidInput."""
        what = "statement of the machine"
        try:
            form: Any = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"The {what} must be JSON. Got {shown(text[:80])} instead.") from error
        check(form, StatementForm, what)
        actions, neutral = [], []
        for one in form["actions"]:
            actions.append(Signal(one["name"], float(one["low"]), float(one["high"])))
            neutral.append(float(one["neutral"]))
            if not one["low"] <= one["neutral"] <= one["high"]:
                raise InvalidInput(f"The {what} must have low <= neutral <= high. Got {shown(one)} instead.")
        sensors = [Signal(one["name"], _bound(one["low"], -1), _bound(one["high"], 1)) for one in form["sensors"]]
        for signals, kind in ((actions, "actions"), (sensors, "sensors")):
            names = {one.name for one in signals}
            if not 0 < len(signals) <= MOST or len(names) < len(signals) or any(one.low > one.high for one in signals):
                raise InvalidInput(
                    f"The {what} must have 1 to {MOST} {kind} with names of their own and low <= high. "
                    f"Got {shown(form[kind])} instead."
                )
        reward = (float(form["reward"]["low"]), float(form["reward"]["high"]))
        if not reward[0] < reward[1]:
            raise InvalidInput(f"The {what} must have a range of rewards. Got {shown(form['reward'])} instead.")
        return cls(
            name=form["name"],
            rate=float(form["rate"]),
            lockstep=form["lockstep"],
            watchdog_ms=float(form["watchdog_ms"]),
            actions=tuple(actions),
            neutral=tuple(neutral),
            sensors=tuple(sensors),
            reward=reward,
            fall=form["fall"],
        )


def ends(signals: tuple[Signal, ...]) -> tuple[Floats, Floats]:
    """The bounds of signals, each as a vector."""
    return np.array([one.low for one in signals]), np.array([one.high for one in signals])


def _number(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


def _bound(number: float | None, sign: int) -> float:
    return sign * math.inf if number is None else float(number)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")
