"""A private folder for boards, in memory where possible; what a killed run left there, the next run removes."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import lock_descriptor

from resetfree.core.system import NOFOLLOW, owned

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
