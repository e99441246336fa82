"""A heater as a machine over UDP, of the standard library alone: python heater.py PORT."""

import json
import random
import socket
import struct
import sys
import time
import zlib
from typing import Any

RATE, HEADER = 50.0, struct.Struct("<4sBBHQQQ")
SAYS: dict[str, Any] = {
    "name": "heater",
    "rate": RATE,
    "lockstep": False,
    "watchdog_ms": 200,
    "actions": [{"name": "power", "low": 0, "high": 1, "neutral": 0}],
    "sensors": [{"name": "temperature", "low": 0, "high": 150}],
    "reward": {"low": 0, "high": 1},
    "fall": "the fuse blew above 95 degrees",
}


def packet(kind: int, session: int, number: int, payload: bytes) -> bytes:
    """Header, payload, checksum."""
    body = HEADER.pack(b"RFMC", 1, kind, len(payload), session, number, time.monotonic_ns()) + payload
    return body + struct.pack("<I", zlib.crc32(body))


def read(data: bytes) -> Any:
    """Kind, session, number and payload; kind 0 of what is damaged."""
    if len(data) < 36 or data[:5] != b"RFMC\x01" or data[-4:] != struct.pack("<I", zlib.crc32(data[:-4])):
        return 0, 0, 0, b""
    return data[5], *struct.unpack_from("<QQ", data, 8), data[32:-4]


line = socket.socket(type=socket.SOCK_DGRAM)
line.bind(("127.0.0.1", int(sys.argv[1])))
client: Any = None
greeting = b""
session = newest = sent = tick = fallen = 0
heat, power, heard, due = 20.0, 0.0, 0.0, time.monotonic()
while True:
    due += 1 / RATE
    while (left := due - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            data, sender = line.recvfrom(9000)
        except TimeoutError:
            break
        kind, theirs, number, payload = read(data)
        if kind == 1 and len(payload) == 8:  # HELLO
            if payload != greeting:
                client, greeting, session, newest, sent = sender, payload, random.getrandbits(63) + 1, 0, 0
            line.sendto(packet(2, session, 0, payload + json.dumps(SAYS).encode()), sender)
        elif kind == 4 and (theirs, sender) == (session, client) and number > newest and len(payload) == 16:  # COMMAND
            newest, power, heard = number, min(max(struct.unpack_from("<d", payload, 8)[0], 0.0), 1.0), time.monotonic()
    on = power if not fallen and time.monotonic() - heard < 0.2 else 0.0  # the watchdog
    heat += (200.0 * on - (heat - 20.0)) / RATE  # here your own: read sensors, drive motors
    fallen = int(heat > 95.0 or (fallen and heat > 40.0))
    reward, tick, sent = max(0.0, 1.0 - abs(heat - 80.0) / 60.0), tick + 1, sent + 1
    if client:
        line.sendto(packet(5, session, sent, struct.pack("<QQIIdd", newest, tick, 0, fallen, reward, heat)), client)
