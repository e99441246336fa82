"""The batched engine: whole runs of finite problems, many seeds and settings at once, on a CPU, GPU or TPU (extra jax).

Read `engine` first (one round for many rows), then `batch` (whole runs). Rows are the last axis of every array.
`faster_engine` needs no JAX.

In a sweep, trials that share a problem and two players are played side by side. A batch saves its rounds in `batches/`
every minute, which is the most that a kill can lose. When it is complete, each row becomes the run file of its trial,
as if it had been played alone. Such a file says `engine: batched` in its spec, and its last checkpoint holds no state
of the players: its rounds can be read, but it gives no policy.
"""

import hashlib
import importlib
import itertools
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, ResetFreeError
from resetfree.core.files import drafted, lacks_room
from resetfree.players import has_batched_form
from resetfree.problems import World
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.recorded import COLUMNS, columns_of_row
from resetfree.runs.file.runfile import Checkpoint
from resetfree.runs.setup import Setup
from resetfree.runs.tracking import best_values, track_columns
from resetfree.studies.engines import Outcome, Outcomes, Workers
from resetfree.studies.trial import SweepFolder, TrialJob

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
    return getattr(_compiled(), name)


def _compiled() -> ModuleType:
    try:
        return importlib.import_module(f"{__name__}.batch")
    except ModuleNotFoundError as error:
        if error.name not in ("jax", "jaxlib"):
            raise
        raise ImportError("The batched engine needs JAX: install resetfree with the extra 'jax'.") from error


MOST_ROUNDS = 2**24  # of all rows of a batch: about two gigabytes of columns
SAVE_EVERY = 60.0  # seconds
FEW_ROUNDS = 2**17  # fewer are written faster by this process than by new ones

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """Rows that are played together: each setting with each seed, seeds fastest."""

    jobs: list[TrialJob]
    setups: list[Setup]
    seeds: list[int]

    @property
    def place(self) -> Path:
        """The folder of its rounds until it is complete."""
        ids = "".join(job.trial.id for job in self.jobs)
        return self.jobs[0].folder / "batches" / hashlib.sha256(ids.encode()).hexdigest()[:16]


class RunRow(NamedTuple):
    """The contents of one run file, and its job."""

    job: TrialJob
    spec: dict[str, Any]
    columns: Arrays  # [K]
    seconds: float
    best: NDArray[np.float64] | None


class _Pause(KeyboardInterrupt):
    """Raised between two segments of a batch to save its rounds."""


def choose_batches(queue: deque[TrialJob], *, everything: bool) -> tuple[list[TrialBatch], str]:
    """Remove the jobs for the batched engine from the queue; returns their batches, and the reason in words.

    everything: take all jobs, or only those that it is likely to play faster.
    """
    worlds: dict[str, World] = {}
    groups: dict[str, list[tuple[Setup, list[TrialJob]]]] = {}
    for _, members in itertools.groupby(list(queue), lambda job: job.trial.configuration):
        jobs = list(members)
        try:
            setup = jobs[0].trial.prepared(worlds)
        except ResetFreeError:  # reported by the engine that plays it
            continue
        groups.setdefault(_kind(setup, jobs), []).append((setup, jobs))
    chosen = []
    for group in groups.values():
        first, rows = group[0][0], sum(len(jobs) for _, jobs in group)
        faster = first.world.mdp is not None and faster_engine(rows, first.primal, first.dual) == "batched"
        chosen += [group] if everything or faster else []
    taken = {job.trial.id for group in chosen for _, jobs in group for job in jobs}
    left = [job for job in queue if job.trial.id not in taken]
    n = len(queue)
    queue.clear()
    queue.extend(left)
    batches = [batch for group in chosen for batch in _cut(group)]
    if everything:
        return batches, "requested"
    if batches:
        return batches, f"there is an accelerator, and a batched form of the players of {n - len(left)} of {n} trials"
    return batches, "no accelerator, no batched form of these players, or too few trials of one kind"


class InBatches:
    """The runner of the chosen batches. Trials that it refuses go to other engines, or fail if `everything`."""

    def __init__(self, batches: Sequence[TrialBatch], *, everything: bool) -> None:
        self._batches, self._everything = batches, everything

    def play(self, jobs: deque[TrialJob]) -> Outcomes[TrialJob]:
        """Outcomes, batch by batch."""
        waiting = deque(self._batches)
        while waiting:
            batch = waiting.popleft()
            try:
                columns, seconds = _play(batch)
            except ResetFreeError as error:
                if lacks_room(error):
                    yield batch.jobs[0], Outcome("lost", str(error))
                    return
                if len(batch.setups) > 1:  # their settings differ in more than numbers: split them
                    n = len(batch.seeds)
                    waiting.extendleft(
                        TrialBatch(batch.jobs[i * n : i * n + n], [setup], batch.seeds)
                        for i, setup in enumerate(batch.setups)
                    )
                elif self._everything:
                    yield from ((job, job.failed(error)) for job in batch.jobs)
                else:
                    jobs.extend(batch.jobs)
                continue
            yield from _write(batch, columns, seconds)
            shutil.rmtree(batch.place, ignore_errors=True)
        for folder in {batch.place.parent for batch in self._batches}:
            shutil.rmtree(folder, ignore_errors=True)  # left by a killed driver with other batches

    def close(self) -> None:
        """Nothing to close."""


def write_row(row: RunRow) -> Outcome:
    """Write one row of a batch as the run file of its trial."""
    job, folder, k = row.job, SweepFolder(row.job.folder), len(row.columns["k"])
    try:
        lists = [row.columns[name].tolist() for name in COLUMNS]
        with Ledger.create(folder.trial_file(job.id), row.spec, overwrite=True) as ledger:
            for numbers in zip(*lists, strict=True):
                ledger.append(numbers)
            ledger.commit(Checkpoint(k, row.seconds, {}, int(row.columns["next_start"][-1]), {}))
        if job.events is not None:
            track_columns(job.events, row.columns, row.best)
    except Exception as error:
        return job.failed(error)
    folder.forget_error(job.id)
    return Outcome("done")


def _kind(setup: Setup, jobs: Sequence[TrialJob]) -> str:
    """A key that is equal for configurations that can be played in one batch."""
    spec, numbers = setup.spec, (float,)
    fixed = {
        role: [spec[role]["name"], {k: v for k, v in spec[role]["settings"].items() if not isinstance(v, numbers)}]
        for role in ("primal", "dual")
    }
    seeds = [job.trial.seed for job in jobs]
    return json.dumps([spec["fingerprint"], spec["feedback"], spec["episodes"], fixed, seeds], sort_keys=True)


def _cut(group: Sequence[tuple[Setup, list[TrialJob]]]) -> Iterator[TrialBatch]:
    """Batches that fit into memory: some settings, some seeds."""
    episodes, n_seeds = group[0][0].spec["episodes"], len(group[0][1])
    rows = max(MOST_ROUNDS // episodes, 1)
    seeds, settings = min(n_seeds, rows), max(rows // n_seeds, 1)
    for at in range(0, len(group), settings):
        part = group[at : at + settings]
        for first in range(0, n_seeds, seeds):
            chosen = [jobs[first : first + seeds] for _, jobs in part]
            own = [job.trial.seed for job in chosen[0]]
            yield TrialBatch([job for jobs in chosen for job in jobs], [setup for setup, _ in part], own)


def _play(batch: TrialBatch) -> tuple[Arrays, float]:
    """All rounds of a batch, [rows, K] per column, and the seconds they took; resumes from its saved rounds."""
    first, place = batch.setups[0], batch.place
    mdp, spec = first.world.mdp, first.spec
    if mdp is None:
        raise InvalidInput(f"The batched engine plays problems whose model is known. Got '{spec['problem']}' instead.")
    pieces, state = _pieces(place)
    while state is None or int(state["k"]) < spec["episodes"]:
        due = time.monotonic() + SAVE_EVERY

        def pause(segment: Any, due: float = due) -> None:
            if time.monotonic() >= due and segment.played < segment.episodes:
                raise _Pause

        interrupted, compiled = False, _compiled()
        try:
            played = compiled.play_batch(
                mdp,
                [setup.primal for setup in batch.setups],
                [setup.dual for setup in batch.setups],
                episodes=spec["episodes"],
                seeds=batch.seeds,
                feedback=spec["feedback"],
                evaluate=True,
                progress=pause,
                resume=state,
            )
        except compiled.BatchStopped as stopped:
            played, interrupted = stopped.batch, not isinstance(stopped.__cause__, _Pause)
        except InvalidInput:
            if state is None:
                raise
            shutil.rmtree(place, ignore_errors=True)  # rounds of another version of the engine
            pieces, state = [], None
            continue
        state = played.state
        pieces.append((played.columns, played.seconds))
        if state["k"] < spec["episodes"]:
            _keep_piece(place, played.columns, state, played.seconds)
        if interrupted:
            raise KeyboardInterrupt
    whole = {name: np.concatenate([piece[name] for piece, _ in pieces], axis=1) for name in pieces[0][0]}
    return whole, sum(seconds for _, seconds in pieces)


def _keep_piece(place: Path, columns: Mapping[str, Any], state: Mapping[str, Any], seconds: float) -> None:
    arrays = {f"column.{name}": column for name, column in columns.items()}
    with SweepFolder(place).writing():
        place.mkdir(parents=True, exist_ok=True)
        with drafted(place / f"{int(state['k']):012d}.npz") as draft, draft.open("wb") as file:
            np.savez(file, seconds=np.array(seconds), **arrays, **{f"state.{name}": a for name, a in state.items()})
            file.flush()
            os.fsync(file.fileno())


def _pieces(place: Path) -> tuple[list[tuple[Arrays, float]], Arrays | None]:
    """The saved rounds of a batch, in order, each with its seconds; and the state after them."""
    found: list[tuple[Arrays, float]] = []
    state: Arrays | None = None
    for file in sorted(place.glob("*.npz")):
        with np.load(file, allow_pickle=False) as kept:
            names = [name for name in kept.files if name.startswith("column.")]
            found.append(({name.removeprefix("column."): kept[name] for name in names}, float(kept["seconds"])))
            state = {name.removeprefix("state."): kept[name] for name in kept.files if name.startswith("state.")}
    return found, state


def _write(batch: TrialBatch, columns: Arrays, seconds: float) -> Outcomes[TrialJob]:
    """Write the run files of a batch, with several processes if it is large."""
    rows = deque(_rows(batch, columns, seconds))
    processes = min(os.cpu_count() or 1, len(rows))
    if processes == 1 or columns["s1"].size < FEW_ROUNDS:
        for row in rows:
            yield row.job, write_row(row)
        return
    with Workers(processes, write_row) as workers:
        for row, outcome in workers.do(rows):
            yield row.job, write_row(row) if outcome is None else outcome


def _rows(batch: TrialBatch, columns: Arrays, seconds: float) -> Iterator[RunRow]:
    n_rows = len(columns["s1"])
    best = best_values(batch.setups[0].world.mdp) if batch.jobs[0].tensorboard is not None else None
    for i, job in enumerate(batch.jobs):
        spec = {**batch.setups[i // len(batch.seeds)].spec, "seed": job.trial.seed, "engine": "batched"}
        yield RunRow(job, spec, columns_of_row(columns, i), seconds / n_rows, best)
