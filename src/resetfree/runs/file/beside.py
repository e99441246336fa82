"""The files that SQLite keeps beside a run file: its log (-wal), and a journal (-journal) that only others leave there.

SQLite takes whatever is there for a part of the file, also what a copy of two moments put together.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from resetfree.core.errors import RunError


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
