"""Tracking a run: cumulative Regret and Resets and the columns of the round, at log-spaced episodes.

Legend: K episodes, V*(s) the best value of a policy that is never reset from s, nan if there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Floats
from resetfree.core.system import Closes
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import PROBLEMS
from resetfree.problems.world import World
from resetfree.runs.file.columns import COLUMNS, columns_of
from resetfree.runs.file.ledger import read
from resetfree.runs.learn import Progress
from resetfree.runs.tracking.marks import marked
from resetfree.runs.tracking.tensorboard import TensorBoard
from resetfree.theory.oracle.dynamic_programming import solve

PER_DECADE = 50  # points of a curve
ROUND = ("lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "steps", "v_r", "v_c", "original_return")


class Sink(Protocol):
    """Where scalars go."""

    def write(self, k: int, values: Mapping[str, float]) -> None:
        """Write the scalars of episode k."""

    def close(self) -> None:
        """Write out what is buffered."""


class Tracker(Closes):
    """Called after every round, as the `progress` of `learn`; closes its files as a context manager."""

    def __init__(
        self, sink: Sink, episodes: int, best: Floats | None, before: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """best: [S] V*, None without an oracle.  before: the columns of the rounds of earlier sessions."""
        self._sink, self._best = sink, best
        self._marks = frozenset(marked(episodes, PER_DECADE).tolist())
        self._regret, self._resets, self._realised = 0.0, 0.0, 0
        if before is not None and len(before["k"]):
            sums = cumulative(before, best)
            self._regret, self._resets = float(sums["regret"][-1]), float(sums["resets"][-1])
            self._realised = int(sums["realised_resets"][-1])

    def __call__(self, game: Game, this: Round) -> None:
        """Add a round to the sums, and write it if it is one of the log-spaced ones."""
        self._realised += this.episode.reset
        v_r, v_c = (math.nan, math.nan) if this.exact is None else this.exact
        self._regret += (math.nan if self._best is None else float(self._best[this.s1])) - v_r
        self._resets += v_c
        if this.k in self._marks:
            row = dict(zip(COLUMNS, columns_of(this), strict=True))
            sums = {"regret": self._regret, "resets": self._resets, "realised_resets": self._realised}
            self._sink.write(this.k, _finite({**sums, **{name: row[name] for name in ROUND}}))

    def close(self) -> None:
        """Close its files."""
        self._sink.close()


@contextmanager
def tracked(
    progress: Progress, folder: Path | None, world: World, episodes: int, resumed: Path | None = None
) -> Iterator[Progress]:
    """The `progress` of a run, combined with a tracker if a folder is given for TensorBoard files.

    resumed: the run file, if the run is resumed.

    Regret needs V*, which is computed for registered problems only.
    """
    if folder is None:
        yield progress
        return
    best, before, k = None, None, None
    if PROBLEMS.knows(world.name):
        best = best_values(world.mdp)
    if resumed is not None:
        contents = read(resumed)
        k = contents.k
        before = {name: column[:k] for name, column in contents.columns.items()}
    board, played = TensorBoard(folder, k), False
    try:
        with Tracker(board, episodes, best, before) as watch:

            def both(game: Game, this: Round) -> None:
                nonlocal played
                played = True
                watch(game, this)
                progress(game, this)

            both.stopping = getattr(progress, "stopping", None)  # type: ignore[attr-defined]
            yield both
    finally:
        if not played:  # the run was refused
            board.discard()


def track_columns(folder: Path, columns: Mapping[str, NDArray[Any]], best: Floats | None) -> None:
    """Write the same curves for a run that is complete."""
    sums = cumulative(columns, best)
    sink = TensorBoard(folder)
    for k in marked(len(columns["k"]), PER_DECADE).tolist():
        values = {name: float(column[k - 1]) for name, column in sums.items()}
        sink.write(k, _finite({**values, **{name: float(columns[name][k - 1]) for name in ROUND}}))
    sink.close()


def best_values(mdp: FiniteMDP | None) -> Floats | None:
    """[S] V*, None without an oracle."""
    return None if mdp is None else np.asarray(solve(mdp, starts=[]).value)


def cumulative(columns: Mapping[str, NDArray[Any]], best: Floats | None) -> dict[str, Floats]:
    """[K] Regret, Resets and realised resets after each round; the first two are nan without an oracle.

    Regret is nan from the first start on that admits no reset-free policy: it is not defined there.
    """
    regret = np.full(len(columns["k"]), np.nan)
    if best is not None:
        regret = np.cumsum(best[columns["s1"].astype(np.int64)] - columns["v_r"])
    resets, realised = np.cumsum(columns["v_c"]), np.cumsum(columns["reset"], dtype=np.float64)
    return {"regret": regret, "resets": resets, "realised_resets": realised}


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    """The values that are finite numbers."""
    return {name: float(value) for name, value in values.items() if math.isfinite(value)}
