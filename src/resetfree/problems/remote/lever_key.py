"""The key of a machine's lever: where the machine is, and the token that every pull must carry.

The acting process has no key, so that it cannot put the machine back by accident: that is the operator's to do.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypedDict

from resetfree.core import arguments
from resetfree.core.errors import InvalidInput
from resetfree.core.files import drafted
from resetfree.core.settings import Rule, check
from resetfree.core.system import NOFOLLOW
from resetfree.problems.remote.addresses import split_address
from resetfree.problems.remote.packets import TOKEN

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
