"""What a run keeps of each round, written once: the columns of a run file (docs/columns.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.game.contract import Round

# What the ledger keeps of a round: v_r, v_c exact (nan without an oracle), v_r_hat, v_c_hat, upper the player's own.
COLUMNS = (
    "k", "s1", "lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "reset", "steps", "next_start",
    "v_r", "v_c", "original_return",
)  # fmt: skip
STARTS = [COLUMNS.index(name) for name in ("s1", "next_start")]
_UNKNOWN = (float("nan"), float("nan"))


def columns_of(this: Round) -> tuple[Any, ...]:
    """A round as one value for each of COLUMNS: starts as the problem has them, everything else plain numbers."""
    plan, episode = this.plan, this.episode
    v_r, v_c = this.exact or _UNKNOWN
    return (
        this.k, this.s1, float(this.lam), float(plan.v_r), float(plan.v_c), float(plan.upper), float(this.cost_signal),
        float(np.add.reduce(episode.rewards)), int(episode.reset), len(episode.actions), episode.next_start, v_r, v_c,
        float(episode.original_return),
    )  # fmt: skip


def columns_of_row(batch: Mapping[str, NDArray[Any]], row: int) -> dict[str, NDArray[Any]]:
    """The columns [K] of one run of many that were played side by side, from arrays [n, K]; nan for what is missing."""
    n = batch["s1"].shape[1]
    columns: dict[str, NDArray[Any]] = {"k": np.arange(1, n + 1)}
    for name in COLUMNS[1:]:
        column = batch[name][row] if name in batch else np.full(n, np.nan)
        columns[name] = column.astype(np.int64) if column.dtype.kind == "i" else column
    return columns
