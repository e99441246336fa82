"""A board between two processes: one posts messages, the other takes the newest complete one, and neither waits.

A board is a folder of files that both map into their memory. `control` says which message is the newest and where it
is; `data-G` has two places, which messages take by turns. When a message is too large, a file with twice the room
follows. A place carries the number of its message, which is 0 while it is written: a process that is killed in between
leaves the message before it, in the other place, as the newest. Whoever takes a message compares its number before and
after. A digest comes with every message, computed by the process that posts it.

Legend: n = 1, 2, ... number of a message; it is in place n mod 2. G = 1, 2, ... number of a data file.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from resetfree.core.errors import RunError
from resetfree.core.plain_tree import plan_digest
from resetfree.core.system import Closes

T = TypeVar("T")
NEWEST, FIRST, FIELDS = 0, 1, 6  # positions in `control`: the newest number; the fields of place 0; how many per place
NUMBER, FILE, ROOM, SIZE, TAG, DIGEST = range(FIELDS)
CONTROL = 8 * (FIRST + 2 * FIELDS)  # bytes
LEAST = 2**16  # bytes of a place
TRIES = 3  # a writer that laps a reader so often is not waited for


class Posted(NamedTuple):
    """The newest message of a board, without its bytes."""

    number: int  # counted from 1; 0: none
    tag: int  # what its writer says of it
    digest: int


NONE = Posted(0, 0, 0)


class Board(Closes):
    """One end of a board; `make` creates it, `join` opens the other end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._control = _mapped(folder / "control")
        self._words = memoryview(self._control).cast("Q")
        self._data: dict[int, mmap.mmap] = {}
        self._fence = threading.Lock()

    @classmethod
    def make(cls, folder: Path) -> Board:
        """A new, empty board."""
        folder.mkdir(mode=0o700)
        (folder / "control").write_bytes(bytes(CONTROL))
        return cls(folder)

    @classmethod
    def join(cls, folder: Path) -> Board:
        """A board that another process has made; raises RunError if it is gone."""
        try:
            return cls(folder)
        except OSError as error:
            raise RunError(f"The board '{folder}' cannot be opened: {error.strerror}.") from error

    def newest(self) -> Posted:
        """The newest complete message; never waits."""
        for _ in range(TRIES):
            n = self._words[NEWEST]
            at = _place(n)
            found = Posted(n, self._words[at + TAG], self._words[at + DIGEST])
            self._order()
            if n == 0:
                return NONE
            if self._words[at + NUMBER] == n:
                return found
        return NONE

    def take(self, read: Callable[[memoryview], T], after: int = 0) -> tuple[Posted, T] | None:
        """Read the newest message, if its number is larger than `after`; never waits.

        read: makes something of the bytes, which must not be kept. What it raises is dropped if they changed meanwhile.
        """
        for _ in range(TRIES):
            n = self._words[NEWEST]
            if n <= after:
                return None
            at = _place(n)
            number, file, room, size, tag, digest = self._words[at : at + FIELDS]
            if number != n or size > room:
                continue
            self._order()
            data = memoryview(self._file(file, 2 * room))[(n % 2) * room : (n % 2) * room + size]
            failure, made = None, None
            try:
                made = read(data)
            except Exception as error:
                failure = error
            self._order()
            if self._words[at + NUMBER] != n:
                continue
            if failure is not None:
                raise failure
            return Posted(n, tag, digest), made  # type: ignore[return-value]
        return None

    def post(self, data: bytes, tag: int = 0) -> Posted:
        """Post a message; only one process may post at a time."""
        n, digest = self._words[NEWEST] + 1, plan_digest(data)
        at = _place(n)
        self._words[at + NUMBER] = 0
        self._order()
        file, room = self._room_for(len(data))
        begin = (n % 2) * room
        self._data[file][begin : begin + len(data)] = data
        for field, value in ((FILE, file), (ROOM, room), (SIZE, len(data)), (TAG, tag), (DIGEST, digest)):
            self._words[at + field] = value
        self._order()
        self._words[at + NUMBER] = n
        self._order()
        self._words[NEWEST] = n
        return Posted(n, tag, digest)

    def close(self) -> None:
        """Unmap the files; they stay."""
        self._words.release()
        self._control.close()
        for data in self._data.values():
            with suppress(BufferError):  # the traceback of an exception has it: it is unmapped with that
                data.close()
        self._data.clear()

    def _order(self) -> None:
        """Keep what comes before in memory before what comes after, also where processors reorder."""
        with self._fence:
            pass

    def _file(self, number: int, size: int) -> mmap.mmap:
        """The data file of that number, mapped when it is needed for the first time."""
        if number not in self._data:
            self._data[number] = _mapped(self.folder / f"data-{number}", size)
        return self._data[number]

    def _room_for(self, size: int) -> tuple[int, int]:
        """A data file whose places have room, and how much; a new one if this process has none."""
        mine = max(self._data, default=0)
        room = len(self._data[mine]) // 2 if mine else 0
        if size > room or not mine:
            # Numbers of a process that was killed before it announced its file are taken already.
            mine = 1 + max((int(one.name[5:]) for one in self.folder.glob("data-*")), default=0)
            room = max(2 * room, LEAST, 1 << size.bit_length())
            path = self.folder / f"data-{mine}"
            with path.open("xb") as new:
                if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and a crash when pages are written
                    os.posix_fallocate(new.fileno(), 0, 2 * room)
                new.truncate(2 * room)
            self._data[mine] = _mapped(path, 2 * room)
        return mine, room


def _place(n: int) -> int:
    """Where the fields of message n begin in `control`."""
    return FIRST + (n % 2) * FIELDS


def _mapped(path: Path, size: int = CONTROL) -> mmap.mmap:
    """A file in memory, with all its pages where the system can do that at once: the first look is not slower."""
    handle = os.open(path, os.O_RDWR)
    flags = {"flags": mmap.MAP_SHARED | mmap.MAP_POPULATE} if hasattr(mmap, "MAP_POPULATE") else {}
    try:
        return mmap.mmap(handle, size, **flags)
    finally:
        os.close(handle)
