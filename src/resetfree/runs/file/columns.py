"""The columns of a run file (docs/columns.md), and the mapping of a round to them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.game.contract import Round

# v_r and v_c are exact (nan without an oracle); v_r_hat, v_c_hat and upper are the player's own estimates.
COLUMNS = (
    *("k", "s1", "lam", "v_r_hat", "v_c_hat", "upper", "cost_signal"),
    *("reward", "reset", "steps", "next_start", "v_r", "v_c", "original_return"),
)
GOALS = "goals"  # one more column, of runs on problems with goals
# Four more columns, of timed runs: the round that the plan rests on, the first 48 bits of its digest, deadlines missed,
# and how late the latest command was (seconds; nan without a rate).
TIMING = ("based_on", "plan", "missed", "lateness")
MOST_PLAN = 2**48
STARTS = [COLUMNS.index(name) for name in ("s1", "next_start")]
_UNKNOWN = (float("nan"), float("nan"))


def columns_of(this: Round) -> tuple[Any, ...]:
    """A round as one value per column of COLUMNS: starts as states of the problem, everything else plain numbers."""
    plan, episode = this.plan, this.episode
    v_r, v_c = this.exact or _UNKNOWN
    planned = (float(this.lam), float(plan.v_r), float(plan.v_c), float(plan.upper), float(this.cost_signal))
    reward, own = float(np.add.reduce(episode.rewards)), float(episode.original_return)
    played = (reward, int(episode.reset), len(episode.actions), episode.next_start)
    return (this.k, this.s1, *planned, *played, v_r, v_c, reward if isnan(own) else own)


def own_returns(columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """[K] the column `original_return`, with the reward where it was not kept apart, as in files from before."""
    paid, own = columns["reward"], columns["original_return"]
    return np.asarray(np.where(np.isnan(own), paid, own), dtype=np.float64)


def check_timing(columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse what no timed run has: plans that rest on later rounds, or on rounds before a reset; raises ValueError."""
    k, based_on = np.arange(1, len(columns["k"]) + 1), columns["based_on"]
    newest = np.maximum.accumulate(np.where(columns["reset"], k, 0))
    older = np.concatenate([[0], np.maximum(newest, np.maximum.accumulate(based_on))])[:-1]  # what it must rest on
    wrong = np.flatnonzero((based_on < older) | (based_on >= k))
    if len(wrong):
        raise ValueError(f"the plan of round {wrong[0] + 1} rests on round {based_on[wrong[0]]}")
    if not ((columns["plan"] >= 0) & (columns["plan"] < MOST_PLAN) & (columns["missed"] >= 0)).all():
        raise ValueError("a plan has no digest, or deadlines were missed less than zero times")


def columns_of_row(batch: Mapping[str, NDArray[Any]], row: int) -> dict[str, NDArray[Any]]:
    """The columns [K] of one run of a batch, from arrays [n, K]; missing columns are nan."""
    n = batch["s1"].shape[1]
    columns: dict[str, NDArray[Any]] = {"k": np.arange(1, n + 1)}
    for name in COLUMNS[1:]:
        column = batch[name][row] if name in batch else np.full(n, np.nan)
        columns[name] = column.astype(np.int64) if column.dtype.kind == "i" else column
    return {**columns, "original_return": own_returns(columns)}
