"""The engine of one machine: a process per core; one that is killed costs what it played since its checkpoint."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator

from resetfree.errors import RunError
from resetfree.experiments.workers import Workers, stopping
from resetfree.sweeps.folder import Folder
from resetfree.sweeps.trial import Errand, Outcome, failed, run_trial

MOST_DEATHS = 5  # of the process of one trial, after which the trial is held to be the cause


def play_local(errands: deque[Errand], processes: int) -> Generator[tuple[Errand, Outcome], None, None]:
    """Outcomes as they come; a trial whose process died is tried again."""
    deaths: Counter[str] = Counter()
    with Workers(processes, _work) as workers:
        for errand, outcome in workers.do(errands):
            if outcome is None:
                deaths[errand.trial.id] += 1
                if deaths[errand.trial.id] < MOST_DEATHS:
                    errands.append(errand)
                    continue
                error = RunError(
                    f"The process that played the trial was killed {MOST_DEATHS} times, perhaps for memory."
                )
                outcome = failed(Folder(errand.folder), errand.trial, error)
            elif outcome.status == "busy":
                errands.append(errand)
                continue
            yield errand, outcome


def _work(errand: Errand) -> Outcome:
    return Outcome("stopped") if stopping() else run_trial(errand, stopping)
