"""Libraries of an extra: imported where they are first used, so that modules that need one are listed without it.

Ray: joining a cluster, or starting one on this machine; what it raises becomes one sentence.
"""

import functools
import importlib
import ipaddress
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from resetfree.core.errors import InvalidInput, RunError

P = ParamSpec("P")
T = TypeVar("T")
NETWORKS = 'pip install "resetfree[neural]"'


class Deferred:
    """A module that is imported when one of its names is used.

    >>> Deferred("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


def jitted(*static: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`jax.jit` as a decorator that leaves the import of JAX to the first call.

    static: names of arguments that are constants of the compiled program.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.cache
        def program() -> Any:
            return importlib.import_module("jax").jit(function, static_argnames=static)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            found: T = program()(*args, **kwargs)
            return found

        return call

    return decorate


LOOPBACK = "127.0.0.10"  # 127.0.0.1 would be replaced by the machine's outer address
STORE = 100 * 2**20  # bytes of shared memory of our own cluster; larger messages take the disk
WAIT = 10.0  # seconds for a cluster to answer, and for one to end
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # Ray's own name
CLIENT = "ray://"  # begins the address of a cluster that this machine is no node of


@contextmanager
def joined(ray: Any, processes: int, address: str | None) -> Iterator[None]:
    """Connect to a cluster, or start one; at the end, only a cluster that was started here is shut down.

    processes: of a cluster that is started here.  address: of a running one; None starts one.
    """
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address is None:
        os.environ.setdefault(RECONNECT, f"{WAIT:g}")  # if its head dies, it is not restarted
        own = {"num_cpus": processes, "include_dashboard": False, "object_store_memory": STORE}
        options: dict[str, Any] = {"address": "local", "_node_ip_address": LOOPBACK, **own}
    else:
        check_reachable(address)
        options = {"address": address, **on_loopback(address)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(**options, **quiet)
    except Exception as error:  # Ray raises many kinds, some of them without a class of their own
        with suppress(Exception):
            ray.shutdown()
        where = "on this machine" if address is None else f"at '{address}'"
        raise RunError(f"The Ray cluster {where} cannot be reached or started: {first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def check_reachable(address: str) -> None:
    """Raise RunError if HOST:PORT does not accept connections: Ray itself would retry for minutes."""
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=WAIT).close()
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RunError(f"The Ray cluster at '{address}' cannot be reached: {why}.") from error


def on_loopback(address: str) -> dict[str, str]:
    """The options of a driver for nodes on loopback: it must use a loopback address itself."""
    host = address.rpartition(":")[0]
    try:
        return {"_node_ip_address": host} if ipaddress.ip_address(host).is_loopback else {}
    except ValueError:
        return {}


def first_line(error: BaseException) -> str:
    """The first line of a message of Ray, which may have many."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def import_ray(who: str) -> Any:
    """The module; raises InvalidInput, with `who` needs it as the subject, if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
            import ray.exceptions
    except ImportError as error:
        raise InvalidInput(f"{who} needs Ray: install resetfree with the extra 'ray'.") from error
    return ray
