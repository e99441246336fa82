"""What two processes share in memory: boards for messages, which neither waits for, and the learner's progress.

A board is a folder of files that both map into their memory. `control` says which message is the newest and where it
is; `data-G` has two places, which messages take by turns. When a message is too large, a file with twice the room
follows. A place carries the number of its message, which is 0 while it is written: a process that is killed in between
leaves the message before it, in the other place, as the newest. Whoever takes a message compares its number before and
after. A digest comes with every message, computed by the process that posts it. The folder is private, in memory where
possible; what a killed run left there, the next run removes.

Legend: n = 1, 2, ... number of a message; it is in place n mod 2. G = 1, 2, ... number of a data file.

Whether a learner hangs: it is stopped, or spends far longer on one plan or one update than a learner does. It counts
what it has done (`Progress`): each round that it read, each plan, each checkpoint, and once a second while it has
nothing to do. Whoever watches looks at the count on ticks of its own (`Vigil`). Between two ticks with the same count,
a learner is charged for the time in which it could have gone on, and for at most one tick:

  stopped (SIGSTOP)            the tick
  it wants a processor         the processor time that it got: a busy machine is not its fault
  it waits for the disk, or a debugger has it    nothing
  it waits for anything else   the tick: a deadlock, or a program that it has called

So a machine that was suspended, which takes the watching side its ticks too, charges it for one tick. No program can
tell an endless loop from a long computation: a learner may take `patience` seconds for one piece of work, three times
as long as its longest piece so far, and twice as long after each time that it was ended for it.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from filelock import lock_descriptor

from resetfree.core import RunError
from resetfree.core.plain_tree import plan_digest
from resetfree.core.system import NOFOLLOW, Activity, Closes, owned

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


SHARED = Path("/dev/shm")  # where files are memory, if the system has such a place
PREFIX, OWNER = "resetfree-board-", "owner"  # of folders; and the file in each that is locked while it is used
FRESH = 60.0  # seconds after which an unlocked folder counts as abandoned


@contextmanager
def board_folder() -> Iterator[Path]:
    """A new folder until the end of the block; those whose owners were killed are removed before."""
    place = SHARED if os.access(SHARED, os.W_OK) else Path(tempfile.gettempdir())
    remove_abandoned(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    try:
        handle = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_descriptor(handle, blocking=False)  # the system releases it however this process ends
            yield folder
        finally:
            os.close(handle)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(place: Path) -> None:
    """Remove this user's folders of boards whose owners hold no lock on them any more."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or not owned(about) or time.time() - about.st_mtime < FRESH:
                continue
            handle = os.open(folder / OWNER, os.O_RDWR | NOFOLLOW)
        except OSError:
            continue
        try:
            abandoned = lock_descriptor(handle, blocking=False)
        except OSError:  # this disk has no locks: it is unknown
            abandoned = False
        finally:
            os.close(handle)
        if abandoned:
            shutil.rmtree(folder, ignore_errors=True)


TICK = 0.5  # seconds between two looks
STOPPED = 5.0  # seconds for which a learner may be stopped
TIMES = 3.0  # a piece of work may take so many times as long as the longest before
MOST = 5  # hangs in a row, without a new plan in between, after which the run ends
COUNT_FILE, COUNT_BYTES = "progress", 8  # name and bytes of the count beside the boards


class Progress(Closes):
    """How much a learner has done: a number in memory that two processes share."""

    def __init__(self, folder: Path) -> None:
        with (folder / COUNT_FILE).open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), COUNT_BYTES)
        self._words = memoryview(self._file).cast("Q")

    @classmethod
    def make(cls, folder: Path) -> Progress:
        """A new one, at 0."""
        (folder / COUNT_FILE).write_bytes(bytes(COUNT_BYTES))
        return cls(folder)

    @property
    def count(self) -> int:
        """The number."""
        return self._words[0]

    def advance(self) -> None:
        """Count one more piece of work; only one thread of one process does."""
        self._words[0] += 1

    def close(self) -> None:
        """Unmap the file."""
        self._words.release()
        self._file.close()


class Vigil:
    """Judges whether the learners of a run hang, one after the other.

    patience: seconds that one may take for one piece of work, of the time in which it could have worked.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._row, self._plan = 0, -1  # hangs since the newest plan, and its number
        self._longest = 0.0  # seconds of a piece of work that came to its end
        self.begin()

    def begin(self) -> None:
        """Another learner begins."""
        self._charged = self._stopped = 0.0  # seconds of this piece of work, and those in which it was stopped
        self._count, self._now = -1, -1.0
        self._activity: Activity | None = None

    @property
    def limit(self) -> float:
        """Seconds that a piece of work may take now."""
        return max(self._patience * 2.0**self._row, TIMES * self._longest)

    def see(self, now: float, count: int, activity: Activity | None) -> str | None:
        """Why the learner hangs, None if it does not.

        now: seconds of a clock that goes on.  count: its progress.  activity: its threads, None if that is not known.
        """
        passed, before = min(now - self._now, TICK) if self._now >= 0.0 else 0.0, self._activity
        self._now, self._activity = now, activity
        if count != self._count:
            self._longest = max(self._longest, self._charged)
            self._count, self._charged, self._stopped = count, 0.0, 0.0
            return None
        is_stopped = activity is not None and activity.is_stopped
        self._stopped = self._stopped + passed if is_stopped else 0.0
        self._charged += passed if activity is None or before is None else activity.could_use(before, passed)
        if self._stopped >= STOPPED:
            return f"it was stopped for {self._stopped:.0f} s"
        if self._charged >= self.limit:
            return f"no plan, update or checkpoint came to its end in {self._charged:.3g} s of its own time"
        return None

    def is_new(self, count: int) -> bool:
        """Whether the learner has gone on since the last look."""
        return count != self._count

    def planned(self, plan: int) -> None:
        """A plan of this number is there: hangs before it are not in a row with those to come."""
        if plan != self._plan:
            self._row, self._plan = 0, plan

    def hung(self) -> bool:
        """Count a hang; whether another learner may be started."""
        self._row += 1
        self.begin()
        return self._row < MOST


def given_up(why: str) -> str:
    """The sentence when a run ends because its learner hangs."""
    return (
        f"The learner hung {MOST} times in a row without a new plan between (at last {why}): it is not started again. "
        "The rounds so far are saved. If its plans take so long, give rate=Deadlines(HZ, patience=SECONDS) in Python."
    )
