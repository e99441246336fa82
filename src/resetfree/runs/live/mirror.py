"""A copy of a run file on another machine, for a learner there: rows as plain bytes, in order, each applied once.

Sending a row twice does no harm, and after a gap nothing is taken: whoever sends is answered which round is the newest,
and goes on after that one. What is sent is only ever read from the run file, so that nothing is lost with a process.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.core.plain_tree import decode, encode
from resetfree.core.system import Closes
from resetfree.runs.file.newfile import fill
from resetfree.runs.file.runfile import start_type

Row: TypeAlias = tuple[Any, ...]
BEGINNING = ("meta", "data", "checkpoints")  # tables that are copied before the first round, if they are there
ROUNDS, MOVES = "rounds", "transitions"
MOST_ROWS, MOST_BYTES = 1000, 4 * 2**20  # of one part; a single larger row is a part of its own


def beginning(connection: sqlite3.Connection) -> Iterator[bytes]:
    """What a learner needs of a run file besides its rounds, in parts."""
    (text,) = connection.execute("SELECT json FROM spec").fetchone()
    yield encode({"spec": _bytes(text.encode()), "starts": start_type(connection)})
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table in BEGINNING:
        if table in there:
            yield from _parts(table, connection.execute(f"SELECT * FROM {table} ORDER BY rowid"))


def rounds_after(connection: sqlite3.Connection, k: int) -> tuple[bytes, int, bool]:
    """The next rounds after k as one part, the last of them (k itself if there are none), and whether more follow."""
    moves: list[Row] = []
    size, more = 0, False
    cursor = connection.execute(f"SELECT k, form, data FROM {MOVES} WHERE k > ? ORDER BY k", (k,))
    for row in cursor:
        if moves and (len(moves) == MOST_ROWS or size + len(row[2]) > MOST_BYTES):
            more = True
            break
        moves.append(row)
        size += len(row[2])
    cursor.close()
    last = moves[-1][0] if moves else k
    rounds = connection.execute(f"SELECT * FROM {ROUNDS} WHERE k > ? AND k <= ? ORDER BY k", (k, last)).fetchall()
    return encode({ROUNDS: _plain(rounds), MOVES: _plain(moves)}), last, more


class Mirror(Closes):
    """The copy; `path` is a run file that a `Learner` follows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA synchronous = OFF")  # it is made anew after a crash
        self.parts = 0  # of the beginning that were taken
        self.k = 0  # the newest round

    def begin(self, number: int, part: bytes) -> int:
        """Take part `number` = 1, 2, ... of the beginning if it is the next one; returns how many were taken."""
        if number == self.parts + 1:
            tree = decode(part, {})
            if number == 1:
                fill(self._connection, json.loads(tree["spec"].tobytes()), tree["starts"])
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()  # it is read while it is written
                self._connection.execute(
                    "DELETE FROM meta"
                )  # the row that says when it was created comes with the rest
            elif tree.get("table") in BEGINNING:
                self._insert(tree["table"], tree["rows"])
            else:
                raise InvalidInput("A part of a run file must be rows of one of its tables.")
            self.parts = number
        return self.parts

    def add(self, part: bytes) -> int:
        """Take those rounds of a part that come next; returns the newest round."""
        tree = decode(part, {})
        if not tree[ROUNDS]:
            return self.k
        new = [(row, moves) for row, moves in zip(tree[ROUNDS], tree[MOVES], strict=True) if row[0] > self.k]
        if any(row[0] != k or moves[0] != k for k, (row, moves) in enumerate(new, self.k + 1)):
            return self.k
        self._connection.execute("BEGIN")
        self._insert(ROUNDS, [row for row, _ in new])
        self._insert(MOVES, [moves for _, moves in new])
        self._connection.execute("COMMIT")
        self.k += len(new)
        return self.k

    def close(self) -> None:
        """Close the file; it stays."""
        self._connection.close()

    def _insert(self, table: str, rows: list[Any]) -> None:
        if rows:
            slots = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({slots})", map(_row, rows))


def _parts(table: str, cursor: sqlite3.Cursor) -> Iterator[bytes]:
    rows: list[Row] = []
    size = 0
    for row in cursor:
        own = sum(len(value) for value in row if isinstance(value, bytes | str))
        if rows and (len(rows) == MOST_ROWS or size + own > MOST_BYTES):
            yield encode({"table": table, "rows": _plain(rows)})
            rows, size = [], 0
        rows.append(row)
        size += own
    if rows:
        yield encode({"table": table, "rows": _plain(rows)})


def _plain(rows: list[Row]) -> list[list[Any]]:
    """Rows as `encode` takes them."""
    return [[_bytes(value) if isinstance(value, bytes) else value for value in row] for row in rows]


def _row(values: list[Any]) -> list[Any]:
    """A row as SQLite takes it."""
    return [value.tobytes() if isinstance(value, np.ndarray) else value for value in values]


def _bytes(data: bytes) -> np.ndarray[Any, Any]:
    return np.frombuffer(data, dtype=np.uint8)
