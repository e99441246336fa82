"""The engine of one machine: a process per core; one that is killed costs what it played since its checkpoint."""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic

from resetfree.core.errors import RunError
from resetfree.studies.engines.runner import J, Outcome, Played
from resetfree.studies.workers import Workers, stopping

MOST_DEATHS = 5  # of the process of one job, after which the job is held to be the cause


class Local(Generic[J]):
    """Processes that live until `close`.

    limit: seconds that a job may take; one that takes longer is killed, and fails.
    deaths: of its process, after which a job fails; before that it is tried again (default: MOST_DEATHS).
    """

    def __init__(self, processes: int, limit: float | None = None, deaths: int | None = None) -> None:
        self._limit, self._deaths = limit, MOST_DEATHS if deaths is None else deaths
        self._workers: Workers[J, Outcome] = Workers(processes, _work, limit=limit, overdue=self._overdue)

    def play(self, jobs: deque[J]) -> Played[J]:
        """Outcomes as they come; a job whose process died is tried again."""
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
        """Let jobs under way be saved, and end the processes."""
        self._workers.__exit__()

    def _overdue(self, job: J) -> Outcome:
        why = f"The trial took longer than its time limit of {self._limit:g} seconds, and was ended."
        return job.failed(RunError(f"{why} {job.again}"))


def _work(job: J) -> Outcome:
    return Outcome("stopped") if stopping() else job.play(stopping)
