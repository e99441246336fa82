"""Files that appear whole or not at all: written under another name beside their place, and moved into it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import SQLITE_FULL, SQLITE_IOERR, Error

from resetfree.core.system import is_alive

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
