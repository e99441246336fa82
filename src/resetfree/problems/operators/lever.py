"""Pulls the lever of a machine over its wire, as lever:FILE with the file of `resetfree machine --key FILE`."""

from __future__ import annotations

import time
from pathlib import Path

from resetfree.core.errors import OperatorTimeout
from resetfree.core.interrupts import SLICE
from resetfree.problems.operators.channel import Channel
from resetfree.problems.operators.messages import clean
from resetfree.problems.operators.request import Answer, Request
from resetfree.problems.remote.addresses import open_wire
from resetfree.problems.remote.lever_key import LeverKey
from resetfree.problems.remote.packets import HEADER, PULL, PULLED, Kind, packet, read
from resetfree.problems.remote.wires import Wire, fresh_buffer

AGAIN = 0.05  # seconds after which a pull that was not confirmed is sent again
PATIENCE = 5.0  # seconds until the machine must confirm


def pull(wire: Wire, token: bytes, seconds: float = PATIENCE) -> int | None:
    """Pull the lever once, however often it has to be sent; returns the life that begins, None without an answer."""
    number = time.time_ns()  # larger than that of every pull before, also of another process
    lever = packet(Kind.LEVER, 0, 0, time.monotonic_ns(), PULL.pack(token, number))
    end, again, buffer = time.monotonic() + seconds, 0.0, fresh_buffer()
    while (now := time.monotonic()) < end:
        if now >= again:
            wire.send(lever)
            again = now + AGAIN
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
    """Pulls the lever for every request: an automatic operator, for machines that stand up by themselves."""

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
