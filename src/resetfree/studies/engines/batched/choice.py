"""Which engine is likely the faster one here."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

from resetfree.players.shared.batched.form import has_batched_form

FEW_ROWS = 64  # below this many runs a GPU is mostly idle, and local processes are done first


def accelerator() -> bool:
    """Whether JAX is installed and finds something else than a CPU."""
    if find_spec("jax") is None:
        return False
    import jax

    return jax.default_backend() != "cpu"


def faster_engine(n_seeds: int, primal: Any = None, dual: Any = None) -> Literal["local", "batched"]:
    """The word "batched" if there is an accelerator, enough runs to fill it, and it knows the players; else "local".

    On two CPU cores the two are about even (`make bench-batched`: with exact values, the batched engine does 0.6 to 1.8
    times what two processes of the local one would), and run files of the local one also keep what players learned.

    >>> faster_engine(1)
    'local'
    """
    if n_seeds < FEW_ROWS or not accelerator():
        return "local"
    known = all(player is None or has_batched_form(type(player)) for player in (primal, dual))
    return "batched" if known else "local"
