"""The interface of engines: a runner plays jobs, wherever and with however many processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

# "busy": another process is writing its file, so it is retried; "stopped": ended on request, and saved; "lost": not
# played because of a full disk, a lost cluster or the like, which is not a failure of the job: it remains to be played.
Status: TypeAlias = Literal["done", "failed", "busy", "stopped", "lost"]
Stop: TypeAlias = Callable[[], bool]  # polled: whether to end


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


class InProcess:
    """The runner without other processes: one job after the other."""

    def play(self, jobs: deque[J]) -> Outcomes[J]:
        """Outcomes in the order of the jobs."""
        while jobs:
            job = jobs.popleft()
            yield job, job.play(lambda: False)

    def close(self) -> None:
        """Nothing to close."""
