"""The choice between the local and the batched engine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

from resetfree.players.batched import has_batched_form

FEW_ROWS = 64  # with fewer runs a GPU is mostly idle, and local processes are faster


def accelerator() -> bool:
    """Whether JAX is installed and finds a device other than a CPU."""
    if find_spec("jax") is None:
        return False
    import jax

    return jax.default_backend() != "cpu"


def faster_engine(n_seeds: int, primal: Any = None, dual: Any = None) -> Literal["local", "batched"]:
    """The likely faster engine: "batched" for an accelerator, enough runs and batched forms, else "local".

    On two CPU cores the two are about equal (`make bench-batched`: with exact values, the batched engine has 0.6 to 1.8
    times the throughput of two local processes), and run files of the local engine also hold the state of the players.

    >>> faster_engine(1)
    'local'
    """
    if n_seeds < FEW_ROWS or not accelerator():
        return "local"
    known = all(player is None or has_batched_form(type(player)) for player in (primal, dual))
    return "batched" if known else "local"
