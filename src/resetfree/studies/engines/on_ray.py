"""The Ray engine: every trial is one task, retried elsewhere if its worker or node dies (extra ray).

Tasks keep no state but their run files, so the folder of the sweep must be shared by all nodes under the same name, and
support file locks. Nodes need the same version of resetfree.

Ray runs in a separate process, which sends the outcomes to this one. Its output goes to standard error. If Ray ends
that process, as it does when it loses its cluster, a new one continues with the remaining trials.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from resetfree.core.children import Child
from resetfree.core.errors import ResetFreeError
from resetfree.core.extras import WAIT, first_line, import_ray, joined
from resetfree.core.interrupts import SLICE
from resetfree.studies.engines.runner import J, Job, Local, Outcome, Outcomes

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

    def play(self, jobs: deque[J]) -> Outcomes[J]:
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
                yield next(iter(pending.values())), Outcome("lost", sentence)

    def close(self) -> None:
        """Nothing to close."""


@contextmanager
def _driver(pending: Mapping[str, Job], cluster: Cluster) -> Iterator[Child]:
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


def _drive(pipe: Connection, jobs: list[Job], cluster: Cluster) -> None:
    """The other process: submit trials to the cluster, and send back their outcomes."""
    os.dup2(2, 1)  # permanently, also for the processes that Ray starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tasks inherit this, and are cancelled by it
    try:
        ray = import_ray("The engine 'ray'")
        with joined(ray, cluster.processes, cluster.address):
            _submit(ray, pipe, deque(jobs), cluster.limit)
    except ResetFreeError as error:
        pipe.send(("refused", error))


def _submit(ray: Any, pipe: Connection, jobs: deque[Job], limit: float | None) -> None:
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)
    running: dict[Any, Job] = {}
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


_beside: Local[Job] | None = None  # in a process of Ray: the process that plays trials with a time limit


def _work(job: Job, limit: float | None) -> Outcome:
    """One task. A trial with a time limit is played in another process, which can be killed."""
    global _beside
    if limit is None:
        return job.play(lambda: False)
    if _beside is None:
        _beside = Local(1, limit)
    try:
        return next(_beside.play(deque([job])))[1]
    except KeyboardInterrupt:
        _beside.close()
        _beside = None
        return Outcome("stopped")


def _cancel(ray: Any, references: list[Any]) -> None:
    """Interrupt the tasks, which save their trials, and wait briefly: this process will be killed."""
    for reference in references:
        with suppress(ray.exceptions.RayError):
            ray.cancel(reference)
    if references:
        ray.wait(references, num_returns=len(references), timeout=WAIT)
