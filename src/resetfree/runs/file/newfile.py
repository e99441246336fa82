"""Creating a run file: the lock beside it, the atomic write, and its tables; what it holds, and how the run ends."""

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

from numpy.typing import NDArray

from resetfree.core import RunError
from resetfree.core.files import WriterLock, check_journal, drafted, flush_folder, lacks_room
from resetfree.game.contract import MOST_EPISODES
from resetfree.problems import Intervention, Note
from resetfree.runs.data.dataset import Row, write_data
from resetfree.runs.file.digest import Chain, beginning
from resetfree.runs.file.runfile import (
    APPLICATION_ID,
    BROKEN,
    FORMAT,
    MOST_TEXT,
    connect,
    damaged,
    named,
    reading,
    schema,
    sentences,
    surroundings,
)
from resetfree.theory.certificates.record import Fit

Kind: TypeAlias = Literal["max_resets", "steps", "seconds", "callback", "stopped"]
STOPPED = "the user stopped it"  # by Ctrl-C or SIGTERM
LONGEST = 500  # characters of a reason that are kept
KEY = "extended"  # of a row of the table meta: one for each extension, the last one counts


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run after round k, which may go on later: what ended it, and why in words."""

    k: int
    kind: Kind
    why: str


def read_episodes(connection: sqlite3.Connection, spec: dict[str, Any], path: Path | None) -> int:
    """How many episodes the run has in the end: those that were planned, or what it was extended to."""
    row = connection.execute("SELECT json FROM meta WHERE key = ? ORDER BY rowid DESC LIMIT 1", (KEY,)).fetchone()
    planned: int = spec["episodes"]
    if row is None:
        return planned
    try:
        found = json.loads(row[0])["episodes"] if isinstance(row[0], str) and len(row[0]) <= MOST_TEXT else None
        if type(found) is not int or not planned < found <= MOST_EPISODES:
            raise ValueError(f"it is extended to {str(found)[:20]} episodes, and was planned for {planned}")
    except (*BROKEN, KeyError) as error:
        raise damaged(path, error) from error
    return found


def lock(path: Path) -> WriterLock:
    """The lock of a run file for one writer; makes its folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunError(f"A run file must lie in a folder. Got '{path.parent}', which is not a folder.") from error
    except OSError as error:
        raise RunError(f"The folder of the run file '{path}' cannot be made: {error.strerror}.") from error
    if path.is_dir():
        raise RunError(f"A run file must be a file. Got the folder '{path}' instead.")
    return WriterLock(path).acquire()


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection for writing, which flushes every commit to the disk.

    The change of mode writes a few bytes of one sector, so that it needs no rollback journal; a file of that name is
    another program's.
    """
    connection = connect(path, "rw")
    with sentences(path):
        try:
            if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
                connection.execute("PRAGMA journal_mode = OFF").fetchone()
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
            # Every commit is merged into the file at once, so that a copy of the file has what was saved. In a log of
            # many commits, one that is begun anew while it is copied ends early, and looks whole.
            connection.execute("PRAGMA wal_autocheckpoint = 1")
        except BaseException:
            connection.close()
            raise
    return connection


def write_new(path: Path, spec: dict[str, Any], starts: str, data: Sequence[Row] = ()) -> None:
    """Write a new run file atomically: a file that it replaces stays until the new one is complete."""
    check_journal(path)
    target = os.path.realpath(path)
    draft = Path(f"{target}.new")
    beside = [Path(f"{draft}-journal"), draft]
    try:
        for leftover in beside:
            leftover.unlink(missing_ok=True)
        with sentences(path):
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                fill(connection, spec, starts, data)
            finally:
                connection.close()
        for log in (Path(f"{target}-wal"), Path(f"{target}-shm")):  # SQLite would read an old file's log into the new
            log.unlink(missing_ok=True)
        draft.replace(target)
        flush_folder(Path(target).parent)
    except OSError as error:
        raise RunError(f"The run file '{path}' cannot be written: {error.strerror}.") from error
    except RunError as error:
        raise_unsaved(path, error)
    finally:
        with suppress(OSError):
            for leftover in beside:
                leftover.unlink(missing_ok=True)


def copy_run(path: Path, target: Path) -> None:
    """Copy a run file, also while it is being written: everything of one moment in one file, or nothing.

    Raises RunError if there is a file `target`.
    """
    try:
        if target.exists() or target.is_symlink():
            raise RunError(f"The file '{target}' exists, and a copy replaces nothing. Name another file.")
        with reading(path) as connection, drafted(target) as draft, sentences(target):
            draft.touch()
            with closing(sqlite3.connect(draft, isolation_level=None)) as made:
                connection.backup(made)
                made.execute("PRAGMA journal_mode = DELETE").fetchone()  # needs no log
        flush_folder(target.absolute().parent)
    except OSError as error:
        raise RunError(f"The copy '{target}' cannot be written: {error.strerror}.") from error


def remove(path: Path) -> None:
    """Delete a run file, and its log if there is one."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def raise_unsaved(path: Path | None, error: RunError) -> NoReturn:
    """Raise the error of a run of which nothing could be saved; a full disk gets a sentence of its own."""
    if lacks_room(error):
        words = f"{named(path)} could not be written: the disk is full. Free some space and try again."
        raise RunError(words) from error
    raise error


def fill(connection: sqlite3.Connection, spec: dict[str, Any], starts: str, data: Sequence[Row] = ()) -> None:
    """Create the tables of a run without rounds, with its spec and the data from before the first round."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("BEGIN")
    kinds = {"goals": spec.get("after_goal") is not None, "timed": "timing" in spec, "data": "data" in spec}
    kinds["fleet"] = "machines" in spec.get("timing", {})
    for statement in schema(starts, **kinds):
        connection.execute(statement)
    if data:
        write_data(connection, data)
    text = json.dumps(spec, allow_nan=False)
    connection.execute("INSERT INTO spec (json) VALUES (?)", (text,))
    note = json.dumps({"format": FORMAT, **surroundings()})
    connection.execute("INSERT INTO meta (key, json) VALUES ('created', ?)", (note,))
    Chain(starts == "TEXT", beginning(text)).write(connection, "meta")
    connection.execute("COMMIT")


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a run file as plain data."""

    spec: dict[str, Any]
    columns: dict[str, NDArray[Any]] = field(repr=False)
    k: int  # the round of the newest checkpoint
    seconds: float  # spent up to it
    certificates: list[dict[str, Any]] = field(repr=False)
    meta: dict[str, Any] = field(repr=False)  # versions, platform and time of the first session
    interventions: tuple[Intervention, ...] = field(repr=False)
    fit: Fit  # whether it fits its digest
    notes: tuple[Note, ...] = ()
    ended: Ending | None = None  # why it ended after its last round, if something ended it
    episodes: int = 0  # those that were planned, or what the run was extended to

    @property
    def finished(self) -> bool:
        """Whether every episode was played."""
        return self.k >= self.episodes
