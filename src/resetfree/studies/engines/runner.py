"""The interface of engines, and the local one: a runner plays jobs, wherever and with however many processes.

Locally a process per core; a killed one loses at most the rounds since its last commit.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from resetfree.core.errors import ResetFreeError, RunError
from resetfree.studies.workers import Workers, stopping

# "busy": another process is writing its file, so it is retried; "stopped": ended on request, and saved; "lost": not
# played because of a full disk, a lost cluster or the like, which is not a failure of the job: it remains to be played.
Status: TypeAlias = Literal["done", "failed", "busy", "stopped", "lost"]
Stop: TypeAlias = Callable[[], bool]  # polled: whether to end
RECENT = 20  # errors of failed trials that a count holds
AGAIN = "Run the same command again to continue."


class Outcome(NamedTuple):
    """The outcome of one attempt at a job."""

    status: Status
    sentence: str = ""  # the error, in one line
    result: Any = None  # of jobs that do not write it to a file


class Job(Protocol):
    """A trial and where it is saved, as it is sent to a worker."""

    @property
    def id(self) -> str:
        """A unique name."""

    @property
    def again(self) -> str:
        """What to type to continue it after it was ended, as a sentence."""

    def play(self, stop: Stop) -> Outcome:
        """Play it to its end, or until `stop` returns true; exceptions become part of the outcome."""

    def failed(self, error: BaseException) -> Outcome:
        """Record that it failed with this error."""


J = TypeVar("J", bound=Job)
Outcomes: TypeAlias = Generator[tuple[J, Outcome], None, None]


class Runner(Protocol[J]):
    """Plays jobs."""

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in order of completion; closing the generator ends the running jobs."""

    def close(self) -> None:
        """End processes that are kept between two calls."""


class StudyStopped(ResetFreeError):
    """The user stopped a sweep or a comparison (Ctrl-C); what was played is saved."""


@dataclass
class Count:
    """The progress of a study."""

    total: int
    done: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0  # neither done nor failed; while a study is played, running ones included
    engine: str = ""
    why: str = ""  # the reason for this engine
    engines: list[str] = field(default_factory=list)  # all engines so far
    errors: list[tuple[str, str]] = field(default_factory=list)  # ids and errors of some failed trials
    began: float = field(default_factory=time.monotonic)
    played: int = 0  # episodes of trials that this call finished
    left: int = 0  # episodes of trials that are not finished
    last: str = ""  # the last trial, in words

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the time per episode so far; None before the first trial is finished."""
        return None if self.played == 0 else (time.monotonic() - self.began) * self.left / self.played

    def add_done(self, episodes: int) -> None:
        """Count a trial that this call finished."""
        self.done += 1
        self.played += episodes
        self.left -= episodes

    def add_failed(self, id: str, error: str) -> None:
        """Count a failed trial, and hold its error if there is room."""
        self.failed += 1
        if len(self.errors) < RECENT:
            self.errors.append((id, error))


Progress: TypeAlias = Callable[[Count], object]


@contextmanager
def stoppable(count: Count, saved_in: Path) -> Iterator[None]:
    """Turn Ctrl-C into StudyStopped."""
    try:
        yield
    except KeyboardInterrupt:
        words = f"Stopped after {count.done} of {count.total} trials, saved in '{saved_in}'. {AGAIN}"
        raise StudyStopped(words) from None


def outcomes(runner: Runner[J], jobs: deque[J], count: Count, saved_in: Path) -> Iterator[tuple[J, Outcome]]:
    """The jobs that were done or failed; raises RunError for one that could not be played."""
    with closing(runner.play(jobs)) as found:  # an error ends the jobs at once
        for job, outcome in found:
            if outcome.status == "stopped":  # only the user stops a trial
                raise KeyboardInterrupt
            if outcome.status == "lost":
                words = f"So far {count.done} of {count.total} trials are done, saved in '{saved_in}'."
                raise RunError(f"{outcome.sentence} {words} {AGAIN}")
            yield job, outcome


class InProcess:
    """The runner without other processes: one job after the other."""

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in the order of the jobs."""
        while jobs:
            job = jobs.popleft()
            yield job, job.play(lambda: False)

    def close(self) -> None:
        """Nothing to close."""


MOST_DEATHS = 5  # of the process of one job, after which the job fails


class Local(Generic[J]):
    """A pool of processes, ended by `close`.

    limit: seconds that a job may take; one that takes longer is killed, and fails.
    deaths: number of deaths of its process after which a job fails; before, it is retried (default: MOST_DEATHS).
    """

    def __init__(self, processes: int, limit: float | None = None, deaths: int | None = None) -> None:
        self._limit, self._deaths = limit, MOST_DEATHS if deaths is None else deaths
        self._workers: Workers[J, Outcome] = Workers(processes, _work, limit=limit, overdue=self._overdue)

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in order of completion; a job whose process died is retried."""
        deaths: Counter[str] = Counter()
        for job, outcome in self._workers.do(jobs):
            if outcome is None:
                deaths[job.id] += 1
                if deaths[job.id] < self._deaths:
                    jobs.append(job)
                    continue
                why = f"The process that played the trial was killed {self._deaths} times, perhaps for memory."
                outcome = job.failed(RunError(why))
            elif outcome.status == "busy":
                jobs.append(job)
                continue
            yield job, outcome

    def close(self) -> None:
        """Save the running jobs, and end the processes."""
        self._workers.__exit__()

    def _overdue(self, job: J) -> Outcome:
        why = f"The trial took longer than its time limit of {self._limit:g} seconds, and was ended."
        return job.failed(RunError(f"{why} {job.again}"))


def _work(job: J) -> Outcome:
    return Outcome("stopped") if stopping() else job.play(stopping)
