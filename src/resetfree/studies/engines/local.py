"""The engine of one machine: a process per core; one that is killed costs what it played since its checkpoint."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator
from functools import partial

from resetfree.core.errors import RunError
from resetfree.studies.folder import Folder
from resetfree.studies.trial import Errand, Outcome, failed, run_trial
from resetfree.studies.workers import Workers, stopping

MOST_DEATHS = 5  # of the process of one trial, after which the trial is held to be the cause


def play_local(
    errands: deque[Errand], processes: int, limit: float | None
) -> Generator[tuple[Errand, Outcome], None, None]:
    """Outcomes as they come; a trial whose process died is tried again, one that takes longer than `limit` fails."""
    with trial_workers(processes, limit) as workers:
        yield from play_with(workers, errands)


def trial_workers(processes: int, limit: float | None) -> Workers[Errand, Outcome]:
    """Processes that play trials."""
    return Workers(processes, _work, limit=limit, overdue=partial(_overdue, limit=limit))


def play_with(
    workers: Workers[Errand, Outcome], errands: deque[Errand]
) -> Generator[tuple[Errand, Outcome], None, None]:
    """The same with processes that are there already."""
    deaths: Counter[str] = Counter()
    for errand, outcome in workers.do(errands):
        if outcome is None:
            deaths[errand.trial.id] += 1
            if deaths[errand.trial.id] < MOST_DEATHS:
                errands.append(errand)
                continue
            error = RunError(f"The process that played the trial was killed {MOST_DEATHS} times, perhaps for memory.")
            outcome = failed(Folder(errand.folder), errand.trial, error)
        elif outcome.status == "busy":
            errands.append(errand)
            continue
        yield errand, outcome


def _overdue(errand: Errand, limit: float | None) -> Outcome:
    error = RunError(
        f"The trial took longer than its time limit of {limit:g} seconds, and was ended. It goes on, with as much time "
        f"again or another --time-limit, after: resetfree sweep retry {errand.folder}"
    )
    return failed(Folder(errand.folder), errand.trial, error)


def _work(errand: Errand) -> Outcome:
    return Outcome("stopped") if stopping() else run_trial(errand, stopping)
