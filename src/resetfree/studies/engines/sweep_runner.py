"""Play the unfinished trials of a sweep on one of the engines; after a crash, the same call continues.

The Ray engine: every trial is one task, retried elsewhere if its worker or node dies (extra ray). Tasks keep no state
but their run files, so the folder of the sweep must be shared by all nodes under the same name, and support file locks.
Nodes need the same version of resetfree. Ray runs in a separate process, which sends the outcomes to this one. Its
output goes to standard error. If Ray ends that process, as it does when it loses its cluster, a new one continues with
the remaining trials.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from resetfree.core import InvalidInput, ResetFreeError, RunError, check, check_names
from resetfree.core.extras import WAIT, first_line, import_ray, joined
from resetfree.core.interrupts import SLICE
from resetfree.core.system import Child
from resetfree.runs.file.ledger import Ledger
from resetfree.studies import engines
from resetfree.studies.engines.batched import InBatches, choose_batches
from resetfree.studies.plan import Seconds, SweepPlan
from resetfree.studies.trial import NamedTrial, SweepFolder, TrialJob

RETRIES = 20  # deaths of workers and nodes after which a trial fails
LOSSES = 3  # losses of the cluster in a row, without a finished trial, after which the engine gives up
GRACE = 0.5  # seconds in which interrupted tasks may save their trials
AHEAD = 2  # tasks submitted per core, to keep each busy
LOOK = 5.0  # seconds between two queries of the number of cores


class Cluster(NamedTuple):
    """The cluster to use, and the time limit of its trials."""

    processes: int  # of a cluster that is started here
    address: str | None  # of a running one, as HOST:PORT or "auto"; None starts one, and shuts it down at the end
    limit: float | None  # seconds that a trial may take


class OnRay:
    """The runner of a Ray cluster.  running_now: called with the number of running jobs."""

    def __init__(self, cluster: Cluster, running_now: Callable[[int], object]) -> None:
        self._cluster, self._running_now = cluster, running_now

    def play(self, jobs: deque[engines.J]) -> engines.Outcomes[engines.J]:
        """Outcomes in order of completion."""
        pending = {job.id: job for job in jobs}
        losses, reached = 0, False
        while pending:
            why = "the process that joined it died"
            with _driver(pending, self._cluster) as child:
                for kind, value in _messages(child):
                    if kind == "running":
                        reached = True
                        self._running_now(value)
                    elif kind == "outcome":
                        losses = 0
                        yield pending.pop(value[0]), value[1]
                    elif kind == "refused" and not reached:
                        raise value
                    else:
                        why = str(value)
                        break
                    if not pending:
                        break
            losses += 1
            if pending and losses >= LOSSES:
                where = "of this machine" if self._cluster.address is None else f"at '{self._cluster.address}'"
                sentence = f"The Ray cluster {where} was lost {LOSSES} times in a row: {why.rstrip('.')}."
                yield next(iter(pending.values())), engines.Outcome("lost", sentence)

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def _driver(pending: Mapping[str, engines.Job], cluster: Cluster) -> Iterator[Child]:
    """The process that runs Ray; killing it ends its tasks, and a cluster that it started."""
    child = Child(_drive, list(pending.values()), cluster)
    try:
        yield child
    finally:
        try:
            with suppress(OSError):
                child.pipe.send("end")
            child.process.join(GRACE if pending else WAIT)
        finally:
            child.kill()


def _messages(child: Child) -> Iterator[tuple[str, Any]]:
    """The messages of the other process until it ends."""
    with suppress(EOFError, ConnectionError):
        while True:
            alive = child.process.is_alive()
            if child.pipe.poll(SLICE):
                yield child.pipe.recv()
            elif not alive:
                return


def _drive(pipe: Connection, jobs: list[engines.Job], cluster: Cluster) -> None:
    """The other process: submit trials to the cluster, and send back their outcomes."""
    os.dup2(2, 1)  # permanently, also for the processes that Ray starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tasks inherit this, and are cancelled by it
    try:
        ray = import_ray("The engine 'ray'")
        with joined(ray, cluster.processes, cluster.address):
            _submit(ray, pipe, deque(jobs), cluster.limit)
    except ResetFreeError as error:
        pipe.send(("refused", error))


def _submit(ray: Any, pipe: Connection, jobs: deque[engines.Job], limit: float | None) -> None:
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)
    running: dict[Any, engines.Job] = {}
    own = ray.exceptions.RayTaskError, ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError
    cores, due = 0, 0.0
    while jobs or running:
        if time.monotonic() >= due:
            cores, due = int(ray.cluster_resources().get("CPU", 0)), time.monotonic() + LOOK  # nodes come and go
        while jobs and len(running) < AHEAD * max(cores, 1):
            job = jobs.popleft()
            running[task.remote(job, limit)] = job
        pipe.send(("running", min(len(running), cores)))
        ready, _ = ray.wait(list(running), num_returns=1, timeout=SLICE)
        if pipe.poll():
            return _cancel(ray, list(running))
        for reference in ready:
            job = running.pop(reference)
            try:
                outcome = ray.get(reference)
            except own as error:
                outcome = job.failed(error)
            except ray.exceptions.RayError as error:  # the cluster is gone: not a failure of this trial
                pipe.send(("lost", first_line(error)))
                return None
            if outcome.status == "busy":
                jobs.append(job)
            else:
                pipe.send(("outcome", (job.id, outcome)))
    return None


# In a process of Ray: the process that plays trials with a time limit.
_beside: engines.Local[engines.Job] | None = None


def _work(job: engines.Job, limit: float | None) -> engines.Outcome:
    """One task. A trial with a time limit is played in another process, which can be killed."""
    global _beside
    if limit is None:
        return job.play(lambda: False)
    if _beside is None:
        _beside = engines.Local(1, limit)
    try:
        return next(_beside.play(deque([job])))[1]
    except KeyboardInterrupt:
        _beside.close()
        _beside = None
        return engines.Outcome("stopped")


def _cancel(ray: Any, references: list[Any]) -> None:
    """Interrupt the tasks, which save their trials, and wait briefly: this process will be killed."""
    for reference in references:
        with suppress(ray.exceptions.RayError):
            ray.cancel(reference)
    if references:
        ray.wait(references, num_returns=len(references), timeout=WAIT)


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
    progress: engines.Progress | None = None,
) -> engines.Count:
    """Play every trial that is neither finished nor failed, and return the progress of the sweep.

    engine: "local" (processes), "ray", "batched" (an accelerator), or "auto": batched where that is likely faster.
    workers: processes of the local engine or of our own Ray cluster (default: one per core).
    address: of a running Ray cluster; a local one is started if none is given.
    tensorboard: a folder for event files, with one folder per trial.
    time_limit: seconds that a trial may take (default: the plan's); one that takes longer is killed, and fails.

    A full disk or a lost cluster is not a failure of its trials: RunError is raised, and the next call plays them. Only
    one process plays a sweep at a time. A finished trial is never played again.
    """
    check_engine(engine, address, time_limit)
    processes = workers or os.cpu_count() or 1
    limit = plan.time_limit if time_limit is None else float(time_limit)
    with folder.playing():
        count, missing = _count(plan, folder)
        report = progress or (lambda count: None)
        queue = deque(
            TrialJob(trial, folder.path.absolute(), tensorboard and tensorboard.absolute()) for trial in missing
        )
        with engines.stoppable(count, folder.path):
            for runner in _engines(engine, queue, Cluster(processes, address, limit), count, report):
                with closing(runner):
                    for job, outcome in engines.outcomes(runner, queue, count, folder.path):
                        _add(count, job.trial, outcome)
                        report(count)
        await_shut(plan, folder)
    count.running = 0
    return count


def check_engine(engine: str, address: str | None, time_limit: float | None) -> None:
    """Raise InvalidInput for options of `run_sweep` that cannot be, before anything is made for it."""
    check_names([engine], ENGINES, "engine")
    if address is not None and engine != "ray":
        raise InvalidInput(f"An address is that of a Ray cluster (--engine ray). Got the engine '{engine}' instead.")
    check(time_limit, Seconds | None, "time limit of a trial")


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


def standing(plan: SweepPlan, folder: SweepFolder) -> engines.Count:
    """The progress of a sweep, from its files alone."""
    count, missing = _count(plan, folder)
    count.running = sum(folder.is_held(trial.id) for trial in missing)
    count.waiting = len(missing) - count.running
    return count


def _count(plan: SweepPlan, folder: SweepFolder) -> tuple[engines.Count, list[NamedTrial]]:
    """The numbers of finished and failed trials, from the files; and the other trials."""
    failed, count, missing = folder.failed(), engines.Count(len(plan.trials)), []
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


def _add(count: engines.Count, trial: NamedTrial, outcome: engines.Outcome) -> None:
    count.waiting -= 1
    if outcome.status == "done":
        count.add_done(trial.episodes)
    else:
        count.add_failed(trial.id, outcome.sentence)
        count.left -= trial.episodes
    count.running = min(count.running, count.waiting)


def _engines(
    engine: str, queue: deque[TrialJob], cluster: Cluster, count: engines.Count, report: engines.Progress
) -> Iterator[engines.Runner[TrialJob]]:
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
    yield engines.Local(processes, cluster.limit)
