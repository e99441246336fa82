"""`play_batch`: whole runs, many seeds and settings at once, as one compiled program on the default device of JAX.

Rows are played in blocks. On a CPU a block has a fixed number of rows (the last block is padded with copies), so that
the numbers of a row do not depend, bit for bit, on the number of rows; on other devices all rows are one block. The
state of a batch is named NumPy arrays, and goes there and back bit for bit.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from resetfree.core import Ints, InvalidInput, NotCertifiable, ResetFreeError, check_names, expect, whole
from resetfree.players import BatchedForm, Role, discover, has_batched_form
from resetfree.players.batched import shape_of, tables_of
from resetfree.problems import FiniteMDP, Problem, find_world
from resetfree.runs.file.recorded import columns_of_row
from resetfree.runs.request import Who
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup, prepare
from resetfree.studies.engines.batched.engine import (
    FEEDBACK,
    BatchState,
    BatchWorld,
    Program,
    after_first,
    begin,
    draws,
    in_float64,
    play_segment,
)

CPU_ROWS = 16  # rows of a block on a CPU: enough for its vectors, few enough for its caches
WRITTEN_OUT = 32  # the longest horizon that is unrolled on an accelerator


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are played together: their indices in the batch, and the arrays of the program for them."""

    rows: Ints  # [b] indices in the batch; in the arrays, copies of the last row follow
    world: BatchWorld


@dataclass(frozen=True, eq=False)
class Ready:
    """Everything that is needed to play a batch."""

    mdp: FiniteMDP
    program: Program
    blocks: list[Block]
    start: list[BatchState]  # of each block
    seeds: Ints  # [n] of each row
    setting: Ints  # [n]


def settings_of(
    problem: Any, primal: Any, dual: Any, *, episodes: int, seeds: Sequence[int], feedback: str, B: float | None
) -> list[Setup]:
    """One setup per setting, checked as by `learn`."""
    lists = [list(players) if isinstance(players, list | tuple) else [players] for players in (primal, dual)]
    n = max(len(players) for players in lists)
    if not all(len(players) in (1, n) and players for players in lists):
        raise InvalidInput(
            "The lists of primal and dual players must be of one length (or one player). "
            f"Got {len(lists[0])} and {len(lists[1])} instead."
        )
    expect(len(seeds) != 0, "'seeds' of a batch", "name at least one seed", got="none")
    for seed in seeds:
        whole(seed, "'seeds' of a batch", 0)
    world = find_world(problem)
    pairs = zip(*(players * n if len(players) == 1 else players for players in lists), strict=True)
    players = [Who(p, d, feedback, B) for p, d in pairs]
    setups = [prepare(world, who, episodes=episodes, seed=int(seeds[0])) for who in players]
    if any(setup.spec["feedback"] != setups[0].spec["feedback"] for setup in setups):
        raise InvalidInput("The settings of one batch must have one feedback. Got several instead.")
    return setups


@in_float64
def make_ready(setups: list[Setup], seeds: Sequence[int], evaluate: bool, columns: tuple[str, ...]) -> Ready:
    """Make the program and its arrays, and move these to the device; nothing is compiled yet."""
    mdp = setups[0].world.mdp
    if mdp is None:
        raise NotCertifiable("The batched engine needs a finite problem whose model is known.")
    problem, spec = mdp.problem(), setups[0].spec
    primals = _forms("primal", [s.primal for s in setups], problem, spec["episodes"])
    duals = _forms("dual", [s.dual for s in setups], problem, spec["episodes"])
    primal, dual = primals[0].program, duals[0].program
    on_cpu = jax.default_backend() == "cpu"
    shape = shape_of(mdp, not on_cpu and mdp.horizon <= WRITTEN_OUT)
    program = Program(shape, primal, dual, evaluate or spec["feedback"] == "exact", columns)
    offsets = [at for part in program.offsets.values() for at in part]
    tables, feedback = jax.device_put((tables_of(mdp, shape), np.int32(FEEDBACK.index(spec["feedback"]))))

    seed_of = np.tile(np.array(seeds, dtype=np.int64), len(setups))
    setting = np.repeat(np.arange(len(setups)), len(seeds))
    blocks, start = [], []
    width = CPU_ROWS if on_cpu else len(seed_of)
    for first in range(0, len(seed_of), width):
        rows = np.arange(first, min(first + width, len(seed_of)))
        filled = np.append(rows, np.full(width - len(rows), rows[-1]))
        here = [int(seed) for seed in seed_of[filled]]
        u, state, stream = after_first(here)
        given = _per_row(primals, setting[filled])
        if hasattr(primal, "by_seed"):
            given |= primal.by_seed(problem, here)
        jumps = draws(offsets, shape.n_uniforms, stream)
        world = BatchWorld(tables, jumps, given, _per_row(duals, setting[filled]), feedback)
        s1 = np.array([problem.first_start(float(x)) for x in u], dtype=np.int32)
        now = begin(program, world, s1, state)
        blocks.append(Block(rows, jax.device_put(world)))
        start.append(jax.device_put(now))
    return Ready(mdp, program, blocks, start, seeds=seed_of, setting=setting)


def _forms(role: Role, players: Sequence[Any], problem: Problem, episodes: int) -> list[BatchedForm]:
    """The batched form of each player; their programs must be the same."""
    forms: list[BatchedForm] = []
    for player in players:
        if not has_batched_form(type(player)):
            names = ", ".join(sorted(name for name, cls in discover(role).items() if has_batched_form(cls)))
            what = getattr(player, "name", type(player).__name__)
            raise InvalidInput(f"The batched engine plays {names}. Got '{what}' instead.")
        forms.append(player.batched_form(problem, episodes))
        if type(player) is not type(players[0]) or forms[-1].program != forms[0].program:
            raise InvalidInput(
                f"The settings of one batch must differ in numbers only. Got {players[0]} and {player} instead."
            )
    return forms


def _per_row(forms: Sequence[BatchedForm], setting: Ints) -> dict[str, Any]:
    """Numbers as [rows], by the setting of each row; arrays are the same for all settings."""
    return {
        name: value
        if isinstance(value, np.ndarray)
        else np.array([float(form.numbers[name]) for form in forms])[setting]
        for name, value in forms[0].numbers.items()
    }


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
        return dump(self._states, self._blocks, self._request)


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
    done = ready.start if resume is None else load(resume, ready.start, ready.blocks, request)
    before = int(done[0].k)
    expect(before <= episodes, "state to resume from", f"have at most {episodes} rounds", got=f"{before}")
    kept: dict[str, NDArray[Any]] = {}
    began = time.perf_counter()

    def finish() -> Batch:
        state = dump(done, ready.blocks, request)
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
