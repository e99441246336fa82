"""Packets on a line of bytes: consistent overhead byte stuffing (COBS): a zero ends a frame, and is nowhere else.

After noise or a lost byte the next zero is the beginning of a whole frame. Source: S. Cheshire and M. Baker,
"Consistent overhead byte stuffing", IEEE/ACM Transactions on Networking 7 (1999).
"""

from __future__ import annotations

from resetfree.problems.remote.packets import LONGEST, Buffer

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
