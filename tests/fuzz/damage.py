"""Damage to the bytes of a file: what a bad disk, a cut transfer or a clumsy editor leaves."""

import random

PAGE = 4096
WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def damage(data: bytes, rng: random.Random) -> tuple[bytes, list[str]]:
    """One to three kinds of damage, and words for them."""
    words = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        way = rng.choice(WAYS)
        data, said = way(bytearray(data), rng)
        words.append(said)
    return bytes(data), words


def _flip(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    if not data:
        return bytes(data), "nothing to flip"
    places = [rng.randrange(len(data)) for _ in range(rng.choice((1, 1, 4, 32)))]
    for at in places:
        data[at] ^= 1 << rng.randrange(8)
    return bytes(data), f"bits flipped at {places[:6]}"


def _overwrite(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    at, n = rng.randrange(len(data) + 1), rng.choice((1, 8, 64, 600))
    data[at : at + n] = rng.randbytes(min(n, len(data) - at))
    return bytes(data), f"{n} random bytes at {at}"


def _integer(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    """A length, a page number or a flag of the format is most likely among the first bytes of a page."""
    page = rng.randrange(len(data) // PAGE + 1) * PAGE
    at, size, word = page + rng.randrange(128), rng.choice((1, 2, 4)), rng.choice(WORDS)
    raw = (word & (256**size - 1)).to_bytes(size, rng.choice(("big", "little")))
    data[at : at + size] = raw[: max(len(data) - at, 0)]
    return bytes(data), f"{raw.hex()} at {at}"


def _truncate(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    n = rng.choice((0, 1, 15, 16, 99, 100, PAGE, len(data) // 2, rng.randrange(len(data) + 1), max(len(data) - 1, 0)))
    return bytes(data[:n]), f"cut to {n} bytes"


def _zeros(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    page = rng.randrange(len(data) // PAGE + 1)
    piece = data[page * PAGE : (page + 1) * PAGE]
    data[page * PAGE : (page + 1) * PAGE] = bytes(len(piece))
    return bytes(data), f"page {page} zeroed"


def _copy_page(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    pages = max(len(data) // PAGE, 1)
    source, target = rng.randrange(pages), rng.randrange(pages)
    data[target * PAGE : (target + 1) * PAGE] = data[source * PAGE : (source + 1) * PAGE]
    return bytes(data), f"page {source} copied over page {target}"


def _append(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    tail = rng.choice((rng.randbytes(rng.choice((1, 100, PAGE))), bytes(data), bytes(PAGE * 3)))
    return bytes(data) + tail, f"{len(tail)} bytes appended"


def _remove(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    at, n = rng.randrange(len(data) + 1), rng.choice((1, 10, PAGE))
    del data[at : at + n]
    return bytes(data), f"{n} bytes removed at {at}"


def _insert(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.randbytes(rng.choice((1, 10, 100)))
    return bytes(data), f"bytes inserted at {at}"


def _swap(data: bytearray, rng: random.Random) -> tuple[bytes, str]:
    if len(data) < 2:
        return bytes(data), "nothing to swap"
    half = rng.randrange(1, len(data))
    return bytes(data[half:] + data[:half]), f"turned round at {half}"


WAYS = (_flip, _flip, _overwrite, _integer, _integer, _truncate, _zeros, _copy_page, _append, _remove, _insert, _swap)
