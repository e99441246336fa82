"""The local engine: a process per core; a killed one loses at most the rounds since its last commit."""

from __future__ import annotations

from collections import Counter, deque
from typing import Generic

from resetfree.core.errors import RunError
from resetfree.studies.engines.runner import J, Outcome, Outcomes
from resetfree.studies.workers import Workers, stopping

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
