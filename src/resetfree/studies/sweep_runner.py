"""Play the unfinished trials of a sweep on one of the engines; after a crash, the same call continues."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from resetfree.core.errors import InvalidInput, ResetFreeError, RunError, UnknownName
from resetfree.studies.engines.local import Local
from resetfree.studies.engines.on_ray import Cluster, OnRay
from resetfree.studies.engines.runner import Outcome, Runner
from resetfree.studies.folder import SweepFolder
from resetfree.studies.plan import SweepPlan, check_limit
from resetfree.studies.trial import Trial, TrialJob

ENGINES = ("auto", "local", "batched", "ray")
RECENT = 20  # errors of failed trials that a count holds


class SweepStopped(ResetFreeError):
    """The user stopped a sweep (Ctrl-C); what was played is saved in its folder."""


@dataclass
class Count:
    """The progress of a sweep."""

    total: int
    done: int = 0
    failed: int = 0
    running: int = 0
    waiting: int = 0  # neither done nor failed; while a sweep is played, running ones included
    engine: str = ""
    why: str = ""  # the reason for this engine
    engines: list[str] = field(default_factory=list)  # all engines so far
    errors: list[tuple[str, str]] = field(default_factory=list)  # ids and errors of some failed trials
    began: float = field(default_factory=time.monotonic)
    played: int = 0  # episodes of trials that this call finished
    left: int = 0  # episodes of trials that are not finished

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the time per episode so far; None before the first trial is finished."""
        return None if self.played == 0 else (time.monotonic() - self.began) * self.left / self.played


Progress: TypeAlias = Callable[[Count], object]


def run_sweep(
    plan: SweepPlan,
    folder: SweepFolder,
    *,
    engine: str = "auto",
    workers: int | None = None,
    address: str | None = None,
    tensorboard: Path | None = None,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Count:
    """Play every trial that is neither finished nor failed, and return the progress of the sweep.

    engine: "local" (processes), "ray", "batched" (an accelerator), or "auto": batched where that is likely faster.
    workers: processes of the local engine or of our own Ray cluster (default: one per core).
    address: of a running Ray cluster; a local one is started if none is given.
    tensorboard: a folder for event files, with one folder per trial.
    time_limit: seconds that a trial may take (default: the plan's); one that takes longer is killed, and fails.

    A full disk or a lost cluster is not a failure of its trials: RunError is raised, and the next call plays them. Only
    one process plays a sweep at a time. A finished trial is never played again.
    """
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES)
    if address is not None and engine != "ray":
        raise InvalidInput(f"An address is that of a Ray cluster (--engine ray). Got the engine '{engine}' instead.")
    processes = workers or os.cpu_count() or 1
    limit = plan.time_limit if time_limit is None else check_limit(time_limit, "time limit of a trial")
    with folder.playing():
        count, missing = _count(plan, folder)
        report = progress or (lambda count: None)
        queue = deque(
            TrialJob(trial, folder.path.absolute(), tensorboard and tensorboard.absolute()) for trial in missing
        )
        try:
            for runner in _engines(engine, queue, Cluster(processes, address, limit), count, report):
                with closing(runner), closing(runner.play(queue)) as outcomes:  # an error ends the jobs at once
                    for job, outcome in outcomes:
                        if outcome.status == "lost":
                            raise RunError(
                                f"{outcome.sentence} So far {count.done} of {count.total} trials are done, saved in "
                                f"'{folder.path}'. Run the same command again to continue."
                            )
                        _add(count, job.trial, outcome)
                        report(count)
        except KeyboardInterrupt:
            raise SweepStopped(
                f"Stopped after {count.done} of {count.total} trials, saved in '{folder.path}'. "
                "Run the same command again to continue."
            ) from None
    count.running = 0
    return count


def standing(plan: SweepPlan, folder: SweepFolder) -> Count:
    """The progress of a sweep, from its files alone."""
    count, missing = _count(plan, folder)
    count.running = sum(folder.is_held(trial.id) for trial in missing)
    count.waiting = len(missing) - count.running
    return count


def _count(plan: SweepPlan, folder: SweepFolder) -> tuple[Count, list[Trial]]:
    """The numbers of finished and failed trials, from the files; and the other trials."""
    failed, count, missing = folder.failed(), Count(len(plan.trials)), []
    for trial in plan.trials:
        if folder.is_finished(trial.id, trial.episodes):
            count.done += 1
        elif trial.id in failed:
            count.failed += 1
            if len(count.errors) < RECENT:
                count.errors.append((trial.id, failed[trial.id].read_text().partition("\n")[0]))
        else:
            missing.append(trial)
            count.left += trial.episodes
    count.waiting, count.began = len(missing), time.monotonic()
    return count, missing


def _add(count: Count, trial: Trial, outcome: Outcome) -> None:
    if outcome.status == "stopped":  # only the user stops a trial
        raise KeyboardInterrupt
    count.left -= trial.episodes
    count.waiting -= 1
    if outcome.status == "done":
        count.done += 1
        count.played += trial.episodes
    else:
        count.failed += 1
        if len(count.errors) < RECENT:
            count.errors.append((trial.id, outcome.sentence))
    count.running = min(count.running, count.waiting)


def _engines(
    engine: str, queue: deque[TrialJob], cluster: Cluster, count: Count, report: Progress
) -> Iterator[Runner[TrialJob]]:
    """The engines to use, one after the other; each is reported in the count before it begins."""
    processes, address = cluster.processes, cluster.address

    def use(name: str, why: str, running: int) -> None:
        count.engine, count.why, count.running = name, why, min(running, count.waiting)
        count.engines.append(name)
        report(count)

    if not queue:
        count.why = "nothing is left to play"
        report(count)
        return
    if engine == "ray":
        use("ray", "a cluster at " + address if address else f"a local cluster of {processes} processes", 0)
        yield OnRay(cluster, lambda n: setattr(count, "running", n))
        return
    if engine in ("auto", "batched"):
        from resetfree.studies.engines.in_batches import InBatches, choose_batches

        batches, why = choose_batches(queue, everything=engine == "batched")
        if batches:
            use("batched", why, max(len(batch.jobs) for batch in batches))
            yield InBatches(batches, everything=engine == "batched")
        if not queue:
            return
        use("local", why if engine == "auto" else "", processes)
    else:
        use("local", "requested", processes)
    yield Local(processes, cluster.limit)
