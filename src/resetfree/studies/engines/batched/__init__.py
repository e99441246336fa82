"""The batched engine: whole runs of finite problems, many seeds and settings at once, on a CPU, GPU or TPU (extra jax).

Read `engine` first (one round for many rows), then `backward` (what every pass shares) and `softmax` (Algorithm 1).
Rows are the last axis of every array. `faster_engine` needs no JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from resetfree.studies.engines.batched.choice import faster_engine

if TYPE_CHECKING:
    from resetfree.studies.engines.batched.batch import Batch, BatchStopped, Segment, play_batch

__all__ = ["Batch", "BatchStopped", "Segment", "faster_engine", "play_batch"]


def __getattr__(name: str) -> Any:
    """Import what needs JAX on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from resetfree.studies.engines.batched import batch
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ImportError("The batched engine needs JAX: install resetfree with the extra 'jax'.") from error
    return getattr(batch, name)
