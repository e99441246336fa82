"""`play_batch`: whole runs, many seeds and settings at once, as one compiled program on the default device of JAX."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from resetfree.core.arguments import whole
from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError
from resetfree.core.settings import check_names
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.runs.file.recorded import columns_of_row
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup
from resetfree.studies.engines.batched import layout
from resetfree.studies.engines.batched.engine import BatchState, play_segment
from resetfree.studies.engines.batched.layout import Arrays, Block, Ready, make_ready, settings_of

# The columns of `runs.file.recorded.COLUMNS` of a finite problem; k is the same in every row and is not kept.
PLAYED = ("s1", "lam", "v_r_hat", "v_c_hat", "upper", "cost_signal", "reward", "reset", "steps", "next_start")
EXACT = ("v_r", "v_c")
AT_ONCE = 1 << 22  # rounds of all rows together in one segment, by default
LONGEST = 1000  # episodes of one segment


@dataclass(frozen=True, eq=False)
class Segment:
    """The progress of a batch between two segments, and its state for a checkpoint."""

    played: int  # episodes
    episodes: int  # of the whole batch
    _states: list[BatchState] = field(repr=False)
    _blocks: list[Block] = field(repr=False)
    _request: str = field(repr=False)

    @property
    def resets(self) -> NDArray[np.int64]:
        """[n] resets of each row so far."""
        parts = zip(self._states, self._blocks, strict=True)
        return np.concatenate([np.asarray(now.resets)[: len(block.rows)] for now, block in parts]).astype(np.int64)

    def state(self) -> Arrays:
        """Everything that `resume` needs, as named NumPy arrays (for `np.savez`)."""
        return layout.dump(self._states, self._blocks, self._request)


Progress: TypeAlias = Callable[[Segment], object]


@dataclass(frozen=True, eq=False)
class Batch:
    """Runs side by side: row i is the run of setting `setting[i]` with seed `seeds[i]`."""

    specs: list[dict[str, Any]] = field(repr=False)  # one per setting, as of a single run
    seeds: NDArray[np.int64]  # [n]
    setting: NDArray[np.int64]  # [n]
    columns: dict[str, NDArray[Any]] = field(repr=False)  # each [n, K], docs/columns.md; those that were requested
    state: Arrays = field(repr=False)  # of all rows after the last round
    mdp: FiniteMDP = field(repr=False)
    seconds: float

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def episodes(self) -> int:
        """Rounds played in each row."""
        return int(self.state["k"])

    @property
    def resets(self) -> NDArray[np.int64]:
        """[n] resets that happened in each row."""
        return np.asarray(self.state["resets"].astype(np.int64))

    @property
    def reward(self) -> NDArray[np.float64]:
        """[n] sum of rewards of each row."""
        return self.state["reward"]

    def run(self, row: int) -> Run:
        """One row as a run of its own, as `learn` returns it; needs every column."""
        missing = [name for name in PLAYED if name not in self.columns]
        if missing:
            raise NotCertifiable(f"A run needs every column. Got a batch without '{missing[0]}': leave out 'columns'.")
        spec = {**self.specs[self.setting[row]], "seed": int(self.seeds[row])}
        mdp = self.mdp if "v_r" in self.columns else None
        return Run(spec, columns_of_row(self.columns, row), mdp, None, self.seconds / len(self))


class BatchStopped(ResetFreeError):
    """The user stopped a batch (Ctrl-C); `batch` holds the rounds up to the end of the last segment."""

    def __init__(self, batch: Batch, episodes: int) -> None:
        super().__init__(f"Stopped after {batch.episodes} of {episodes} episodes.")
        self.batch = batch


def play_batch(
    problem: Any,
    primal: Any,
    dual: Any = "auto",
    *,
    episodes: int = 2000,
    seeds: Sequence[int] = range(8),
    feedback: str = "auto",
    B: float | None = None,
    evaluate: bool = False,
    columns: Sequence[str] | None = None,
    segment: int | None = None,
    progress: Progress | None = None,
    resume: Arrays | None = None,
) -> Batch:
    """Play `episodes` rounds for every setting and seed at once; row (i, j) is setting i with seed j, seeds fastest.

    The rounds are those of `learn` with the same seed: the same uniforms, so the same starts, resets and steps, and
    values to 1e-9. This was tested over 2,000 episodes; rounding differs in the last bits, so that eventually a softmax
    may take another action when a uniform falls that close to a bound.

    problem: a FiniteMDP, or anything that `learn` takes and that has a finite model.
    primal, dual: names or players; lists for several settings, whose players differ in numbers only (a single player is
      combined with each of a list). They must have a batched form; otherwise InvalidInput is raised.
    evaluate: whether the columns v_r and v_c (exact values of each policy) are computed.
    columns: which columns to keep (default: all); totals are kept in any case.
    segment: rounds between two returns to Python, when `progress` is called and Ctrl-C takes effect.
    progress: called after every segment.
    resume: a `Segment.state()` or `Batch.state` of a batch with the same arguments; the columns then begin after it.

    >>> import resetfree as rf
    >>> from resetfree.players.linear.algorithm1 import algorithm1
    >>> batch = play_batch(rf.make("grid-v0"), *algorithm1(), episodes=50, seeds=[1, 2])
    >>> batch.columns["reset"].shape, bool((batch.columns["reset"].sum(axis=1) == batch.resets).all())
    ((2, 50), True)
    """
    setups = settings_of(problem, primal, dual, episodes=episodes, seeds=seeds, feedback=feedback, B=B)
    ready = make_ready(setups, seeds, evaluate, _columns(columns, evaluate))
    request = _digest(setups, seeds)
    done = ready.start if resume is None else layout.load(resume, ready.start, ready.blocks, request)
    before = int(done[0].k)
    if before > episodes:
        raise InvalidInput(f"The state to resume from must have at most {episodes} rounds. Got {before} instead.")
    kept: dict[str, NDArray[Any]] = {}
    began = time.perf_counter()

    def finish() -> Batch:
        state = layout.dump(done, ready.blocks, request)
        nothing = np.empty((len(ready.seeds), 0))
        there = {name: kept.get(name, nothing)[:, : int(state["k"]) - before] for name in ready.program.columns}
        specs, seconds = [setup.spec for setup in setups], time.perf_counter() - began
        return Batch(specs, ready.seeds, ready.setting, there, state, mdp=ready.mdp, seconds=seconds)

    try:
        for current, parts in _ahead(ready, done, episodes - before, _length(segment, episodes, len(ready.seeds))):
            for block, part in zip(ready.blocks, parts, strict=True):
                _keep(kept, part, block.rows, int(done[0].k) - before, (len(ready.seeds), episodes - before))
            done = jax.block_until_ready(current)  # type: ignore[no-untyped-call]
            if progress is not None:
                progress(Segment(int(done[0].k), episodes, done, ready.blocks, request))
    except KeyboardInterrupt as error:
        raise BatchStopped(finish(), episodes) from error
    return finish()


def _ahead(
    ready: Ready, now: list[BatchState], left: int, length: int
) -> Iterator[tuple[list[BatchState], list[dict[str, Any]]]]:
    """The segments in turn; the device computes the next one while the last is fetched."""
    waiting: tuple[list[BatchState], list[dict[str, Any]]] | None = None
    while left > 0:
        played = [
            play_segment(ready.program, block.world, current, min(length, left))
            for block, current in zip(ready.blocks, now, strict=True)
        ]
        for _, part in played:
            for column in part.values():
                column.copy_to_host_async()
        now, left = [current for current, _ in played], left - length
        if waiting is not None:
            yield waiting
        waiting = now, [part for _, part in played]
    if waiting is not None:
        yield waiting


def _keep(
    kept: dict[str, NDArray[Any]], part: dict[str, Any], rows: NDArray[np.int64], begin: int, shape: tuple[int, int]
) -> None:
    """Copy a segment [rows, t] into the whole columns, which are allocated at once."""
    for name, column in part.items():
        values = np.asarray(column)[: len(rows)]
        if values.shape == shape:
            kept[name] = values
            continue
        if name not in kept:
            kept[name] = np.empty(shape, dtype=values.dtype)
        kept[name][rows[0] : rows[-1] + 1, begin : begin + values.shape[1]] = values


def _columns(columns: Sequence[str] | None, evaluate: bool) -> tuple[str, ...]:
    """The columns to keep, in the order of a run."""
    there = PLAYED + EXACT if evaluate else PLAYED
    check_names(columns or (), there, "column of a batch")
    return tuple(there if columns is None else [name for name in there if name in columns])


def _length(segment: int | None, episodes: int, rows: int) -> int:
    """Rounds of a segment: `segment` if given; otherwise such that all are equally long if nearly as efficient."""
    if segment is not None:
        return whole(segment, "'segment' of a batch", 1)
    n = -(-episodes // max(1, min(LONGEST, AT_ONCE // rows)))
    for pieces in range(n, 2 * n + 1):
        if episodes % pieces == 0:
            return episodes // pieces
    return -(-episodes // n)


def _digest(setups: list[Setup], seeds: Sequence[int]) -> str:
    """A hash of the request: problem, players, settings, episodes and seeds."""
    specs = [{**setup.spec, "seed": None} for setup in setups]
    return sha256(json.dumps([specs, [int(s) for s in seeds]], sort_keys=True, default=str).encode()).hexdigest()
