"""Packets: what is sealed can be read, byte by byte as documented, and nothing else can."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resetfree.problems.remote.packets import LONGEST, VERSION, Kind, other_version, packet, read, size_of

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


@given(packets, st.integers(1, 60))
def test_a_packet_that_is_cut_or_too_long_is_refused(one: bytes, n: int) -> None:
    assert read(one[:-n], len(one) - n) is None
    assert read(one + bytes(n), len(one) + n) is None


@given(st.binary(max_size=300))
def test_random_bytes_are_no_packet(junk: bytes) -> None:
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
