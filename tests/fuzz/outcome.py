"""What came of a case, and whether that is an answer."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

SECONDS = 10.0  # of processor time, compiling apart: what an answer may take
MEMORY = 2 * 2**30  # bytes that may be in use at once, by a worker and its children together
STATUSES = (0, 1, 2, 130)
GOOD = ("done", "refused")
OF_SQLITE = ("-wal", "-shm")  # beside a file that is in WAL mode, whoever opens it
OF_SWEEP = ("results.parquet", "summary.parquet", "report.md", "curves.png")  # made anew from the trials at any time
KEPT = 4000  # characters of what was printed
TRACE = "Traceback (most recent call last)"
STARVED = ("Unable to allocate", "MemoryError", "cannot allocate", "std::bad_alloc")


@dataclass
class Outcome:
    """The facts of one case. `status` is that of a command; a call in Python has none."""

    kind: str
    words: list[str]  # what was done, to be done again by hand
    argv: list[str] | None = None  # None: a call in Python
    status: int | None = None
    raised: str = ""  # an exception that reached the user: its type and sentence
    ours: bool = False  # whether that exception is one of resetfree.core.errors
    where: str = ""  # the innermost line of resetfree in it
    out: str = ""
    err: str = ""
    peak: int = 0  # bytes
    seconds: float = 0.0  # of processor time
    code_ran: str = ""  # how we know that code ran because a file named it
    appeared: list[str] = field(default_factory=list)  # files that were not there before
    changed: list[str] = field(default_factory=list)  # files that were
    ended: str = ""  # how the worker ended, if it did: a signal, a time, a size
    verdict: str = ""
    reason: str = ""

    @property
    def good(self) -> bool:
        return self.verdict in GOOD

    def judged(self) -> "Outcome":
        """With its verdict; what was printed is cut short after that."""
        self.verdict, self.reason = judge(self)
        self.out, self.err = self.out[:KEPT], self.err[-KEPT:]
        return self

    def to_json(self) -> str:
        return json.dumps(self.__dict__)

    @classmethod
    def from_json(cls, text: str) -> "Outcome":
        return cls(**json.loads(text))


def judge(one: Outcome, precious: Collection[str] = ("precious.txt",)) -> tuple[str, str]:
    """A verdict, "done" or "refused" if all is well, and what it rests on."""
    if one.code_ran:
        return "code ran", one.code_ran
    if one.ended:
        return one.ended.split(":")[0], one.ended
    if one.peak > MEMORY:
        return "memory", f"{one.peak / 2**30:.1f} GiB"
    if one.seconds > SECONDS:
        return "slow", f"{one.seconds:.0f} s of processor time"
    said = f"{one.raised}\n{one.err}"
    if one.raised and not one.ours:
        return "traceback", f"{one.raised} at {one.where}"
    if TRACE in one.err or TRACE in one.out:
        return "traceback", "in what was printed: " + (one.err + one.out).strip().splitlines()[-1]
    if any(word in said for word in STARVED):
        return "memory", f"it asked for more than there is: {said.strip()[:200]}"
    if lost := sorted(set(precious) & set(one.changed)):
        return "lost", f"changed {', '.join(lost)}"
    if one.argv is None:
        return ("refused" if one.raised else "done"), one.raised
    return _command(one, one.argv)


def _command(one: Outcome, argv: list[str]) -> tuple[str, str]:
    if one.status not in STATUSES or (one.status == 1 and "--strict" not in argv):
        return "status", f"exit status {one.status}"
    if one.status == 2:
        lines = [line for line in one.err.splitlines() if line.strip()]
        if len(lines) != 1:
            return "sentence", f"{len(lines)} lines on standard error in place of one sentence: {lines[:3]}"
        if one.out.strip():
            return "sentence", f"refused, and yet on standard output: {one.out[:100]!r}"
        # What a bench has played is kept, also where the page about it cannot be written.
        made = [name for name in one.appeared if not name.endswith(OF_SQLITE) and argv[0] != "bench"]
        changed = [name for name in one.changed if not name.endswith(OF_SWEEP)]
        if made or changed:
            return "leftovers", f"refused, and yet made {made[:3]}, changed {changed[:3]}"
        return "refused", lines[0]
    if "--json" in argv and one.status in (0, 1) and not _is_one_object(one.out):
        return "json", f"no single JSON object on standard output: {one.out[:100]!r}"
    return "done", ""


def _is_one_object(text: str) -> bool:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except (ValueError, RecursionError):
        return False
