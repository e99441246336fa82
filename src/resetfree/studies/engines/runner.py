"""What an engine is: a runner that plays jobs. Who asks it to knows neither where they are played nor by how many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

# "busy": another process is writing its file, so it is tried again; "stopped": told to end, and saved; "lost": a full
# disk, a cluster that is gone or the like kept it from being played, which is no failure of the job: it stays to be
# played
Status: TypeAlias = Literal["done", "failed", "busy", "stopped", "lost"]
Stop: TypeAlias = Callable[[], bool]  # asked now and then whether to end


class Outcome(NamedTuple):
    """What came of one attempt at a job."""

    status: Status
    sentence: str = ""  # what was raised, in one line
    result: Any = None  # what is not in a file


class Job(Protocol):
    """A trial and where it is kept, as it is sent to a worker."""

    @property
    def id(self) -> str:
        """Tells it from other jobs."""

    @property
    def again(self) -> str:
        """What to type to go on with it if it was ended, as a sentence."""

    def play(self, stop: Stop) -> Outcome:
        """Play it to its end, or until `stop` says so; what it raises is part of the outcome."""

    def failed(self, error: BaseException) -> Outcome:
        """It cannot be played for this reason: keep that."""


J = TypeVar("J", bound=Job)
Played: TypeAlias = Generator[tuple[J, Outcome], None, None]


class Runner(Protocol[J]):
    """Plays jobs."""

    def play(self, jobs: deque[J]) -> Played[J]:
        """Outcomes as they come, in any order; closing it ends what is being played."""

    def close(self) -> None:
        """End what is kept alive between two calls."""


class Here:
    """The runner of this very process: one job after the other."""

    def play(self, jobs: deque[J]) -> Played[J]:
        """Outcomes in the order of the jobs."""
        while jobs:
            job = jobs.popleft()
            yield job, job.play(lambda: False)

    def close(self) -> None:
        """Nothing is kept."""
