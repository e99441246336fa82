"""The state of a batch as named NumPy arrays and back, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.studies.engines.batched.engine import BatchState
from resetfree.studies.engines.batched.layout import Block
from resetfree.studies.engines.batched.precision import in_float64

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
REQUEST = "asked"  # the name of the digest of the request among the arrays


def _named(now: BatchState) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(now)[0]
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def dump(now: Sequence[BatchState], blocks: Sequence[Block], request: str) -> Arrays:
    """Every array by its path, all rows together, with a digest of the request of the batch."""
    parts: dict[str, list[np.ndarray[Any, Any]]] = {}
    for current, block in zip(now, blocks, strict=True):
        for name, leaf in _named(current):
            parts.setdefault(name, []).append(np.asarray(leaf)[..., : len(block.rows)] if leaf.ndim else leaf)
    arrays = {name: np.concatenate(x, axis=-1) if x[0].ndim else np.asarray(x[0]) for name, x in parts.items()}
    return {REQUEST: np.array(request), **arrays}


@in_float64
def load(saved: Arrays, fresh: Sequence[BatchState], blocks: Sequence[Block], request: str) -> list[BatchState]:
    """The states that `dump` saved, in the structure of the fresh states of the same batch."""
    if str(saved.get(REQUEST, "")) != request:
        raise InvalidInput("The state must come from a batch with the same arguments. Got that of another instead.")
    n_rows = sum(len(block.rows) for block in blocks)
    result = []
    for current, block in zip(fresh, blocks, strict=True):
        leaves = []
        for name, leaf in _named(current):
            there = saved.get(name)
            shape = (*leaf.shape[:-1], n_rows) if leaf.ndim else ()
            if there is None or there.shape != shape or there.dtype != leaf.dtype:
                raise InvalidInput(f"The state must hold '{name}' as it was saved. Got something else instead.")
            if leaf.ndim:
                filled = np.append(block.rows, np.full(leaf.shape[-1] - len(block.rows), block.rows[-1]))
                there = there[..., filled]
            leaves.append(jax.device_put(there))
        result.append(jax.tree.unflatten(jax.tree.structure(current), leaves))
    return result
