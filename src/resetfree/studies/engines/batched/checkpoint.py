"""Where a batch stands, as named NumPy arrays and back, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np

from resetfree.core.errors import InvalidInput
from resetfree.studies.engines.batched.engine import Standing
from resetfree.studies.engines.batched.layout import Block
from resetfree.studies.engines.batched.precision import in_float64

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
ASKED = "asked"


def _named(now: Standing) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(now)[0]
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in leaves]


def dump(now: Sequence[Standing], blocks: Sequence[Block], asked: str) -> Arrays:
    """Every array by its place, all rows together; `asked` says what was asked for, so that nothing else goes on."""
    parts: dict[str, list[np.ndarray[Any, Any]]] = {}
    for standing, block in zip(now, blocks, strict=True):
        for name, leaf in _named(standing):
            parts.setdefault(name, []).append(np.asarray(leaf)[..., : len(block.rows)] if leaf.ndim else leaf)
    arrays = {name: np.concatenate(x, axis=-1) if x[0].ndim else np.asarray(x[0]) for name, x in parts.items()}
    return {ASKED: np.array(asked), **arrays}


@in_float64
def load(saved: Arrays, fresh: Sequence[Standing], blocks: Sequence[Block], asked: str) -> list[Standing]:
    """What `dump` gave, in the place of a fresh standing of the same batch."""
    if str(saved.get(ASKED, "")) != asked:
        raise InvalidInput("The state must come from a batch that was asked for in the same way. Got another instead.")
    n_rows = sum(len(block.rows) for block in blocks)
    result = []
    for standing, block in zip(fresh, blocks, strict=True):
        leaves = []
        for name, leaf in _named(standing):
            there = saved.get(name)
            shape = (*leaf.shape[:-1], n_rows) if leaf.ndim else ()
            if there is None or there.shape != shape or there.dtype != leaf.dtype:
                raise InvalidInput(f"The state must hold '{name}' as it was saved. Got something else instead.")
            if leaf.ndim:
                filled = np.append(block.rows, np.full(leaf.shape[-1] - len(block.rows), block.rows[-1]))
                there = there[..., filled]
            leaves.append(jax.device_put(there))
        result.append(jax.tree.unflatten(jax.tree.structure(standing), leaves))
    return result
