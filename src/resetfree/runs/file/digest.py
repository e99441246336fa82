"""A hash chain over the contents of a run file, one link per commit: it detects later changes, and locates them.

Each commit adds SHA-256(the previous digest, the new rounds and interventions, the digests of the replaced tables,
SHA-256 of the new transitions). The chain begins with the spec. A checksum of four bytes per round (CRC-32),
transitions included, locates a changed round.

It detects damage and edits of cells. It does not detect forgery: a file that is rewritten with the code below has a
valid chain. Only replaying the run (`certify --replay`) shows that its rounds are those of its players.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.runs.file.recorded import STARTS
from resetfree.theory.certificates.record import Fit

TABLE = (
    "CREATE TABLE digests (k INTEGER NOT NULL, interventions INTEGER NOT NULL, checkpoint BLOB NOT NULL, "
    "certificates BLOB NOT NULL, meta BLOB NOT NULL, problem BLOB NOT NULL, transitions BLOB NOT NULL, "
    "marks BLOB NOT NULL, digest BLOB NOT NULL)"
)
INSERT = f"INSERT INTO digests VALUES ({', '.join('?' * 9)})"
# Tables whose contents are replaced, so that only the newest can be checked; all others are append-only.
HELD = {
    "checkpoint": "SELECT k, part, seconds, rng, s1, arrays FROM checkpoints ORDER BY k, part, rowid",
    "certificates": "SELECT claim, json FROM certificates ORDER BY rowid",
    "meta": "SELECT key, json FROM meta ORDER BY rowid",
    "problem": "SELECT part, arrays FROM problem ORDER BY part, rowid",
}
Move: TypeAlias = tuple[int, str, bytes]  # a row of the table transitions: round, form and bytes
NOTHING = hashlib.sha256().digest()
MARK = np.dtype("<u4")


def beginning(spec: str) -> bytes:
    """The digest before the first round: that of the spec's text."""
    return hashlib.sha256(b"resetfree run\n" + spec.encode()).digest()


def canonical(rows: Sequence[tuple[Any, ...]], as_text: bool) -> list[memoryview]:
    """The bytes of each round, equal before and after a round trip through SQLite: NULL is nan, and -0.0 is 0.0.

    as_text: whether starts are text.
    """
    numbered = [i for i in range(len(rows[0]) if rows else 0) if i not in STARTS]
    chosen = [[row[i] for i in numbered] for row in rows] if as_text else rows
    block = np.array(chosen, dtype="<f8") + 0.0
    block[np.isnan(block)] = np.nan
    numbers, width = memoryview(block.tobytes()), 8 * block.shape[1]
    found = [numbers[at : at + width] for at in range(0, len(numbers), width)]
    if as_text:
        texts = ([str(row[i]) for i in STARTS] for row in rows)
        words = (f"{len(start)}:{start}{end}".encode() for start, end in texts)
        found = [memoryview(bytes(one) + text) for one, text in zip(found, words, strict=True)]
    return found


def marks(found: Iterable[memoryview]) -> NDArray[np.uint32]:
    """[n] the CRC-32 of each round."""
    return np.fromiter(map(zlib.crc32, found), dtype=MARK)


def canonical_move(k: int, form: str, data: bytes) -> bytes:
    """The bytes of the transitions of one round."""
    return b"%d;%b;%d:%b" % (k, form.encode(), len(data), data)


def held(connection: sqlite3.Connection, part: str) -> bytes:
    """The digest of one of the tables HELD, as the file holds it now."""
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
    """The writer's side: the last digest, and what was written since."""

    as_text: bool
    digest: bytes
    k: int = 0
    interventions: int = 0
    parts: dict[str, bytes] = field(default_factory=lambda: dict.fromkeys(HELD, NOTHING))

    def __post_init__(self) -> None:
        self._next, self._moves, self._marks = hashlib.sha256(self.digest), hashlib.sha256(), bytearray()

    @classmethod
    def of(cls, connection: sqlite3.Connection, as_text: bool) -> Chain:
        """The chain of a file, after its last commit; raises ValueError."""
        row = connection.execute("SELECT * FROM digests ORDER BY rowid DESC LIMIT 1").fetchone()
        if row is None:
            raise ValueError("it has no digest")
        _check(row)
        return cls(as_text, row[8], row[0], row[1], dict(zip(HELD, row[2:6], strict=True)))

    def add(self, rows: Sequence[tuple[Any, ...]], moves: Iterable[Move] = ()) -> None:
        """Add rounds, with the transitions of all of them or of none."""
        if rows:
            found = canonical(rows, self.as_text)
            self._next.update(b"".join(found))
            made = marks(found)
            moved = [canonical_move(*move) for move in moves]
            if moved:
                self._moves.update(b"".join(moved))
                made = np.fromiter(map(zlib.crc32, moved, made.tolist()), dtype=MARK)
            self._marks += made.tobytes()
            self.k += len(rows)

    def intervened(self, texts: Iterable[str]) -> None:
        """Add interventions, after the rounds of the same commit."""
        for text in texts:
            self._next.update(_intervention(text))
            self.interventions += 1

    def write(self, connection: sqlite3.Connection, *changed: str) -> None:
        """Add the digest of what was written since the last commit; `changed`: which of HELD were written."""
        self.parts |= {part: held(connection, part) for part in changed}
        parts = [*self.parts.values(), self._moves.digest()]
        self._next.update(_end(self.k, self.interventions, parts))
        self.digest = self._next.digest()
        connection.execute(INSERT, (self.k, self.interventions, *parts, bytes(self._marks), self.digest))
        self.__post_init__()


class DigestCheck:
    """The reader's side: it takes all rounds of a file, and reports what does not fit the chain."""

    def __init__(self, connection: sqlite3.Connection, spec: str, as_text: bool) -> None:
        self._commits = connection.execute("SELECT * FROM digests ORDER BY rowid").fetchall()
        for row in self._commits:
            _check(row)
        self._as_text, self._connection = as_text, connection
        self._texts = [text for (text,) in connection.execute("SELECT json FROM interventions ORDER BY rowid")]
        self._then = np.frombuffer(b"".join(row[7] for row in self._commits), dtype=MARK)
        self._digest = beginning(spec)
        self._next = hashlib.sha256(self._digest)
        self._at, self._k, self._interventions = 0, 0, 0
        self._marks: list[NDArray[np.uint32]] = []
        self._what = ""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Take the next rounds, in order."""
        found = canonical(rows, self._as_text)
        self._marks.append(marks(found))
        done = 0
        while done < len(found):
            if self._at == len(self._commits):
                self._k += len(found) - done
                return
            upto = min(len(found), max(done, done + self._commits[self._at][0] - self._k))
            self._next.update(b"".join(found[done:upto]))
            self._k, done = self._k + upto - done, upto
            self._close_commits()

    def result(self) -> Fit:
        """The result after all rounds: how many do not fit, and the first thing that does not."""
        self._close_commits()
        now = np.concatenate([*self._marks, np.empty(0, dtype=MARK)])
        moved = self._transitions(now)
        then, known = self._then, min(len(now), len(self._then))
        differ = np.ones(max(len(now), len(then)), dtype=np.bool_)
        differ[:known] = now[:known] != then[:known]
        if differ.any():
            return Fit(int(differ.sum()), f"round {int(differ.argmax()) + 1}")
        what = self._what or moved
        if not what and (self._at < len(self._commits) or not self._commits):
            what = "the list of its commits"
        if not what and len(self._texts) != self._interventions:
            what = "its interventions"
        for part, then in zip(HELD, self._commits[-1][2:6] if self._commits else (), strict=False):
            if not what and held(self._connection, part) != then:
                what = f"its {part}"
        return Fit(0, what)

    def _transitions(self, now: NDArray[np.uint32]) -> str:
        """Add the transitions to the checksums `now` of their rounds; returns which commit does not fit, or "".

        Row by row: a few of them may be larger than all rounds together.
        """
        at, sums, last = 0, [hashlib.sha256() for _ in [*self._commits, None]], 0
        cursor = self._connection.execute("SELECT k, form, data FROM transitions ORDER BY k")
        crc, ends = now.tolist(), [row[0] for row in self._commits]
        for k, form, data in cursor:
            if not isinstance(form, str) or not isinstance(data, bytes):
                raise ValueError("its transitions cannot be read")
            move = canonical_move(k, form, data)
            if 1 <= k <= len(crc):
                crc[k - 1] = zlib.crc32(move, crc[k - 1])
            while at < len(ends) and k > ends[at]:
                at += 1
            sums[at].update(move)  # the last sum is of rows after the last commit, which no writer leaves
            last = k
        now[:] = crc
        then = [*(row[6] for row in self._commits), NOTHING]
        wrong = (k for k, a, b in zip([*ends, last], sums, then, strict=True) if a.digest() != b)
        return next((f"the transitions up to round {k}" for k in wrong), "")

    def _close_commits(self) -> None:
        """Compare the digest of every commit whose rounds are complete."""
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
    """Check the types of a row of the table digests; raises ValueError."""
    whole = all(isinstance(n, int) and n >= 0 for n in row[:2])
    if not whole or not all(isinstance(blob, bytes) for blob in row[2:]) or len(row[7]) % MARK.itemsize:
        raise ValueError("its digests cannot be read")
