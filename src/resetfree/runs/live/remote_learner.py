"""A learner on another machine: its copy of the run file, its calls, and their near end; all of it plain bytes.

The copy of the run file (`Mirror`) takes rows in order, each applied once. Sending a row twice does no harm, after a
gap nothing is taken: whoever sends is answered which round is the newest, and goes on after that one.

The learner is given the beginning of a run file in parts, then rounds; the `Learner` that follows the copy is the one
that follows a run file here. Every answer says which round is the newest that it has, and holds the newest plan and
checkpoint that the asking side lacks. So each request may be repeated after its answer was lost.

The near end (`Relay`) sends the rounds of the run file, and posts the plans that come back. Rounds wait in the run file
until the other side has said that it has them, so that nothing is lost with a process. It knows no network:
`call(method, *arguments)` calls a `RemoteLearner`, and repeats, or raises, when no answer came.
"""

import dataclasses
import io
import json
import os
import platform
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from resetfree.core import InvalidInput, ResetFreeError, RunError
from resetfree.core.plain_tree import decode, encode
from resetfree.core.system import Closes, activity, is_alive, take_lowest
from resetfree.runs.file import runfile
from resetfree.runs.file.newfile import fill
from resetfree.runs.file.runfile import start_type
from resetfree.runs.live.assignment import Assignment
from resetfree.runs.live.board import Board, Posted
from resetfree.runs.live.learner import Learner, said

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


BOOT = Path("/proc/sys/kernel/random/boot_id")
PREFIX = "resetfree-learner-"  # of folders for temporary files; the process that uses it follows


class Outbox:
    """The newest message for the other side; the counterpart of a `Board`."""

    def __init__(self, tag: int) -> None:
        """Start after a message with this tag that the other side has from an earlier learner; -1: it has none."""
        self._newest, self._data = Posted(int(tag >= 0), max(tag, 0), 0), b""

    def newest(self) -> Posted:
        """The newest message, without its bytes."""
        return self._newest

    def post(self, data: bytes, tag: int = 0) -> Posted:
        """Replace the message."""
        self._newest, self._data = Posted(self._newest.number + 1, tag, 0), data
        return self._newest

    def after(self, number: int) -> dict[str, Any] | None:
        """The message if its number is larger, as a plain tree."""
        if not self._data or self._newest.number <= number:
            return None
        newest = self._newest
        return {"number": newest.number, "tag": newest.tag, "data": np.frombuffer(self._data, dtype=np.uint8)}


class RemoteLearner:
    """The learner of one run; its methods are called one at a time, but for `pulse`."""

    def __init__(self) -> None:
        remove_leftovers()
        self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
        self._mirror: Mirror | None = None  # made by the thread that uses it
        self._progress = 0  # see `hanging`
        self._learner: Learner | None = None
        self._plans, self._checkpoints = Outbox(-1), Outbox(-1)
        self._assigned = b""

    def about(self) -> bytes:
        """Where it is, and which version it has."""
        return encode(
            {"version": version("resetfree"), "node": platform.node(), "machine": this_machine(), "pid": os.getpid()}
        )

    def pulse(self) -> bytes:
        """How far it has come, and what its threads do; the only method that is called while another one works."""
        found = activity(os.getpid())
        doing = None if found is None else {"states": "".join(sorted(found.states)), "seconds": found.seconds}
        return encode({"progress": self._progress, "activity": doing})

    def assign(self, assignment: bytes, machine: str, posted: int) -> bytes:
        """Take an assignment.

        machine: the one that asks, see `this_machine`.
        posted: the round that the newest plan over there rests on, -1 if there is none.
        """
        self._assigned, self._plans = assignment, Outbox(posted)
        self._mirror = self._mirror or Mirror(self._folder / "run.rfrun")
        if machine == this_machine() and Assignment.receive(io.BytesIO(assignment)).lowest:
            take_lowest()
        return b""

    def begin(self, number: int, part: bytes) -> bytes:
        """Take a part of the beginning of the run file, see `Mirror.begin`."""
        assert self._mirror is not None
        self._advance()
        return encode({"parts": self._mirror.begin(number, part)})

    def work(self, request: bytes, rounds: bytes) -> bytes:
        """Take rounds, and unless some are missing or more of them follow, learn them and make a plan if one is due.

        request: {"last": k, "more": bool, "ending": bool, "first": {"start": s} or None, "plan": n, "checkpoint": n}:
          the last of these rounds, whether more follow at once, whether the run ends, where round 1 starts, and the
          numbers of the newest plan and checkpoint that arrived.
        Returns {"k": newest round here, "plan": ..., "checkpoint": ..., "raised": ...}, each of the last three None or
        what there is.
        """
        assert self._mirror is not None
        self._advance()
        given = decode(request, {})
        k = self._mirror.add(rounds)
        raised = None if given["more"] or k < given["last"] else self._learn(given)
        plan, checkpoint = self._plans.after(given["plan"]), self._checkpoints.after(given["checkpoint"])
        return encode({"k": k, "plan": plan, "checkpoint": checkpoint, "raised": raised})

    def close(self) -> bytes:
        """Remove what it has written; no further call is allowed."""
        if self._learner is not None:
            self._learner.close()
        if self._mirror is not None:
            self._mirror.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        return b""

    def _advance(self) -> None:
        self._progress += 1

    def _learn(self, given: dict[str, Any]) -> dict[str, Any] | None:
        assert self._mirror is not None
        try:
            if self._learner is None:  # not before: all rounds so far are there now
                assignment = Assignment.receive(io.BytesIO(self._assigned))
                here = dataclasses.replace(assignment, file=self._mirror.path)
                self._learner = Learner(here, self._plans, self._checkpoints, self._advance)
            if given["first"] is not None:
                self._learner.begin(given["first"]["start"])
            self._learner.work(ending=given["ending"])
        except Exception as error:  # players may raise anything
            return said(error)
        return None


def remove_leftovers() -> None:
    """Remove the folders of learners on this machine that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def this_machine() -> str:
    """A name of the running system that two processes have in common only if they share its processors."""
    try:
        return BOOT.read_text().strip()
    except OSError:
        return platform.node()


Call: TypeAlias = Callable[..., bytes]


class LearnerRaised(ResetFreeError):
    """The learner raised; it would again. `said` is what, as plain data."""

    def __init__(self, said: dict[str, Any]) -> None:
        super().__init__(str(said["words"]))
        self.said = said


class Relay(Closes):
    """What one learner elsewhere has been sent, and the result; a new learner gets a new one.

    plans, checkpoints: the boards.
    """

    def __init__(self, file: Path, plans: Board, checkpoints: Board, call: Call) -> None:
        self._file, self._boards, self._call = file, {"plan": plans, "checkpoint": checkpoints}, call
        self._connection: sqlite3.Connection = runfile.connect(file, "ro")
        self._taken = {"plan": int(plans.newest().number > 0), "checkpoint": 0}  # numbers of the newest that came back
        self.acknowledged = 0  # the newest round that the other side has

    def close(self) -> None:
        """Close the run file."""
        self._connection.close()

    def assign(self, assignment: bytes) -> None:
        """Send the assignment and the beginning of the run file."""
        newest = self._boards["plan"].newest()
        self._call("assign", assignment, this_machine(), newest.tag if newest.number else -1)
        with runfile.sentences(self._file):
            for number, part in enumerate(list(beginning(self._connection)), 1):
                if decode(self._call("begin", number, part), {})["parts"] != number:
                    raise RunError(f"The learner elsewhere must be at part {number} of the run. It is not.")

    def exchange(self, first: dict[str, Any] | None, *, ending: bool) -> bool:
        """Send the rounds that were committed since, and post what comes back; whether more are there to be sent.

        first: {"start": s}, where round 1 starts, when it is known.  ending: whether the run ends.
        """
        with runfile.sentences(self._file):
            rounds, last, more = rounds_after(self._connection, self.acknowledged)
        request = {"last": last, "more": more, "ending": ending and not more, "first": first, **self._taken}
        answer = decode(self._call("work", encode(request), rounds), {})
        self.acknowledged = int(answer["k"])
        for name, board in self._boards.items():
            if (found := answer[name]) is not None and found["number"] > self._taken[name]:
                board.post(found["data"].tobytes(), found["tag"])
                self._taken[name] = found["number"]
        if answer["raised"] is not None:
            raise LearnerRaised(answer["raised"])
        return more or self.acknowledged < last
