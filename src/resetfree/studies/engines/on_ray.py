"""The engine of a cluster: every trial is one Ray task, tried again elsewhere when its worker or node dies (extra ray).

The tasks keep no state but their run files, so the folder of the sweep must be one that every node sees under the same
name and that has file locks. Nodes need the same version of resetfree.

Ray itself lives in a process of its own, and tells this one what came of the trials: what it prints goes to standard
error, and if it ends its process, as it does when it loses its cluster, another one takes the trials up that are left.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from resetfree.core.errors import InvalidInput, ResetFreeError, RunError
from resetfree.core.interrupts import SLICE
from resetfree.studies.engines.local import Local
from resetfree.studies.engines.runner import J, Job, Outcome, Played
from resetfree.studies.workers import Child

RETRIES = 20  # deaths of workers and nodes that one trial outlives
LOSSES = 3  # of the cluster with no trial finished in between, after which it is given up
LOOPBACK = "127.0.0.10"  # 127.0.0.1 would be replaced by the machine's outer address
STORE = 100 * 2**20  # bytes of shared memory of a cluster of our own: tasks send sentences only
WAIT = 10.0  # seconds for a cluster to answer, and for one to end
GRACE = 0.5  # seconds in which interrupted tasks may save their trials
AHEAD = 2  # tasks handed over per core: enough to keep each busy
LOOK = 5.0  # seconds between two looks at how many cores there are
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # Ray's own name


class Cluster(NamedTuple):
    """Which one, and what is played there."""

    processes: int  # of a cluster that is started here
    address: str | None  # of one that runs, as HOST:PORT or "auto"; None starts one, ended at the end
    limit: float | None  # seconds that a trial may take


class OnRay:
    """The runner of a cluster.  running_now: told how many jobs it is playing."""

    def __init__(self, cluster: Cluster, running_now: Callable[[int], object]) -> None:
        self._cluster, self._running_now = cluster, running_now

    def play(self, jobs: deque[J]) -> Played[J]:
        """Outcomes as they come."""
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
        """Nothing is kept."""


@contextmanager
def _driver(pending: Mapping[str, Job], cluster: Cluster) -> Iterator[Child]:
    """The process that Ray lives in; killing it ends what it plays, and a cluster that it started."""
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
    """What comes from the other process until it ends."""
    with suppress(EOFError, ConnectionError):
        while True:
            alive = child.process.is_alive()
            if child.pipe.poll(SLICE):
                yield child.pipe.recv()
            elif not alive:
                return


def _drive(pipe: Connection, jobs: list[Job], cluster: Cluster) -> None:
    """The other process: hand trials over to the cluster, and tell what comes back."""
    os.dup2(2, 1)  # for good, and for all that Ray starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tasks inherit this, and are cancelled by it
    try:
        ray = _ray()
        with _joined(ray, cluster.processes, cluster.address):
            _hand_over(ray, pipe, deque(jobs), cluster.limit)
    except ResetFreeError as error:
        pipe.send(("refused", error))


def _hand_over(ray: Any, pipe: Connection, jobs: deque[Job], limit: float | None) -> None:
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
            except ray.exceptions.RayError as error:  # not of this trial: the cluster is gone, or the part we talk to
                pipe.send(("lost", _first_line(error)))
                return None
            if outcome.status == "busy":
                jobs.append(job)
            else:
                pipe.send(("outcome", (job.id, outcome)))
    return None


_beside: Local[Job] | None = None  # in a process of Ray: the process that plays, if time is limited


def _work(job: Job, limit: float | None) -> Outcome:
    """One task. A trial whose time is limited is played in another process, which can be killed."""
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
    """Interrupt the tasks, which save their trials, and wait for them: not for long, for we shall be killed."""
    for reference in references:
        with suppress(ray.exceptions.RayError):
            ray.cancel(reference)
    if references:
        ray.wait(references, num_returns=len(references), timeout=WAIT)


@contextmanager
def _joined(ray: Any, processes: int, address: str | None) -> Iterator[None]:
    """Join a cluster, or start one; leaving it ends what was started here and nothing else."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address is None:
        os.environ.setdefault(RECONNECT, f"{WAIT:g}")  # it lives as long as we do: nobody will start it again
        own = {"num_cpus": processes, "include_dashboard": False, "object_store_memory": STORE}
        asked: dict[str, Any] = {"address": "local", "_node_ip_address": LOOPBACK, **own}
    else:
        _knock(address)
        asked = {"address": address, **_on_loopback(address)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**asked, **quiet)
    except (ConnectionError, RuntimeError, ValueError, AssertionError) as error:
        where = "on this machine" if address is None else f"at '{address}'"
        raise RunError(f"The Ray cluster {where} cannot be reached or started: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Whether anybody is there at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT).close()
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RunError(f"The Ray cluster at '{address}' cannot be reached: {why}.") from error


def _on_loopback(address: str) -> dict[str, str]:
    """A driver beside nodes on loopback must stand there too."""
    host = address.rpartition(":")[0]
    try:
        return {"_node_ip_address": host} if ipaddress.ip_address(host).is_loopback else {}
    except ValueError:
        return {}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.exceptions
    except ImportError as error:
        raise InvalidInput("The engine 'ray' needs Ray: install resetfree with the extra 'ray'.") from error
    return ray
