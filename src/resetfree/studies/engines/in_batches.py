"""The engine of an accelerator: trials that share a problem and two players are played side by side (extra jax).

A batch keeps its rounds in `batches/` now and then, so that a kill costs a minute and not the batch; when it is whole,
each row becomes the run file of its trial, as if it had been played alone. Such a file says `engine: batched` in its
spec, and its last checkpoint holds no state of the players: what reads rounds works on it, a policy cannot be recalled.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.drafts import drafted, lacks_room
from resetfree.core.errors import InvalidInput, ResetFreeError
from resetfree.problems.world import World
from resetfree.runs.columns import COLUMNS, columns_of_row
from resetfree.runs.ledger import Ledger
from resetfree.runs.runfile import Checkpoint
from resetfree.runs.setup import Setup
from resetfree.runs.tracking import track_columns
from resetfree.runs.tracking.tracker import best_values
from resetfree.studies.engines.batched import faster_engine
from resetfree.studies.engines.runner import Outcome, Played
from resetfree.studies.folder import SweepFolder
from resetfree.studies.trial import Errand
from resetfree.studies.workers import Workers

MOST_ROUNDS = 2**24  # of all rows of a batch: about two gigabytes of columns
SAVE_EVERY = 60.0  # seconds
FEW_ROUNDS = 2**17  # that this process writes while another one would be starting
EXACT = ("v_r", "v_c")

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class TrialBatch:
    """Rows that are played together: each setting with each seed, seeds fastest."""

    errands: list[Errand]
    setups: list[Setup]
    seeds: list[int]

    @property
    def place(self) -> Path:
        """Where its rounds are kept until it is whole."""
        ids = "".join(errand.trial.id for errand in self.errands)
        return self.errands[0].folder / "batches" / hashlib.sha256(ids.encode()).hexdigest()[:16]


class RunRow(NamedTuple):
    """What it takes to write one run file."""

    errand: Errand
    spec: dict[str, Any]
    columns: Arrays  # [K]
    seconds: float
    best: NDArray[np.float64] | None


class _Pause(KeyboardInterrupt):
    """Raised between two segments of a batch to keep what was played."""


def choose_batches(queue: deque[Errand], *, everything: bool) -> tuple[list[TrialBatch], str]:
    """Take out of the queue what the batched engine shall play, and say why.

    everything: whether it is asked to play all, or only what it is likely to play faster.
    """
    worlds: dict[str, World] = {}
    groups: dict[str, list[tuple[Setup, list[Errand]]]] = {}
    for _, members in itertools.groupby(list(queue), lambda errand: errand.trial.configuration):
        errands = list(members)
        try:
            setup = errands[0].trial.prepared(worlds)
        except ResetFreeError:  # whoever plays it will say why
            continue
        groups.setdefault(_kind(setup, errands), []).append((setup, errands))
    chosen = [group for group in groups.values() if everything or _faster(group)]
    taken = {errand.trial.id for group in chosen for _, errands in group for errand in errands}
    left = [errand for errand in queue if errand.trial.id not in taken]
    n = len(queue)
    queue.clear()
    queue.extend(left)
    batches = [batch for group in chosen for batch in _cut(group)]
    if everything:
        return batches, "asked for"
    if batches:
        return batches, f"an accelerator is here, and it knows the players of {n - len(left)} of {n} trials"
    return batches, "no accelerator that knows these players and has enough trials of one kind"


class InBatches:
    """The runner of the batches that were chosen. What it refuses is left to others, or fails if it shall play all."""

    def __init__(self, batches: Sequence[TrialBatch], *, everything: bool) -> None:
        self._batches, self._everything = batches, everything

    def play(self, jobs: deque[Errand]) -> Played[Errand]:
        """Outcomes, batch by batch."""
        return play_batches(self._batches, None if self._everything else jobs)

    def close(self) -> None:
        """Nothing is kept."""


def play_batches(batches: Sequence[TrialBatch], queue: deque[Errand] | None) -> Played[Errand]:
    """Outcomes, batch by batch; what the engine refuses goes into the queue, or fails if there is none."""
    waiting = deque(batches)
    while waiting:
        batch = waiting.popleft()
        try:
            columns, seconds = _play(batch)
        except ResetFreeError as error:
            if lacks_room(error):
                yield batch.errands[0], Outcome("lost", str(error))
                return
            if len(batch.setups) > 1:  # they differ in more than numbers: one by one
                n = len(batch.seeds)
                waiting.extendleft(
                    TrialBatch(batch.errands[i * n : i * n + n], [setup], batch.seeds)
                    for i, setup in enumerate(batch.setups)
                )
                continue
            if queue is not None:
                queue.extend(batch.errands)
                continue
            yield from ((errand, errand.failed(error)) for errand in batch.errands)
            continue
        yield from _write(batch, columns, seconds)
        shutil.rmtree(batch.place, ignore_errors=True)
    for folder in {batch.place.parent for batch in batches}:
        shutil.rmtree(folder, ignore_errors=True)  # what a killed driver left of batches that were cut otherwise


def write_row(row: RunRow) -> Outcome:
    """One row of a batch as the run file of its trial."""
    errand, folder, k = row.errand, SweepFolder(row.errand.folder), len(row.columns["k"])
    try:
        lists = [row.columns[name].tolist() for name in COLUMNS]
        with Ledger.create(folder.trial_file(errand.id), row.spec, overwrite=True) as ledger:
            for numbers in zip(*lists, strict=True):
                ledger.append(numbers)
            ledger.commit(Checkpoint(k, row.seconds, {}, int(row.columns["next_start"][-1]), {}))
        if errand.events is not None:
            track_columns(errand.events, row.columns, row.best)
    except Exception as error:
        return errand.failed(error)
    folder.forget_error(errand.id)
    return Outcome("done")


def _kind(setup: Setup, errands: Sequence[Errand]) -> str:
    """The same for configurations that may be played side by side."""
    spec, numbers = setup.spec, (float,)
    fixed = {
        role: [spec[role]["name"], {k: v for k, v in spec[role]["settings"].items() if not isinstance(v, numbers)}]
        for role in ("primal", "dual")
    }
    seeds = [errand.trial.seed for errand in errands]
    return json.dumps([spec["fingerprint"], spec["feedback"], spec["episodes"], fixed, seeds], sort_keys=True)


def _faster(group: Sequence[tuple[Setup, list[Errand]]]) -> bool:
    rows = sum(len(errands) for _, errands in group)
    return group[0][0].world.mdp is not None and faster_engine(rows, group[0][0].primal, group[0][0].dual) == "batched"


def _cut(group: Sequence[tuple[Setup, list[Errand]]]) -> Iterator[TrialBatch]:
    """Batches that fit into memory: some settings, some seeds."""
    episodes, n_seeds = group[0][0].spec["episodes"], len(group[0][1])
    rows = max(MOST_ROUNDS // episodes, 1)
    seeds, settings = min(n_seeds, rows), max(rows // n_seeds, 1)
    for at in range(0, len(group), settings):
        part = group[at : at + settings]
        for first in range(0, n_seeds, seeds):
            chosen = [errands[first : first + seeds] for _, errands in part]
            own = [errand.trial.seed for errand in chosen[0]]
            yield TrialBatch([errand for errands in chosen for errand in errands], [setup for setup, _ in part], own)


def _play(batch: TrialBatch) -> tuple[Arrays, float]:
    """All rounds of a batch, [rows, K] per column, and the seconds they took, from where it stood before."""
    from resetfree.studies.engines.batched import BatchStopped, play_batch

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

        interrupted = False
        try:
            played = play_batch(
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
        except BatchStopped as stopped:
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
    """What was kept of a batch, in order, and where it stood then."""
    found: list[tuple[Arrays, float]] = []
    state: Arrays | None = None
    for file in sorted(place.glob("*.npz")):
        with np.load(file, allow_pickle=False) as kept:
            names = [name for name in kept.files if name.startswith("column.")]
            found.append(({name.removeprefix("column."): kept[name] for name in names}, float(kept["seconds"])))
            state = {name.removeprefix("state."): kept[name] for name in kept.files if name.startswith("state.")}
    return found, state


def _write(batch: TrialBatch, columns: Arrays, seconds: float) -> Played[Errand]:
    """The run files of a batch, by several processes where there is much to write."""
    rows, n_seeds = deque(_rows(batch, columns, seconds)), len(batch.seeds)
    processes = min(os.cpu_count() or 1, len(rows))
    assert len(rows) == n_seeds * len(batch.setups)
    if processes == 1 or columns["s1"].size < FEW_ROUNDS:
        for row in rows:
            yield row.errand, write_row(row)
        return
    with Workers(processes, write_row) as workers:
        for row, outcome in workers.do(rows):
            yield row.errand, write_row(row) if outcome is None else outcome


def _rows(batch: TrialBatch, columns: Arrays, seconds: float) -> Iterator[RunRow]:
    n_rows = len(columns["s1"])
    best = best_values(batch.setups[0].world.mdp) if batch.errands[0].tensorboard is not None else None
    for i, errand in enumerate(batch.errands):
        spec = {**batch.setups[i // len(batch.seeds)].spec, "seed": errand.trial.seed, "engine": "batched"}
        yield RunRow(errand, spec, columns_of_row(columns, i), seconds / n_rows, best)
