"""The lever of a machine: its key file, and the operator that pulls it over the wire, as lever:FILE.

The file is that of `resetfree machine --key FILE`: where the machine is, and the token that every pull must carry. The
acting process has no key, so that it cannot put the machine back by accident: that is the operator's to do.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypedDict

from resetfree.core import arguments
from resetfree.core.errors import InvalidInput, OperatorTimeout
from resetfree.core.files import drafted
from resetfree.core.interrupts import SLICE
from resetfree.core.settings import Rule, check
from resetfree.core.system import NOFOLLOW
from resetfree.problems.operators.channel import Answer, Channel, Request, clean
from resetfree.problems.remote.packets import HEADER, PULL, PULLED, TOKEN, Kind, packet, read
from resetfree.problems.remote.wires import Wire, fresh_buffer, open_wire, split_address

LARGEST = 4096  # bytes of a key file


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
                form = json.loads(given.read(LARGEST))
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
