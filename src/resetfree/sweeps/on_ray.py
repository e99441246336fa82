"""The engine of a cluster: every trial is one Ray task, tried again elsewhere when its worker or node dies (extra ray).

The tasks keep no state but their run files, so the folder of the sweep must be one that every node sees under the same
name and that has file locks. Nodes need the same version of resetfree.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any

from resetfree.errors import InvalidInput, RunError
from resetfree.sweeps.folder import Folder
from resetfree.sweeps.trial import Errand, Outcome, failed, run_trial

RETRIES = 20  # deaths of workers and nodes that one trial outlives
LOOPBACK = "127.0.0.10"  # 127.0.0.1 would be replaced by the machine's outer address
STORE = 100 * 2**20  # bytes of shared memory of a cluster of our own: tasks send sentences only
WAIT = 10.0  # seconds for a cluster to answer
AHEAD = 2  # tasks handed over per core: enough to keep each busy


def play_on_ray(
    errands: deque[Errand], processes: int, address: str | None, running_now: Callable[[int], object]
) -> Generator[tuple[Errand, Outcome], None, None]:
    """Outcomes as they come.

    address: of a cluster that runs, as HOST:PORT or "auto"; None starts one of so many processes, ended at the end.
    running_now: told how many trials the cluster is playing.
    """
    ray = _ray()
    with _cluster(ray, processes, address):
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_work)
        running: dict[Any, Errand] = {}
        try:
            while errands or running:
                cores = int(ray.cluster_resources().get("CPU", 0))  # nodes come and go
                while errands and len(running) < AHEAD * max(cores, 1):
                    errand = errands.popleft()
                    running[task.remote(errand)] = errand
                running_now(min(len(running), cores))
                ready, _ = ray.wait(list(running), num_returns=1, timeout=5.0)
                for reference in ready:
                    errand = running.pop(reference)
                    try:
                        outcome = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        outcome = failed(Folder(errand.folder), errand.trial, error)
                    if outcome.status == "busy":
                        errands.append(errand)
                    else:
                        yield errand, outcome
        except (KeyboardInterrupt, GeneratorExit):
            _cancel(ray, list(running))
            raise


def _work(errand: Errand) -> Outcome:
    return run_trial(errand)


def _cancel(ray: Any, references: list[Any]) -> None:
    """Interrupt the tasks, which save their trials, and wait for them."""
    for reference in references:
        with suppress(ray.exceptions.RayError):
            ray.cancel(reference)
    if references:
        ray.wait(references, num_returns=len(references), timeout=30.0)


@contextmanager
def _cluster(ray: Any, processes: int, address: str | None) -> Iterator[None]:
    """Join a cluster, or start one; leaving it ends what was started here and nothing else."""
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address is None:
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
        with redirect_stdout(sys.stderr):  # where Ray's own threads tell of nodes that died
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
