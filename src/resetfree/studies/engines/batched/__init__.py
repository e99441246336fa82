"""The batched engine: whole runs of finite problems, many seeds and settings at once, on a CPU, GPU or TPU (extra jax).

Read `engine` first (one round for many rows), then `backward` (what every pass shares) and `softmax` (Algorithm 1).
Rows are the last axis of every array. `faster_engine` needs no JAX.
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from resetfree.players import has_batched_form

if TYPE_CHECKING:
    from resetfree.studies.engines.batched.batch import Batch, BatchStopped, Segment, play_batch

__all__ = ["Batch", "BatchStopped", "Segment", "faster_engine", "play_batch"]

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


def __getattr__(name: str) -> Any:
    """Import what needs JAX on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.batch"), name)
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ImportError("The batched engine needs JAX: install resetfree with the extra 'jax'.") from error
