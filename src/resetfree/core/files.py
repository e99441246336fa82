"""Files that appear whole or not at all, and what lies beside a run file: its writer's lock and SQLite's files.

A draft is written under another name beside its place, and moved into it. The lock of the one writer is released by the
system when that dies. SQLite takes a log (-wal) or journal (-journal) for a part of the file, also if a copy put two
moments together.
"""

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import SQLITE_FULL, SQLITE_IOERR, Error
from typing import Self

from filelock import lock_descriptor

from resetfree.core.errors import RunError
from resetfree.core.system import NOFOLLOW, NONBLOCK, is_alive

DEEPEST = 20  # causes of causes that are followed
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # a full disk, a quota, a limit on the size of files


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """A temporary name to write to: at the end it replaces `path`, after an error it is removed.

    An OSError about the draft is raised as one about `path`, the only name of the two that the user knows.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        yield draft
        draft.replace(path)
    except OSError as error:
        if str(error.filename) != str(draft):
            raise
        lost = error.errno == errno.ENOENT and not path.parent.is_dir()
        raise OSError(
            error.errno, f"There is no folder '{path.parent}'" if lost else error.strerror, str(path)
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def sweep_out(folder: Path) -> None:
    """Remove the drafts in a folder whose processes, on this machine, have ended."""
    for draft in folder.glob("*.new"):
        found = re.fullmatch(r".+\.(\d+)\.new", draft.name)
        if found is not None and not is_alive(int(found[1])):
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def lacks_room(error: BaseException | None) -> bool:
    """Whether an exception was raised because the disk is full: the same call may succeed later."""
    for _ in range(DEEPEST):
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            return True
        if isinstance(error, Error) and (getattr(error, "sqlite_errorcode", 0) & 0xFF) in (SQLITE_FULL, SQLITE_IOERR):
            return True
        error = None if error is None else error.__cause__ or error.__context__
    return False


LOOKS = 3  # attempts of `is_held`: another call of it holds the lock for some microseconds


class WriterLock:
    """An exclusive lock on FILE, kept on the sidecar FILE.lock; removed when it is released.

    The lock is the system's, not the sidecar's existence: a sidecar left by a killed process locks nothing. A file of
    that name with other contents than a sidecar's is locked like one, and otherwise left as it is.
    """

    def __init__(self, path: Path) -> None:
        self._shown = path
        self._sidecar = Path(f"{os.path.realpath(path)}.lock")  # two names of one file share one lock
        self._handle, self._foreign = -1, False

    def acquire(self) -> Self:
        """Take the lock; raises RunError if another process holds it or the disk has no locks."""
        while True:
            try:
                handle = os.open(self._sidecar, os.O_RDWR | os.O_CREAT | NOFOLLOW, 0o644)
            except OSError as error:
                raise RunError(
                    f"The run file '{self._shown}' cannot be written: {error.strerror} in its folder."
                ) from error
            try:
                free = lock_descriptor(handle, blocking=False)
            except OSError as error:
                os.close(handle)
                raise RunError(
                    f"The run file '{self._shown}' cannot be locked: {error.strerror}. Put it on a local disk."
                ) from error
            if not free:
                holder = _holder(handle)
                os.close(handle)
                raise RunError(
                    f"The run file '{self._shown}' is being written by another process{holder}. Wait until it has "
                    "finished, or write to another file."
                ) from BlockingIOError()  # callers distinguish a held lock by this cause
            if self._is_current(handle):
                self._handle, self._foreign = handle, not _is_sidecar(handle)
                if not self._foreign:
                    with suppress(OSError):  # a full disk: the lock holds without it
                        os.ftruncate(handle, 0)
                        os.lseek(handle, 0, os.SEEK_SET)
                        os.write(handle, f"\n{os.getpid()}".encode())
                return self
            os.close(handle)  # the last holder removed the sidecar after it was opened here: try the new one

    def release(self) -> None:
        """Remove the sidecar while it is still locked, then unlock; releasing twice does nothing."""
        if self._handle >= 0:
            if not self._foreign:
                with suppress(OSError):  # Windows keeps a file that is open; left behind, it locks nothing
                    self._sidecar.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._sidecar))
        except FileNotFoundError:
            return False


def _is_sidecar(handle: int) -> bool:
    """Whether a file holds what a sidecar does: nothing, or the number of a process."""
    return stat.S_ISREG(os.fstat(handle).st_mode) and re.fullmatch(rb"(\n\d+)?", os.read(handle, 100)) is not None


def _holder(handle: int) -> str:
    """The number of the process that holds a lock, in brackets; "" if its sidecar does not say.

    It follows one byte, the one that is locked where locks keep others from reading.
    """
    try:
        os.lseek(handle, 1, os.SEEK_SET)
        number = os.read(handle, 20)
    except OSError:
        return ""
    return f" ({number.decode()})" if number.isdigit() else ""


def is_held(path: Path) -> bool:
    """Whether a process is writing FILE. The test takes the lock for a moment; a second test in that moment repeats."""
    try:
        handle = os.open(f"{path}.lock", os.O_RDONLY | NOFOLLOW | NONBLOCK)
    except OSError:
        return False
    try:
        for look in range(LOOKS):
            if lock_descriptor(handle, blocking=False):
                return False
            time.sleep(0.001 * (look + 1 < LOOKS))
        return True
    except OSError:  # no locks on this disk, so none is held
        return False
    finally:
        os.close(handle)


def has_log(path: Path) -> bool:
    """Whether a log with contents lies beside a run file."""
    try:
        return os.stat(f"{os.path.realpath(path)}-wal").st_size > 0
    except OSError:
        return False


def check_log(path: Path, alone: int, together: int) -> None:
    """Refuse a log that is older than its file: SQLite would put the older pages over the newer ones.

    alone, together: commits in the file without the log, and with it. A writer moves commits from the log to the file,
    so that the file is never ahead; in a copy of both it is, if they were copied at different moments.
    """
    if alone > together:
        raise RunError(
            f"Beside the run file '{path}' lies an older log, '{path.name}-wal': they were copied at different times. "
            "Copy them again with `resetfree copy`, or move the log away."
        )


def check_journal(path: Path) -> None:
    """Refuse a rollback journal beside a run file: SQLite would apply it to the file, and delete it.

    It is another program's, as resetfree writes none (`newfile.open_writer`).
    """
    journal = Path(f"{os.path.realpath(path)}-journal")
    try:
        if stat.S_ISREG(journal.lstat().st_mode):
            with journal.open("rb") as file:
                if file.read(1) in (b"", b"\0"):  # empty, or marked as done with
                    return
    except FileNotFoundError:
        return
    except OSError:
        pass
    raise RunError(
        f"Beside the run file '{path}' lies '{journal.name}', in which another program keeps changes that it did not "
        "finish. Let that program open the run file, or move the journal away."
    )


def flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, where a folder can be opened: a power cut then takes none back."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
