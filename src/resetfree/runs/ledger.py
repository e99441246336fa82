"""All rounds of a run in one SQLite file: what was played and the checkpoint that belongs to it become true together.

The file is in WAL mode while it is written, so that others read it meanwhile, with synchronous = FULL: a commit comes
every few seconds only, so a flush to the disk for each costs nothing that can be measured, and a power cut takes no
more than a killed process does. A clean end folds the log into the one file that remains.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Self

from numpy.typing import NDArray

from resetfree.core.certificate import Certificate
from resetfree.core.drafts import lacks_room
from resetfree.core.errors import RunError
from resetfree.core.lock import WriterLock
from resetfree.problems.contract import Intervention
from resetfree.runs.columns import COLUMNS
from resetfree.runs.digest import Chain, beginning
from resetfree.runs.runfile import (
    APPLICATION_ID,
    BROKEN,
    FORMAT,
    MOST_TEXT,
    Checkpoint,
    check_header,
    connect,
    damaged,
    named,
    read_checkpoint,
    read_columns,
    read_spec,
    schema,
    sentences,
    start_type,
    surroundings,
    write_checkpoint,
)
from resetfree.theory.certificates.record import Fit

BATCH = 4096  # rounds held in memory; more of them wait in the open transaction
INSERT = f"INSERT INTO rounds ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class Ledger:
    """The writer's side of a run; made by `create` or `reopen`, and closed as a context manager."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None, lock: WriterLock | None) -> None:
        self._connection, self.path, self._lock = connection, path, lock
        self._pending: list[tuple[Any, ...]] = []
        self._known = False  # whether it held something before, or something has been saved in it
        self.broken = False  # whether a write failed: then nothing more is tried
        try:
            with sentences(path):
                self.spec = read_spec(connection, path)
                (last,) = connection.execute("SELECT max(k) FROM rounds").fetchone()
                self._chain = _chain(connection, path)
        except BaseException:
            connection.close()
            raise
        self.last = int(last or 0)  # the last round appended

    @classmethod
    def create(
        cls, path: Path | None, spec: dict[str, Any], *, starts: str = "INTEGER", overwrite: bool = False
    ) -> Self:
        """A run with no rounds yet.

        path: the file (its folder is made), or None for one that lives as long as this object.
        starts: how starts are kept, see `runfile.START_TYPES`.
        overwrite: whether a run file may be replaced; a file of another kind never is.
        """
        if path is None:
            connection = sqlite3.connect("", isolation_level=None)  # in memory, and on the disk if it grows large
            _fill(connection, spec, starts)
            return cls(connection, None, None)
        lock = _lock(path)
        try:
            if path.exists() or path.is_symlink():
                if not overwrite:
                    raise RunError(f"The run file '{path}' exists. Resume it, overwrite it, or name another file.")
                check_header(path)
            _write_new(path, spec, starts)
            try:
                return cls(_writer(path), path, lock)
            except RunError as error:
                _remove(Path(os.path.realpath(path)))  # an empty run would be in the way
                raise_unsaved(path, error)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """A run that goes on."""
        check_header(path)  # before a lock is put beside what is not a run file
        lock = _lock(path)
        try:
            connection = _writer(path)
            with sentences(path):
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                connection.close()
                raise damaged(path, ValueError(verdict))
            ledger = cls(connection, path, lock)
            ledger._known = True
            return ledger
        except BaseException:
            lock.release()
            raise

    @property
    def untouched(self) -> bool:
        """Whether it was created here and nothing was ever put into it."""
        return self.empty and self.last == 0

    @property
    def empty(self) -> bool:
        """Whether it was created here and nothing is saved in it."""
        return not self._known

    def append(self, row: tuple[Any, ...]) -> None:
        """Take one round, a plain number or text for each of COLUMNS; it is safe after the next `commit`."""
        self._pending.append(row)
        self.last = row[0]
        if len(self._pending) >= BATCH:
            with self._writing():
                self._spill()

    def commit(self, checkpoint: Checkpoint | None = None) -> None:
        """Make all rounds so far true, together with the checkpoint that belongs to them."""
        with self._writing():
            self._spill()
            if checkpoint is not None:
                write_checkpoint(self._connection, checkpoint)
            self._chain.write(self._connection, *([] if checkpoint is None else ["checkpoint"]))
            self._connection.execute("COMMIT")
        self._known = True

    def resets(self) -> int:
        """How many of the rounds so far ended in a reset."""
        with sentences(self.path):
            (n,) = self._connection.execute("SELECT coalesce(sum(reset), 0) FROM rounds").fetchone()
        return int(n)

    def intervened(self, interventions: Iterable[Intervention]) -> None:
        """Keep resets that somebody performed, at once: nobody should be asked twice what they did."""
        rows = [(json.dumps(dataclasses.asdict(one), allow_nan=False),) for one in interventions]
        if rows:
            with self._writing():
                self._spill()
                self._connection.executemany("INSERT INTO interventions (json) VALUES (?)", rows)
                self._chain.intervened(text for (text,) in rows)
                self._chain.write(self._connection)
                self._connection.execute("COMMIT")
            self._known = True

    def saved(self) -> tuple[int, float]:
        """The round of the newest checkpoint, and the seconds spent up to it."""
        with sentences(self.path):
            return _newest(self._connection, self.path, self.last)

    def resume(self, accept: Callable[[Checkpoint | None], object] | None = None) -> Checkpoint | None:
        """Go back to the newest checkpoint: return it, and drop the rounds after it; they will be played again.

        Refused where something does not fit its digest: what would be built on it is worth nothing.
        accept: gets the checkpoint before anything is dropped; where it raises, the file stays as it is.
        """
        k, _ = self.saved()
        with sentences(self.path):
            fit = self.contents().fit  # all that will be read again when the run has ended
            if not fit.whole:
                raise unfit(self.path, fit)
            checkpoint = read_checkpoint(self._connection, self.path)
        if accept is not None:
            accept(checkpoint)
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM rounds WHERE k > ?", (k,))
            self._connection.execute("DELETE FROM digests WHERE k > ?", (k,))
            self._chain = _chain(self._connection, self.path)
            later = self._connection.execute(  # resets that were performed stay performed
                "SELECT json FROM interventions ORDER BY rowid LIMIT -1 OFFSET ?", (self._chain.interventions,)
            )
            self._chain.intervened(text for (text,) in later)
            note = json.dumps({"k": k, **surroundings()})
            self._connection.execute("INSERT INTO meta (key, json) VALUES ('resumed', ?)", (note,))
            self._chain.write(self._connection, "meta", "certificates", "checkpoint")
            self._connection.execute("COMMIT")
        self.last = k
        return checkpoint

    def certify(self, certificates: Iterable[Certificate]) -> None:
        """Put these certificates in the place of those before."""
        rows = [(c.claim, json.dumps(c.to_dict(), allow_nan=False)) for c in certificates]
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM certificates")
            self._connection.executemany("INSERT INTO certificates (claim, json) VALUES (?, ?)", rows)
            self._chain.write(self._connection, "certificates")
            self._connection.execute("COMMIT")

    def contents(self) -> Contents:
        """What has been committed, read back."""
        return _contents(self._connection, self.path)

    def discard(self) -> None:
        """Close, and remove a file that nothing was ever written to."""
        self.close()
        if self.path is not None:
            _remove(self.path)

    def close(self) -> None:
        """Fold the log into the file and let go of it; what was not committed is gone."""
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        if self.path is not None:
            with suppress(
                sqlite3.Error
            ):  # somebody is reading: then the log stays beside the file, and all is well too
                self._connection.execute("PRAGMA busy_timeout = 200")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _spill(self) -> None:
        """Move what is pending into the open transaction."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(INSERT, self._pending)
        self._chain.add(self._pending)
        self._pending.clear()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """All or nothing, and a sentence if nothing."""
        if self.broken:
            raise RunError(f"{named(self.path)} could not be written before; it is not tried again.")
        try:
            with sentences(self.path):
                yield
        except BaseException:
            self.broken = True
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise


@dataclass(frozen=True, eq=False)
class Contents:
    """A run file as plain data."""

    spec: dict[str, Any]
    columns: dict[str, NDArray[Any]] = field(repr=False)
    k: int  # the round of the newest checkpoint
    seconds: float  # spent up to it
    certificates: list[dict[str, Any]] = field(repr=False)
    meta: dict[str, Any] = field(repr=False)  # versions, platform and time of the first session
    interventions: tuple[Intervention, ...] = field(repr=False)
    fit: Fit  # how all of it fits the digest that was written with it

    @property
    def finished(self) -> bool:
        """Whether every episode was played."""
        return bool(self.k >= self.spec["episodes"])


def read(path: str | Path) -> Contents:
    """All of a run file, as it was at one moment; also while it is being written."""
    path = Path(path)
    connection = connect(path, "ro")
    try:
        return _contents(connection, path)
    finally:
        connection.close()


def read_spec_of(path: str | Path) -> dict[str, Any]:
    """Only what a run file was asked to do."""
    connection = connect(Path(path), "ro")
    try:
        with sentences(Path(path)):
            return read_spec(connection, Path(path))
    finally:
        connection.close()


def write_certificates(path: str | Path, certificates: Iterable[Certificate]) -> None:
    """Put certificates into a run file that nobody is writing, in the place of those before."""
    with Ledger.reopen(Path(path)) as ledger:
        ledger.certify(certificates)


def _contents(connection: sqlite3.Connection, path: Path | None) -> Contents:
    with sentences(path):
        connection.execute("BEGIN")  # one snapshot for everything below
        try:
            spec, (columns, fit) = read_spec(connection, path), read_columns(connection, path)
            k, seconds = _newest(connection, path, len(columns["k"]))
            certificates = [row[0] for row in connection.execute("SELECT json FROM certificates ORDER BY rowid")]
            performed = [row[0] for row in connection.execute("SELECT json FROM interventions ORDER BY rowid")]
            (meta,) = connection.execute("SELECT json FROM meta WHERE key = 'created'").fetchone() or ("{}",)
        finally:
            connection.execute("COMMIT")
    try:
        if max(map(len, [*certificates, *performed, meta])) > MOST_TEXT:
            raise ValueError(f"it holds a text of more than {MOST_TEXT} characters")
        claims = [dict(json.loads(text)) for text in certificates]
        done = tuple(map(_intervention, performed))
        return Contents(spec, columns, k, seconds, claims, json.loads(meta), done, fit)
    except BROKEN as error:
        raise damaged(path, error) from error


def _intervention(text: str) -> Intervention:
    """One row, checked: a file is data that somebody else may have written."""
    row = json.loads(text)
    kinds = {"k": int, "why": str, "detail": str, "who": str, "asked": str, "answered": str, "seconds": float | int}
    if not isinstance(row, dict) or set(row) != set(kinds):
        raise ValueError("an intervention has other fields")
    if not all(isinstance(row[name], kind) for name, kind in kinds.items()):
        raise ValueError("an intervention has a field of another type")
    return Intervention(**row)


def unfit(path: Path | None, fit: Fit) -> RunError:
    """The sentence for a file that was changed after it was written."""
    return RunError(
        f"{named(path)} was damaged or edited after it was written: {fit.what} does not fit its digest "
        "(`resetfree certify` tells more; the same seed makes the run again)."
    )


def _chain(connection: sqlite3.Connection, path: Path | None) -> Chain:
    try:
        return Chain.of(connection, start_type(connection) == "TEXT")
    except BROKEN as error:
        raise damaged(path, error) from error


def _newest(connection: sqlite3.Connection, path: Path | None, n_rounds: int) -> tuple[int, float]:
    found = connection.execute("SELECT k, seconds FROM checkpoints ORDER BY k DESC LIMIT 1").fetchone() or (0, 0.0)
    good = isinstance(found[0], int) and isinstance(found[1], float) and 0 <= found[1] < math.inf
    if not (good and 0 <= found[0] <= n_rounds):
        raise damaged(path, ValueError(f"its checkpoint is of round {found[0]}, and it has {n_rounds} rounds"))
    return found[0], found[1]


def _lock(path: Path) -> WriterLock:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise RunError(f"A run file must lie in a folder. Got '{path.parent}', which is none.") from error
    except OSError as error:
        raise RunError(f"The folder of the run file '{path}' cannot be made: {error.strerror}.") from error
    if path.is_dir():
        raise RunError(f"A run file must be a file. Got the folder '{path}' instead.")
    return WriterLock(path).acquire()


def _writer(path: Path) -> sqlite3.Connection:
    connection = connect(path, "rw")
    with sentences(path):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
    return connection


def _write_new(path: Path, spec: dict[str, Any], starts: str) -> None:
    """A new file appears whole or not at all, and one that it replaces stays until then."""
    target = os.path.realpath(path)
    draft = Path(f"{target}.new")
    beside = [Path(f"{draft}-journal"), draft]
    try:
        for leftover in beside:
            leftover.unlink(missing_ok=True)
        with sentences(path):
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                _fill(connection, spec, starts)
            finally:
                connection.close()
        for log in (Path(f"{target}-wal"), Path(f"{target}-shm")):  # SQLite would read an old file's log into the new
            log.unlink(missing_ok=True)
        draft.replace(target)
        folder = os.open(os.path.dirname(target), os.O_RDONLY)  # a power cut must not take the new name back
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise RunError(f"The run file '{path}' cannot be written: {error.strerror}.") from error
    except RunError as error:
        raise_unsaved(path, error)
    finally:
        with suppress(OSError):
            for leftover in beside:
                leftover.unlink(missing_ok=True)


def _remove(path: Path) -> None:
    """A run file, and its log where that could not be folded into it."""
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def raise_unsaved(path: Path | None, error: RunError) -> NoReturn:
    """Raise the sentence for a run of which nothing could be saved, and nothing is left."""
    if lacks_room(error):
        words = f"{named(path)} could not be written: the disk is full. Free some space and try again."
        raise RunError(words) from error
    raise error


def _fill(connection: sqlite3.Connection, spec: dict[str, Any], starts: str) -> None:
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("BEGIN")
    for statement in schema(starts):
        connection.execute(statement)
    text = json.dumps(spec, allow_nan=False)
    connection.execute("INSERT INTO spec (json) VALUES (?)", (text,))
    note = json.dumps({"format": FORMAT, **surroundings()})
    connection.execute("INSERT INTO meta (key, json) VALUES ('created', ?)", (note,))
    Chain(starts == "TEXT", beginning(text)).write(connection, "meta")
    connection.execute("COMMIT")
