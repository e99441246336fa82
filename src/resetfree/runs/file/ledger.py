"""All rounds of a run in one SQLite file. Rounds and their transitions are appended, and never rewritten.

A checkpoint holds the rest of the state, which is small: resuming takes the newest one and the rounds since.

While it is written, the file is in WAL mode, so that it can be read meanwhile, with synchronous = FULL: commits are
seconds apart, so that flushing each to the disk costs no measurable time, and a power cut loses no more than a killed
process does. Each commit is merged into the file at once, so that a copy of the file alone has what was saved. What is
reopened is only read until the first write: a run that cannot go on leaves the file, and those beside it, as they are.
"""

import dataclasses
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeAlias

from numpy.typing import NDArray

from resetfree.core import RunError, record
from resetfree.core.certificate import Certificate
from resetfree.core.files import WriterLock
from resetfree.core.state import same_bits
from resetfree.core.system import Closes
from resetfree.problems import Episode, Intervention, Note
from resetfree.runs.data.dataset import GivenData, Row, read_data
from resetfree.runs.file import runfile
from resetfree.runs.file.digest import Chain
from resetfree.runs.file.newfile import (
    KEY,
    Contents,
    Ending,
    fill,
    lock,
    open_writer,
    raise_unsaved,
    read_episodes,
    remove,
    write_new,
)
from resetfree.runs.file.recorded import COLUMNS, FLEET, GOALS, NEGATIVE_ZERO, TIMING, EpisodeBuffer, RecordedRound
from resetfree.runs.file.runfile import Checkpoint

Arrays: TypeAlias = dict[str, NDArray[Any]]
BATCH = 4096  # rounds buffered in memory; then they are written into the open transaction
END = COLUMNS.index("next_start")
WEIGHT = 2**24  # bytes of transitions buffered in memory, likewise
INSERT_MOVES = "INSERT INTO transitions (k, form, data) VALUES (?, ?, ?)"


class Ledger(Closes):
    """The writer of a run file; made by `create` or `reopen`, and closed as a context manager."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None, lock: WriterLock | None) -> None:
        self._connection, self.path, self._lock = connection, path, lock
        self._pending: list[tuple[Any, ...]] = []
        self._episodes = EpisodeBuffer()  # the episodes of the pending rounds
        self._problem: Arrays = {}  # the problem's own state, as last written
        self._known = False  # whether the file was reopened, or something has been committed to it
        self._reads_only = False  # whether it was reopened, and nothing has been written since
        self.broken = False  # whether a write failed: then nothing more is written
        try:
            with runfile.sentences(path):
                self.spec = runfile.read_spec(connection, path)
                self.episodes = read_episodes(connection, self.spec, path)  # planned, or what it was extended to
                (last,) = connection.execute("SELECT max(k) FROM rounds").fetchone()
                self._chain = _chain(connection, path)
                self._zeros = runfile.start_type(connection) == "REAL"
                names = runfile.columns_in(connection)
        except BaseException:
            connection.close()
            raise
        self.last = int(last or 0)  # the last round appended
        self._counts_goals = GOALS in names
        self._timing = sum(name in names for name in (*TIMING, *FLEET))  # values of a timed round
        self._insert = f"INSERT INTO rounds ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    @classmethod
    def create(
        cls,
        path: Path | None,
        spec: dict[str, Any],
        *,
        starts: str = "INTEGER",
        overwrite: bool = False,
        data: Sequence[Row] = (),
    ) -> Self:
        """The ledger of a new run.

        path: the file (its folder is made), or None for a temporary database, deleted with this object.
        starts: the type of starts, see `runfile.START_TYPES`.
        overwrite: whether a run file may be replaced; a file of another kind never is.
        data: from before the first round, which the spec describes.
        """
        if path is None:
            connection = sqlite3.connect("", isolation_level=None)  # in memory, spilling to the disk if it grows large
            fill(connection, spec, starts, data)
            return cls(connection, None, None)
        held = lock(path)
        try:
            if path.exists() or path.is_symlink():
                if not overwrite:
                    raise RunError(
                        f"The run file '{path}' exists. Continue it (resume=True), replace it (overwrite=True) or "
                        "name another (path=...)."
                    )
                runfile.check_header(path)
            write_new(path, spec, starts, data)
            try:
                return cls(open_writer(path), path, held)
            except RunError as error:
                remove(Path(os.path.realpath(path)))  # an empty run would be in the way
                raise_unsaved(path, error)
        except BaseException:
            held.release()
            raise

    @classmethod
    def reopen(cls, path: Path) -> Self:
        """The ledger of an existing run file."""
        runfile.check_header(path)  # before a lock is put beside a file that is not ours
        held = lock(path)
        try:
            connection = runfile.connect(path, "ro")
            with runfile.sentences(path):
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                connection.close()
                raise runfile.damaged(path, ValueError(verdict))
            ledger = cls(connection, path, held)
            ledger._known = ledger._reads_only = True
            return ledger
        except BaseException:
            held.release()
            raise

    @property
    def untouched(self) -> bool:
        """Whether it was created here and no round was appended."""
        return self.empty and self.last == 0

    @property
    def empty(self) -> bool:
        """Whether it was created here and nothing was committed."""
        return not self._known

    def append(self, row: tuple[Any, ...], episode: Episode | None = None, timing: tuple[Any, ...] = ()) -> None:
        """Append one round, a number or text for each of COLUMNS; it is durable after the next `commit`.

        episode: its transitions; None for a run that cannot be resumed. A run without a file keeps none.
        timing: a number for each of TIMING, of a timed run; of a fleet also for each of FLEET.
        """
        assert len(timing) == self._timing
        if episode is not None and self.path is not None:
            self._episodes.add(episode)
        if self._counts_goals:
            row = (*row, 0 if episode is None else episode.goals)
        row = (*row, *timing) if timing else row
        self._pending.append(row)
        self.last = row[0]
        if len(self._pending) >= BATCH or self._episodes.weight >= WEIGHT:
            with self._writing():
                self._spill()

    def commit(self, checkpoint: Checkpoint | None = None, problem: Arrays | None = None) -> None:
        """Commit all rounds so far.

        checkpoint: of the last of them.  problem: the problem's own state after it; None leaves it unchanged.
        """
        with self._writing():
            self._spill()
            self._write(checkpoint, problem)
        self._known = True

    def _write(self, checkpoint: Checkpoint | None, problem: Arrays | None, *changed: str) -> None:
        """Write the replaced tables and the digest, and commit; `changed`: which of `digest.HELD` were replaced."""
        written = [*changed]
        if checkpoint is not None:
            runfile.write_checkpoint(self._connection, checkpoint)
            written.append("checkpoint")
        if problem and not same_bits(problem, self._problem):
            runfile.write_problem(self._connection, problem)
            written.append("problem")
            self._problem = {name: array.copy() for name, array in problem.items()}
        self._chain.write(self._connection, *written)
        self._connection.execute("COMMIT")

    def totals(self) -> tuple[int, int]:
        """The resets, those requested when it was stuck included, and the steps of the committed rounds."""
        with runfile.sentences(self.path):
            found = self._connection.execute("SELECT coalesce(sum(reset), 0), coalesce(sum(steps), 0) FROM rounds")
            resets, steps = found.fetchone()
            performed = self._connection.execute("SELECT json FROM interventions").fetchall()
        return int(resets) + sum(bool(json.loads(text)["why"] == "stuck") for (text,) in performed), int(steps)

    def intervened(self, interventions: Iterable[Intervention]) -> None:
        """Commit resets by an operator at once, so that none is requested twice."""
        rows = [(json.dumps(dataclasses.asdict(one), allow_nan=False),) for one in interventions]
        if rows:
            with self._writing():
                self._spill()
                self._connection.executemany("INSERT INTO interventions (json) VALUES (?)", rows)
                self._chain.intervened(text for (text,) in rows)
                self._write(None, None)
            self._known = True

    def note(self, k: int, noted: Iterable[Note], problem: Arrays) -> None:
        """Commit what the problem noticed in round k, at once, with the problem's own state after that round."""
        rows = [("note", json.dumps({**dataclasses.asdict(one), "k": k})) for one in noted]
        with self._writing():
            self._spill()
            self._connection.executemany("INSERT INTO meta (key, json) VALUES (?, ?)", rows)
            self._write(None, problem, "meta")
        self._known = True

    def ended(self, ending: Ending) -> None:
        """Commit why the run ended here; a run that goes on has rounds after it."""
        with self._writing():
            self._spill()
            row = ("ended", json.dumps(dataclasses.asdict(ending)))
            self._connection.execute("INSERT INTO meta (key, json) VALUES (?, ?)", row)
            self._write(None, None, "meta")
        self._known = True

    def saved(self) -> tuple[int, float]:
        """The round of the newest checkpoint, and the seconds spent up to it."""
        with runfile.sentences(self.path):
            return _newest(self._connection, self.path, self.last)

    def newest(self) -> tuple[Checkpoint | None, Arrays]:
        """The newest checkpoint, and the problem's own state after the last round.

        Raises RunError if the file does not fit its digest.
        """
        self.saved()
        with runfile.sentences(self.path):
            fit = self.contents().fit
            if not fit.whole:
                raise runfile.unfit(self.path, fit)
            self._problem = runfile.read_problem(self._connection, self.path)
            return runfile.read_checkpoint(self._connection, self.path), self._problem

    def played(self, first: int, last: int) -> Iterator[RecordedRound]:
        """The rounds `first` to `last` with their episodes, one by one."""
        with runfile.sentences(self.path):
            yield from runfile.read_played(self._connection, self.path, first, last)

    def data(self) -> GivenData | None:
        """The data from before the first round."""
        with runfile.sentences(self.path):
            return read_data(self._connection, self.spec, self.path)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Write that the run is resumed after its last round, with a checkpoint of that round."""
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            note = json.dumps({"k": checkpoint.k, **runfile.surroundings()})
            self._connection.execute("INSERT INTO meta (key, json) VALUES ('resumed', ?)", (note,))
            self._write(checkpoint, None, "meta")

    def extend(self, episodes: int, why: Note) -> None:
        """Write that the run has more episodes than planned, and what that means."""
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            row = json.dumps({"k": self.last, "episodes": episodes, **runfile.surroundings()})
            noted = json.dumps({**dataclasses.asdict(why), "k": self.last})
            self._connection.executemany("INSERT INTO meta (key, json) VALUES (?, ?)", [(KEY, row), ("note", noted)])
            self._write(None, None, "meta")
        self.episodes = episodes

    def certify(self, certificates: Iterable[Certificate]) -> None:
        """Replace the certificates of the run."""
        rows = [(c.claim, json.dumps(c.to_dict(), allow_nan=False)) for c in certificates]
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM certificates")
            self._connection.executemany("INSERT INTO certificates (claim, json) VALUES (?, ?)", rows)
            self._write(None, None, "certificates")

    def contents(self) -> Contents:
        """Everything that has been committed."""
        return _contents(self._connection, self.path)

    def settle(self) -> None:
        """Take over a log that was left beside the file, so that closing merges it."""
        if self._reads_only and os.path.exists(f"{os.path.realpath(str(self.path))}-wal"):
            with self._writing():
                self._connection.execute("SELECT json FROM spec").fetchone()  # SQLite opens the log to read

    def discard(self) -> None:
        """Close, and delete a file that nothing was committed to."""
        self.close()
        if self.path is not None:
            remove(self.path)

    def abandon(self) -> None:
        """Roll back what was not committed; nothing more can be written."""
        self.broken = True
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Merge the log into the file, close it and release the lock; what was not committed is rolled back."""
        self.abandon()
        if self.path is not None and not self._reads_only:
            with suppress(sqlite3.Error):  # while the file is read, the log stays beside it, which loses nothing
                self._connection.execute("PRAGMA busy_timeout = 200")
                self._connection.execute("PRAGMA journal_mode = OFF")  # any but WAL; see `open_writer`
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def _spill(self) -> None:
        """Write the buffered rounds into the open transaction."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        forms, data = self._episodes.take()
        assert len(forms) in (0, len(self._pending))
        if self._zeros and forms:
            ends = (row[END] for row in self._pending)
            zeros = (end == 0.0 and math.copysign(1.0, end) < 0 for end in ends)
            forms = [form + NEGATIVE_ZERO if zero else form for form, zero in zip(forms, zeros, strict=True)]
        numbers = [row[0] for row in self._pending[: len(forms)]]
        self._connection.executemany(self._insert, self._pending)
        self._connection.executemany(INSERT_MOVES, zip(numbers, forms, data, strict=True))
        self._chain.add(self._pending, zip(numbers, forms, data, strict=True))
        self._pending.clear()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Roll back if a write fails, and raise RunError."""
        if self.broken:
            raise RunError(f"{runfile.named(self.path)} could not be written before; it is not tried again.")
        try:
            with runfile.sentences(self.path):
                if self._reads_only and self.path is not None:
                    self._connection.close()
                    self._connection, self._reads_only = open_writer(self.path), False
                yield
        except BaseException:
            self.abandon()
            raise


def read(path: str | Path) -> Contents:
    """The contents of a run file, from one snapshot; also while it is being written."""
    with runfile.reading(Path(path)) as connection:
        return _contents(connection, Path(path))


def read_spec_of(path: str | Path) -> dict[str, Any]:
    """The spec of a run file."""
    with runfile.reading(Path(path)) as connection:
        return runfile.read_spec(connection, Path(path))


def read_episodes_of(path: str | Path) -> int:
    """How many episodes the run of a file has in the end."""
    with runfile.reading(Path(path)) as connection:
        return read_episodes(connection, runfile.read_spec(connection, Path(path)), Path(path))


def write_certificates(path: str | Path, certificates: Iterable[Certificate]) -> None:
    """Replace the certificates of a run file; raises RunError while it is being written."""
    with Ledger.reopen(Path(path)) as ledger:
        ledger.certify(certificates)


def _contents(connection: sqlite3.Connection, path: Path | None) -> Contents:
    with runfile.sentences(path):
        connection.execute("BEGIN")  # one snapshot for everything below
        try:
            spec, (columns, fit) = runfile.read_spec(connection, path), runfile.read_columns(connection, path)
            episodes = read_episodes(connection, spec, path)
            k, seconds = _newest(connection, path, len(columns["k"]))
            certificates = [row[0] for row in connection.execute("SELECT json FROM certificates ORDER BY rowid")]
            performed = [row[0] for row in connection.execute("SELECT json FROM interventions ORDER BY rowid")]
            (meta,) = connection.execute("SELECT json FROM meta WHERE key = 'created'").fetchone() or ("{}",)
            noted = [row[0] for row in connection.execute("SELECT json FROM meta WHERE key = 'note' ORDER BY rowid")]
            ends = [row[0] for row in connection.execute("SELECT json FROM meta WHERE key = 'ended' ORDER BY rowid")]
        finally:
            connection.execute("COMMIT")
    try:
        if max(map(len, [*certificates, *performed, *noted, *ends, meta])) > runfile.MOST_TEXT:
            raise ValueError(f"it holds a text of more than {runfile.MOST_TEXT} characters")
        claims = [dict(json.loads(text)) for text in certificates]
        done = tuple(record(Intervention, json.loads(text), "intervention") for text in performed)
        about = json.loads(meta)
        notes = tuple(record(Note, json.loads(text), "note") for text in noted)
        last = record(Ending, json.loads(ends[-1]), "ending") if ends else None
        return Contents(
            spec,
            columns,
            k,
            seconds,
            claims,
            meta=about,
            interventions=done,
            fit=fit,
            notes=notes,
            ended=last if last is not None and last.k == len(columns["k"]) else None,
            episodes=episodes,
        )
    except runfile.BROKEN as error:
        raise runfile.damaged(path, error) from error


def _chain(connection: sqlite3.Connection, path: Path | None) -> Chain:
    try:
        return Chain.of(connection, runfile.start_type(connection) == "TEXT")
    except runfile.BROKEN as error:
        raise runfile.damaged(path, error) from error


def _newest(connection: sqlite3.Connection, path: Path | None, n_rounds: int) -> tuple[int, float]:
    found = connection.execute("SELECT k, seconds FROM checkpoints ORDER BY k DESC LIMIT 1").fetchone() or (0, 0.0)
    good = isinstance(found[0], int) and isinstance(found[1], float) and 0 <= found[1] < math.inf
    if not (good and 0 <= found[0] <= n_rounds):
        raise runfile.damaged(path, ValueError(f"its checkpoint is of round {found[0]}, and it has {n_rounds} rounds"))
    return found[0], found[1]
