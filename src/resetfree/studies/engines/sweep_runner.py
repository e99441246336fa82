"""Play the unfinished trials of a sweep on one of the engines; after a crash, the same call continues."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.settings import check, check_names
from resetfree.runs.file.ledger import Ledger
from resetfree.studies.engines.in_batches import InBatches, choose_batches
from resetfree.studies.engines.on_ray import Cluster, OnRay
from resetfree.studies.engines.runner import Count, Local, Outcome, Progress, Runner, outcomes, stoppable
from resetfree.studies.folder import SweepFolder
from resetfree.studies.plan import Seconds, SweepPlan
from resetfree.studies.trial import NamedTrial, TrialJob

ENGINES = ("auto", "local", "batched", "ray")
PATIENCE = 10.0  # seconds


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
    check_names([engine], ENGINES, "engine")
    if address is not None and engine != "ray":
        raise InvalidInput(f"An address is that of a Ray cluster (--engine ray). Got the engine '{engine}' instead.")
    processes = workers or os.cpu_count() or 1
    check(time_limit, Seconds | None, "time limit of a trial")
    limit = plan.time_limit if time_limit is None else float(time_limit)
    with folder.playing():
        count, missing = _count(plan, folder)
        report = progress or (lambda count: None)
        queue = deque(
            TrialJob(trial, folder.path.absolute(), tensorboard and tensorboard.absolute()) for trial in missing
        )
        with stoppable(count, folder.path):
            for runner in _engines(engine, queue, Cluster(processes, address, limit), count, report):
                with closing(runner):
                    for job, outcome in outcomes(runner, queue, count, folder.path):
                        _add(count, job.trial, outcome)
                        report(count)
        await_shut(plan, folder)
    count.running = 0
    return count


def await_shut(plan: SweepPlan, folder: SweepFolder) -> None:
    """Wait a moment until no run file is open: the worker of a driver that was killed may just be at one.

    A log without a writer stayed because the file was read when its run ended: it is merged now.
    """
    until = time.monotonic() + PATIENCE
    for trial in plan.trials:
        while folder.is_open(trial.id) and time.monotonic() < until:
            with suppress(RunError), Ledger.reopen(folder.trial_file(trial.id)) as ledger:  # or another process writes
                ledger.settle()
            if folder.is_open(trial.id):
                time.sleep(0.05)


def standing(plan: SweepPlan, folder: SweepFolder) -> Count:
    """The progress of a sweep, from its files alone."""
    count, missing = _count(plan, folder)
    count.running = sum(folder.is_held(trial.id) for trial in missing)
    count.waiting = len(missing) - count.running
    return count


def _count(plan: SweepPlan, folder: SweepFolder) -> tuple[Count, list[NamedTrial]]:
    """The numbers of finished and failed trials, from the files; and the other trials."""
    failed, count, missing = folder.failed(), Count(len(plan.trials)), []
    for trial in plan.trials:
        if folder.is_finished(trial.id, trial.episodes):
            count.done += 1
        elif trial.id in failed:
            count.add_failed(trial.id, failed[trial.id].read_text().partition("\n")[0])
        else:
            missing.append(trial)
            count.left += trial.episodes
    count.waiting, count.began = len(missing), time.monotonic()
    return count, missing


def _add(count: Count, trial: NamedTrial, outcome: Outcome) -> None:
    count.waiting -= 1
    if outcome.status == "done":
        count.add_done(trial.episodes)
    else:
        count.add_failed(trial.id, outcome.sentence)
        count.left -= trial.episodes
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
