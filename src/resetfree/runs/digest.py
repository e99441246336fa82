"""A digest of what a run file holds, chained from commit to commit: what was changed afterwards shows, and where.

Each commit adds SHA-256(the digest before, the rounds and interventions since, what the file holds besides). The chain
begins with the spec. A mark of four bytes per round (CRC-32) tells which round was changed.

What it can prove: a file whose digest does not fit is not what was written; no damage and no edit of cells passes. What
it cannot prove: whoever rewrites a file with the code below gives it a chain of its own. Only playing the run again
(`certify --replay`) shows that its rounds are those of its players.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.runs.columns import COLUMNS
from resetfree.theory.certificates.record import Fit

TABLE = (
    "CREATE TABLE digests (k INTEGER NOT NULL, interventions INTEGER NOT NULL, checkpoint BLOB NOT NULL, "
    "certificates BLOB NOT NULL, meta BLOB NOT NULL, marks BLOB NOT NULL, digest BLOB NOT NULL)"
)
INSERT = "INSERT INTO digests VALUES (?, ?, ?, ?, ?, ?, ?)"
# Besides rounds, interventions and spec: tables whose contents are replaced, so that only the newest can be checked.
HELD = {
    "checkpoint": "SELECT k, part, seconds, rng, s1, arrays FROM checkpoints ORDER BY k, part, rowid",
    "certificates": "SELECT claim, json FROM certificates ORDER BY rowid",
    "meta": "SELECT key, json FROM meta ORDER BY rowid",
}
NOTHING = hashlib.sha256().digest()
MARK = np.dtype("<u4")
_STARTS = [COLUMNS.index(name) for name in ("s1", "next_start")]
_NUMBERS = [i for i in range(len(COLUMNS)) if i not in _STARTS]


def beginning(spec: str) -> bytes:
    """The digest before the first round, of the spec as it is written."""
    return hashlib.sha256(b"resetfree run\n" + spec.encode()).digest()


def canonical(rows: Sequence[tuple[Any, ...]], as_text: bool) -> list[memoryview]:
    """The bytes of each round, the same before SQLite has kept it and after: NULL is nan, and -0.0 is 0.0.

    as_text: whether starts are text.
    """
    chosen = [[row[i] for i in _NUMBERS] for row in rows] if as_text else rows
    block = np.array(chosen, dtype="<f8") + 0.0
    block[np.isnan(block)] = np.nan
    numbers, width = memoryview(block.tobytes()), 8 * block.shape[1]
    found = [numbers[at : at + width] for at in range(0, len(numbers), width)]
    if as_text:
        texts = ([str(row[i]) for i in _STARTS] for row in rows)
        words = (f"{len(start)}:{start}{end}".encode() for start, end in texts)
        found = [memoryview(bytes(one) + text) for one, text in zip(found, words, strict=True)]
    return found


def marks(found: Iterable[memoryview]) -> bytes:
    """Four bytes for each round."""
    return np.fromiter(map(zlib.crc32, found), dtype=MARK).tobytes()


def held(connection: sqlite3.Connection, part: str) -> bytes:
    """The digest of one of HELD, as the file has it now."""
    digest, empty = hashlib.sha256(), True
    for row in connection.execute(HELD[part]):
        empty = False
        for value in row:
            kept = value if isinstance(value, bytes) else repr(value).encode()
            digest.update(f"{type(value).__name__} {len(kept)}:".encode())
            digest.update(kept)
    return NOTHING if empty else digest.digest()


@dataclass
class Chain:
    """The writer's side: where the digest stands, and what came since."""

    as_text: bool
    digest: bytes
    k: int = 0
    interventions: int = 0
    parts: dict[str, bytes] = field(default_factory=lambda: dict.fromkeys(HELD, NOTHING))

    def __post_init__(self) -> None:
        self._next, self._marks = hashlib.sha256(self.digest), bytearray()

    @classmethod
    def of(cls, connection: sqlite3.Connection, as_text: bool) -> Chain:
        """As the file has it."""
        row = connection.execute("SELECT * FROM digests ORDER BY rowid DESC LIMIT 1").fetchone()
        if row is None:
            raise ValueError("it has no digest")
        _check(row)
        return cls(as_text, row[6], row[0], row[1], dict(zip(HELD, row[2:5], strict=True)))

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rounds that are written."""
        if rows:
            found = canonical(rows, self.as_text)
            self._next.update(b"".join(found))
            self._marks += marks(found)
            self.k += len(rows)

    def intervened(self, texts: Iterable[str]) -> None:
        """Interventions that are written, after the rounds of the same commit."""
        for text in texts:
            self._next.update(_intervention(text))
            self.interventions += 1

    def write(self, connection: sqlite3.Connection, *changed: str) -> None:
        """Add the digest of what came since to the transaction; `changed`: which of HELD were written."""
        self.parts |= {part: held(connection, part) for part in changed}
        self._next.update(_end(self.k, self.interventions, self.parts.values()))
        self.digest = self._next.digest()
        connection.execute(INSERT, (self.k, self.interventions, *self.parts.values(), bytes(self._marks), self.digest))
        self.__post_init__()


class Check:
    """The reader's side: fed with all rounds of a file, it tells what does not fit."""

    def __init__(self, connection: sqlite3.Connection, spec: str, as_text: bool) -> None:
        self._commits = connection.execute("SELECT * FROM digests ORDER BY rowid").fetchall()
        for row in self._commits:
            _check(row)
        self._as_text, self._connection = as_text, connection
        self._texts = [text for (text,) in connection.execute("SELECT json FROM interventions ORDER BY rowid")]
        self._marks = np.frombuffer(b"".join(row[5] for row in self._commits), dtype=MARK)
        self._digest = beginning(spec)
        self._next = hashlib.sha256(self._digest)
        self._at, self._k, self._interventions = 0, 0, 0
        self._wrong: list[NDArray[np.int64]] = []
        self._what = ""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Rounds, in order."""
        found = canonical(rows, self._as_text)
        now = np.frombuffer(marks(found), dtype=MARK)
        then = self._marks[self._k : self._k + len(now)]
        differ = np.ones(len(now), dtype=np.bool_)
        differ[: len(then)] = now[: len(then)] != then
        self._wrong.append(self._k + 1 + np.flatnonzero(differ))
        done = 0
        while done < len(found):
            if self._at == len(self._commits):
                self._k += len(found) - done
                return
            upto = min(len(found), max(done, done + self._commits[self._at][0] - self._k))
            self._next.update(b"".join(found[done:upto]))
            self._k, done = self._k + upto - done, upto
            self._pass()

    def result(self) -> Fit:
        """What does not fit, after all rounds."""
        self._pass()
        wrong = np.concatenate([*self._wrong, np.empty(0, dtype=np.int64)]).astype(np.int64)
        missing = len(self._marks) - self._k
        if missing > 0:
            wrong = np.append(wrong, np.arange(self._k + 1, self._k + 1 + missing))
        if len(wrong):
            return Fit(len(wrong), f"round {int(wrong[0])}")
        what = self._what
        if not what and (self._at < len(self._commits) or not self._commits):
            what = "the list of its commits"
        if not what and len(self._texts) != self._interventions:
            what = "its interventions"
        for part, then in zip(HELD, self._commits[-1][2:5] if self._commits else (), strict=False):
            if not what and held(self._connection, part) != then:
                what = f"its {part}"
        return Fit(0, what)

    def _pass(self) -> None:
        """Close every commit whose rounds are all there."""
        while self._at < len(self._commits) and self._commits[self._at][0] <= self._k:
            k, n, *parts, _, digest = self._commits[self._at]
            for text in self._texts[self._interventions : n]:
                self._next.update(_intervention(text))
            self._next.update(_end(k, n, parts))
            if self._next.digest() != digest and not self._what:
                self._what = f"what was committed with round {k}" if k else "the spec"
            self._interventions, self._at = max(self._interventions, n), self._at + 1
            self._next = hashlib.sha256(digest)


def _intervention(text: Any) -> bytes:
    kept = text.encode() if isinstance(text, str) else repr(text).encode()  # a damaged file may hold anything
    return f"{len(kept)}:".encode() + kept


def _end(k: int, interventions: int, parts: Iterable[bytes]) -> bytes:
    return f"{k},{interventions};".encode() + b"".join(parts)


def _check(row: tuple[Any, ...]) -> None:
    """A row of the table, which somebody else may have written; raises ValueError."""
    whole = all(isinstance(n, int) and n >= 0 for n in row[:2])
    if not whole or not all(isinstance(blob, bytes) for blob in row[2:]) or len(row[5]) % MARK.itemsize:
        raise ValueError("its digests cannot be read")
