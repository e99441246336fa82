"""The format of a run file: one SQLite database of plain data, read as untrusted input. Nothing in it is executed.

A file is accepted if its header carries our application id, its version is known, and its schema is exactly ours: no
views, no triggers, nothing that SQLite would run. Arrays are uncompressed .npz, read without pickle.
"""

import json
import math
import platform
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, RunError, is_special
from resetfree.core.files import check_journal, check_log, has_log
from resetfree.core.state import MOST_AXES, pack, plain_dtype, unpack
from resetfree.problems import Episode, State
from resetfree.runs.file import digest
from resetfree.runs.file.recorded import (
    COLUMNS,
    FLEET,
    GOALS,
    NEGATIVE_ZERO,
    STARTS,
    TIMING,
    RecordedRound,
    check_timing,
    own_returns,
    unpacked,
    validate,
)
from resetfree.theory.certificates.record import Fit

APPLICATION_ID = 0x72667275  # "rfru", in the header of every run file
FORMAT = 3  # the only one that this version reads
MAGIC = b"SQLite format 3\x00"
START_TYPES = ("INTEGER", "REAL", "TEXT")  # states of a finite problem, numbers, anything else (as JSON)
TIMES = ((False, False), (True, False), (True, True))  # whether there are the columns TIMING, and FLEET
FORMS = tuple((a, b, *c) for a, b, c in product(START_TYPES, (False, True), TIMES))  # arguments of `schema`
PART = 256 * 2**20  # bytes of arrays in one row: SQLite takes no blob of more than 10^9
READ_BATCH = 10_000
ALONE = "ro&immutable=1"  # a mode of `_open`: the file without its log
MOST_TEXT = 2**24  # characters of one JSON text that is parsed
# What parsing untrusted data may raise.
BROKEN = (ValueError, TypeError, RecursionError, OverflowError, MemoryError)
NOWHERE = -1  # integer `next_start` of an episode that was followed by a reset in a persistent environment
DATA = "CREATE TABLE data (i INTEGER PRIMARY KEY, reset INTEGER NOT NULL, form TEXT NOT NULL, data BLOB NOT NULL)"
_INTEGERS = ("k", "reset", "steps", GOALS, *TIMING[:3], "machine", "number", "operator")
_STARTS = ("s1", "next_start")
_CELLS = ({int, float, type(None)}, {int, float, type(None), str})  # of numbers only, and with starts that are text


def schema(
    start_type: str, goals: bool = False, timed: bool = False, fleet: bool = False, data: bool = False
) -> list[str]:
    """The SQL statements that create the tables.

    start_type: one of START_TYPES.  goals, timed, fleet: whether there are the columns GOALS, TIMING and FLEET.
    data: whether there are data from before the first round.
    """
    kinds = {**dict.fromkeys(_INTEGERS, "INTEGER"), **dict.fromkeys(_STARTS, start_type), "k": "INTEGER PRIMARY KEY"}
    columns = ", ".join(f"{name} {kinds.get(name, 'REAL')}" for name in _names(goals, timed, fleet))
    return [
        "CREATE TABLE meta (key TEXT NOT NULL, json TEXT NOT NULL)",
        "CREATE TABLE spec (json TEXT NOT NULL)",
        f"CREATE TABLE rounds ({columns})",
        "CREATE TABLE transitions (k INTEGER PRIMARY KEY, form TEXT NOT NULL, data BLOB NOT NULL)",
        "CREATE TABLE checkpoints (k INTEGER, part INTEGER, seconds REAL, rng TEXT, s1 TEXT, arrays BLOB)",
        "CREATE TABLE problem (part INTEGER, arrays BLOB)",
        "CREATE TABLE certificates (claim TEXT NOT NULL, json TEXT NOT NULL)",
        "CREATE TABLE interventions (json TEXT NOT NULL)",
        digest.TABLE,
        *([DATA] if data else []),
    ]


def _names(goals: bool, timed: bool, fleet: bool) -> tuple[str, ...]:
    return (*COLUMNS, *([GOALS] if goals else []), *(TIMING if timed else []), *(FLEET if fleet else []))


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a game as plain data: with the transitions up to it, enough to resume bit for bit."""

    k: int
    seconds: float  # spent on the run so far, over all sessions
    rng: dict[str, Any]  # state of the bit generator
    s1: State
    arrays: dict[str, NDArray[Any]]


def surroundings() -> dict[str, Any]:
    """Versions and platform, for the record; no names of machines, people or folders."""
    versions = {name: version(name) for name in ("resetfree", "numpy", "numba")}
    return {
        "versions": {**versions, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
        "platform": f"{platform.system()} {platform.machine()}",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def named(path: Path | None) -> str:
    """The subject of a message: the run, or its file."""
    return "The run" if path is None else f"The run file '{path}'"


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading a run file; errors of SQLite become RunError."""
    with closing(connect(path, "ro")) as connection, sentences(path):
        yield connection


@contextmanager
def sentences(path: Path | None) -> Iterator[None]:
    """Turn errors of SQLite into RunError with one sentence."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:  # the latter where a damaged file is quoted in SQLite's own message
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        known = {
            sqlite3.SQLITE_FULL: "could not be written: the disk is full. What was saved before is intact; "
            "free some space and resume.",
            sqlite3.SQLITE_READONLY: "cannot be written: it or its folder is read-only.",
            sqlite3.SQLITE_CANTOPEN: "cannot be opened: its folder does not allow it.",
            sqlite3.SQLITE_BUSY: "is being written by another program.",
            sqlite3.SQLITE_IOERR: f"could not be read or written: {error}. What was saved before is intact.",
        }
        raise RunError(f"{named(path)} {known.get(code, f'is damaged or cut short ({error}).')}") from error


def check_header(path: Path) -> None:
    """Refuse a file that is not a run file, before SQLite opens it."""
    try:
        if is_special(path):
            raise RunError(f"A run file must be a regular file. Got '{path}', a pipe or a device, instead.")
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError as error:
        raise RunError(f"There is no run file '{path}'.") from error
    except OSError as error:
        raise RunError(f"The run file '{path}' cannot be read: {error.strerror}.") from error
    if header[: len(MAGIC)] != MAGIC:
        raise RunError(f"The file '{path}' is not a run file of resetfree.")
    if len(header) < 100:
        raise RunError(f"The run file '{path}' is damaged or cut short (it has {len(header)} bytes).")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise RunError(f"The file '{path}' is a SQLite database, but not a run file of resetfree.")
    check_journal(path)


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a run file with `mode` "ro" or "rw"; raises RunError if it is not one of ours."""
    check_header(path)
    with sentences(path):
        alone = _commits_alone(path)  # before the log is read: a writer may add to both
        connection = _open(path, mode)
        try:
            if mode == "ro" and not _readable(connection):
                # The file is in WAL mode, in a folder where SQLite may not create the files that it needs to read it.
                connection.close()
                connection = _open(path, ALONE)
            _check_ours(connection, path)
            check_log(path, alone, _commits(connection))
        except BaseException:
            connection.close()
            raise
    return connection


def _open(path: Path, mode: str) -> sqlite3.Connection:
    address = f"file:{quote(str(path.absolute()))}?mode={mode}"
    # One thread at a time uses it, not always the one that opened it.
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=30.0, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _commits(connection: sqlite3.Connection) -> int:
    """How many commits are in the file, by the rows of its digests, which are only appended."""
    return int(connection.execute("SELECT coalesce(max(rowid), 0) FROM digests").fetchone()[0])


def _commits_alone(path: Path) -> int:
    """Likewise without its log, 0 if it has none or cannot be read without it."""
    if not has_log(path):
        return 0
    with suppress(sqlite3.Error, UnicodeError), closing(_open(path, ALONE)) as connection:
        return _commits(connection)
    return 0


def _readable(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            return False
        raise
    return True


def _check_ours(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise RunError(
            f"The run file '{path}' has format {found}, and this version of resetfree reads format {FORMAT}. "
            "Install a newer one."
        )
    if 0 < found < FORMAT:
        raise RunError(
            f"The run file '{path}' has format {found}, which holds no transitions, and this version of resetfree "
            f"reads format {FORMAT}. Make the run again: the same seed gives the same rounds."
        )
    tables = {(kind, sql) for kind, sql in connection.execute("SELECT type, sql FROM sqlite_master")}
    ours = (schema(*form, data) for form in FORMS for data in (False, True))
    if found < 1 or not any(tables == {("table", sql) for sql in statements} for statements in ours):
        raise RunError(f"The file '{path}' is not a run file of resetfree: it has other tables.")


def start_type(connection: sqlite3.Connection) -> str:
    """The type of the starts of this run: one of START_TYPES."""
    return _form(connection)[0]


def columns_in(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The columns of the rounds of this run: COLUMNS, GOALS if its problem has goals, TIMING if it is timed, FLEET."""
    return _names(*_form(connection)[1:])


def _form(connection: sqlite3.Connection) -> tuple[str, bool, bool, bool]:
    """The type of the starts, whether there are goals, whether it is timed, and whether it is of a fleet."""
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'rounds'").fetchone()
    return next(form for form in FORMS if schema(*form)[2] == sql)


def read_spec(connection: sqlite3.Connection, path: Path | None) -> dict[str, Any]:
    """The spec, validated."""
    try:
        spec = validate(json.loads(_spec_text(connection)))
        if ("timing" in spec, "machines" in spec.get("timing", {})) != _form(connection)[2:]:
            raise ValueError("it has the columns of a timed run, or its spec says that it is one, but not both")
        return spec
    except BROKEN as error:
        raise damaged(path, error) from error


def _spec_text(connection: sqlite3.Connection) -> str:
    rows = connection.execute("SELECT json FROM spec LIMIT 2").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise ValueError("it has no spec, or more than one")
    if len(rows[0][0]) > MOST_TEXT:
        raise ValueError(f"its spec is longer than {MOST_TEXT} characters")
    return rows[0][0]


def damaged(path: Path | None, error: BaseException) -> RunError:
    """The error for a file with invalid contents."""
    return RunError(f"{named(path)} is damaged or was not written by resetfree: {error}.")


def unfit(path: Path | None, fit: Fit) -> RunError:
    """The error for a file that was changed after it was written."""
    return RunError(
        f"{named(path)} was damaged or edited after it was written: {fit.what} does not fit its digest "
        "(`resetfree certify` gives details; the same seed makes the run again)."
    )


def read_columns(connection: sqlite3.Connection, path: Path | None) -> tuple[dict[str, NDArray[Any]], Fit]:
    """One array [K] per column, and whether the file fits its digest; read in batches to save memory."""
    (n,) = connection.execute("SELECT count(*) FROM rounds").fetchone()
    starts, names = start_type(connection), columns_in(connection)
    integers = (*_INTEGERS, *(_STARTS if starts == "INTEGER" else ()))
    texts = _STARTS if starts == "TEXT" else ()
    columns: dict[str, NDArray[Any]] = {}
    for name in names:
        dtype: Any = object if name in texts else np.int64 if name in integers else np.float64
        columns[name] = np.empty(n, dtype=np.bool_ if name == "reset" else dtype)
    cursor = connection.execute(f"SELECT {', '.join(names)} FROM rounds ORDER BY k")
    done = 0
    try:
        check = digest.DigestCheck(connection, _spec_text(connection), bool(texts))
        while batch := cursor.fetchmany(READ_BATCH):
            rows = slice(done, done + len(batch))
            if not {type(value) for row in batch for value in row} <= _CELLS[bool(texts)]:
                raise ValueError("a round holds a value that is neither a number nor a start")
            check.add(batch)
            if texts:
                for name, column in zip(names, zip(*batch, strict=True), strict=True):
                    values = [decode_start(text) for text in column] if name in texts else column
                    for i, value in enumerate(values):  # one by one: a start may itself be an array
                        columns[name][done + i] = np.nan if value is None and name not in texts else value
            else:
                block = np.array(
                    batch, dtype=np.float64
                )  # [n, columns]; NULL, which is how SQLite keeps nan, becomes nan
                ends = block[:, COLUMNS.index("next_start")]
                ends[np.isnan(ends) & (block[:, COLUMNS.index("reset")] == 1)] = NOWHERE
                for i, name in enumerate(names):
                    if name in integers and not (np.abs(block[:, i]) < 2**53).all():
                        raise ValueError(f"a round has no '{name}'")
                    columns[name][rows] = block[:, i]
            done += len(batch)
        if done != n or not np.array_equal(columns["k"], np.arange(1, n + 1)):
            raise ValueError("its rounds are not numbered from 1 without gaps")
        if TIMING[0] in columns:
            check_timing(columns)
        columns["original_return"] = own_returns(columns)
        return columns, check.result()
    except BROKEN as error:
        raise damaged(path, error) from error


def read_checkpoint(connection: sqlite3.Connection, path: Path | None) -> Checkpoint | None:
    """The newest checkpoint, None before the first."""
    rows = connection.execute(
        "SELECT k, seconds, rng, s1, arrays FROM checkpoints WHERE k = (SELECT max(k) FROM checkpoints) ORDER BY part"
    ).fetchall()
    if not rows:
        return None
    k, seconds, rng, s1, _ = rows[0]
    try:
        if not (isinstance(k, int) and k >= 0 and isinstance(seconds, float) and isinstance(rng, str)):
            raise ValueError("its checkpoint has fields of other types")
        if not 0 <= seconds < math.inf or len(rng) > MOST_TEXT or not isinstance(state := json.loads(rng), dict):
            raise ValueError("its checkpoint has invalid seconds or random numbers")
        arrays = unpack(b"".join(row[-1] for row in rows))
        return Checkpoint(k, seconds, state, decode_start(s1), arrays)
    except BROKEN as error:
        raise damaged(path, error) from error


def read_problem(connection: sqlite3.Connection, path: Path | None) -> dict[str, NDArray[Any]]:
    """The problem's own state after the last round of the file."""
    rows = connection.execute("SELECT arrays FROM problem ORDER BY part").fetchall()
    try:
        return unpack(b"".join(row[0] for row in rows)) if rows else {}
    except BROKEN as error:
        raise damaged(path, error) from error


def read_played(connection: sqlite3.Connection, path: Path | None, first: int, last: int) -> Iterator[RecordedRound]:
    """The rounds `first` to `last` with their episodes, one by one; `recorded.check_episode` checks their contents."""
    names = columns_in(connection)
    goals, rests_on = GOALS if GOALS in names else "0", TIMING[0] if TIMING[0] in names else "-1"
    cursor = connection.execute(
        f"SELECT k, s1, reset, next_start, original_return, {goals}, {rests_on}, form, data FROM rounds "
        "LEFT JOIN transitions USING (k) WHERE k BETWEEN ? AND ? ORDER BY k",
        (first, last),
    )
    as_text = start_type(connection) == "TEXT"
    try:
        for k, s1, reset, end, own, reached, based_on, form, data in cursor:
            states, actions, rewards = unpacked(form, data)
            if as_text:
                s1, end = decode_start(s1), decode_start(end)
            elif form.endswith(NEGATIVE_ZERO):
                end = -0.0
            original = math.nan if own is None else float(own)
            episode = Episode(states, actions, rewards, bool(reset), end, original_return=original, goals=int(reached))
            yield RecordedRound(k, s1, episode, int(based_on))
    except BROKEN as error:
        raise damaged(path, error) from error


def write_checkpoint(connection: sqlite3.Connection, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint, inside the caller's transaction."""
    connection.execute("DELETE FROM checkpoints")
    head = (checkpoint.k, checkpoint.seconds, json.dumps(checkpoint.rng), encode_start(checkpoint.s1))
    for part, data in _parts(checkpoint.arrays):
        row = (head[0], part, *head[1:], data)
        connection.execute("INSERT INTO checkpoints (k, part, seconds, rng, s1, arrays) VALUES (?, ?, ?, ?, ?, ?)", row)


def write_problem(connection: sqlite3.Connection, arrays: dict[str, NDArray[Any]]) -> None:
    """Replace the problem's own state, inside the caller's transaction."""
    connection.execute("DELETE FROM problem")
    connection.executemany("INSERT INTO problem (part, arrays) VALUES (?, ?)", _parts(arrays))


def _parts(arrays: dict[str, NDArray[Any]]) -> Iterator[tuple[int, memoryview]]:
    packed = memoryview(pack(arrays))
    for part, at in enumerate(range(0, len(packed), PART)):
        yield part, packed[at : at + PART]


def plain_row(row: tuple[Any, ...], as_text: bool) -> tuple[Any, ...]:
    """The columns of a round with starts in a type that SQLite takes: text if `as_text`, otherwise numbers."""
    first, last = STARTS
    s1, end = row[first], row[last]
    if as_text:
        s1, end = encode_start(s1), encode_start(end)
    elif type(s1) is not type(end) or not isinstance(s1, int | float):
        kind = int if isinstance(s1, int | np.integer) else float
        s1, end = kind(s1), None if end is None else kind(end)
    else:
        return row
    return (*row[:first], s1, *row[first + 1 : last], end, *row[last + 1 :])


def encode_start(s1: State) -> str:
    """A start as JSON that gives back the same type and the same bits."""
    if isinstance(s1, np.generic):
        s1 = s1.item()
    if isinstance(s1, np.ndarray) and not s1.dtype.hasobject:
        return json.dumps({"dtype": s1.dtype.str, "shape": s1.shape, "values": s1.ravel().tolist()})
    if s1 is None or isinstance(s1, int | float | str):
        return json.dumps(s1)
    raise InvalidInput(f"A run file holds starts that are numbers, text or arrays. Got {type(s1).__name__} instead.")


def decode_start(text: str) -> State:
    """The inverse of `encode_start`; raises ValueError for any other text."""
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise ValueError("a start must be text of bounded length")
    value = json.loads(text)
    if isinstance(value, dict) and {"dtype", "shape", "values"} == set(value):
        dtype, values, shape = plain_dtype(value["dtype"], 4 * len(text)), value["values"], value["shape"]
        lists = isinstance(values, list) and isinstance(shape, list) and len(shape) <= MOST_AXES
        if not lists or not all(type(n) is int and 0 <= n <= len(text) for n in shape):
            raise ValueError("a start has no shape")
        if math.prod(shape) != len(values) or any(isinstance(one, list | dict) for one in values):
            raise ValueError("a start has another number of values than its shape")
        return np.array(values, dtype=dtype).reshape(shape)
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"a start must be a number, text or an array, and is {type(value).__name__}")
