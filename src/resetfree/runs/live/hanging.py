"""Whether a learner hangs: it is stopped, or spends far longer on one plan or one update than a learner does.

A learner counts what it has done (`Progress`): each round that it read, each plan, each checkpoint, and once a second
while it has nothing to do. Whoever watches looks at the count on ticks of its own (`Vigil`). Between two ticks with the
same count, a learner is charged for the time in which it could have gone on, and for at most one tick:

  stopped (SIGSTOP)            the tick
  it wants a processor         the processor time that it got: a busy machine is not its fault
  it waits for the disk, or a debugger has it    nothing
  it waits for anything else   the tick: a deadlock, or a program that it has called

So a machine that was suspended, which takes the watching side its ticks too, charges it for one tick. No program can
tell an endless loop from a long computation: a learner may take `patience` seconds for one piece of work, three times
as long as its longest piece so far, and twice as long after each time that it was ended for it.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from resetfree.core.system import Activity, Closes

TICK = 0.5  # seconds between two looks
STOPPED = 5.0  # seconds for which a learner may be stopped
TIMES = 3.0  # a piece of work may take so many times as long as the longest before
MOST = 5  # hangs in a row, without a new plan in between, after which the run ends
FILE, SIZE = "progress", 8  # name and bytes of the count beside the boards


class Progress(Closes):
    """How much a learner has done: a number in memory that two processes share."""

    def __init__(self, folder: Path) -> None:
        with (folder / FILE).open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), SIZE)
        self._words = memoryview(self._file).cast("Q")

    @classmethod
    def make(cls, folder: Path) -> Progress:
        """A new one, at 0."""
        (folder / FILE).write_bytes(bytes(SIZE))
        return cls(folder)

    @property
    def count(self) -> int:
        """The number."""
        return self._words[0]

    def advance(self) -> None:
        """Count one more piece of work; only one thread of one process does."""
        self._words[0] += 1

    def close(self) -> None:
        """Unmap the file."""
        self._words.release()
        self._file.close()


class Vigil:
    """Judges whether the learners of a run hang, one after the other.

    patience: seconds that one may take for one piece of work, of the time in which it could have worked.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._row, self._plan = 0, -1  # hangs since the newest plan, and its number
        self._longest = 0.0  # seconds of a piece of work that came to its end
        self.begin()

    def begin(self) -> None:
        """Another learner begins."""
        self._charged = self._stopped = 0.0  # seconds of this piece of work, and those in which it was stopped
        self._count, self._now = -1, -1.0
        self._activity: Activity | None = None

    @property
    def limit(self) -> float:
        """Seconds that a piece of work may take now."""
        return max(self._patience * 2.0**self._row, TIMES * self._longest)

    def see(self, now: float, count: int, activity: Activity | None) -> str | None:
        """Why the learner hangs, None if it does not.

        now: seconds of a clock that goes on.  count: its progress.  activity: its threads, None if that is not known.
        """
        passed, before = min(now - self._now, TICK) if self._now >= 0.0 else 0.0, self._activity
        self._now, self._activity = now, activity
        if count != self._count:
            self._longest = max(self._longest, self._charged)
            self._count, self._charged, self._stopped = count, 0.0, 0.0
            return None
        is_stopped = activity is not None and activity.is_stopped
        self._stopped = self._stopped + passed if is_stopped else 0.0
        self._charged += passed if activity is None or before is None else activity.could_use(before, passed)
        if self._stopped >= STOPPED:
            return f"it was stopped for {self._stopped:.0f} s"
        if self._charged >= self.limit:
            return f"no plan, update or checkpoint came to its end in {self._charged:.3g} s of its own time"
        return None

    def is_new(self, count: int) -> bool:
        """Whether the learner has gone on since the last look."""
        return count != self._count

    def planned(self, plan: int) -> None:
        """A plan of this number is there: hangs before it are not in a row with those to come."""
        if plan != self._plan:
            self._row, self._plan = 0, plan

    def hung(self) -> bool:
        """Count a hang; whether another learner may be started."""
        self._row += 1
        self.begin()
        return self._row < MOST


def given_up(why: str) -> str:
    """The sentence when a run ends because its learner hangs."""
    return (
        f"The learner hung {MOST} times in a row without a new plan between (at last {why}): it is not started again. "
        "The rounds so far are saved. If its plans take so long, give rate=Deadlines(HZ, patience=SECONDS) in Python."
    )
