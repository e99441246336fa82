"""From run files to two columnar files: every finished trial at log-spaced episodes, and statistics over seeds.

Rows are written as they are read, so memory does not grow with the number of trials. V* of each problem is computed
once by the oracle, and saved in the folder `values/`.

Legend: K episodes, m marked episodes of a trial.
"""

import hashlib
import itertools
import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Floats, InvalidInput, ResetFreeError, RunError
from resetfree.core.files import drafted
from resetfree.core.state import unpack
from resetfree.problems import find_world
from resetfree.runs.display import meant, predicted_resets
from resetfree.runs.file.recorded import own_returns
from resetfree.runs.file.runfile import connect, damaged, read_spec, sentences, start_type
from resetfree.runs.tracking import best_values, cumulative, marked
from resetfree.studies.engines import Workers
from resetfree.studies.plan import SweepPlan
from resetfree.studies.statistics import STATISTICS, summarise
from resetfree.studies.trial import NamedTrial, SweepFolder

# All of them cumulative.
MEASURES = ("regret", "resets", "realised_resets", "predicted_resets", "reward", "steps", "original_return")
READ = ("k", "s1", "reward", "reset", "steps", "v_r", "v_c", "v_c_hat", "original_return")
WORDS = ("trial", "configuration", "problem", "problem_options", "primal", "dual", "settings", "feedback", "engine")
WHOLE = ("episodes", "seed", "k", "n")
RESULTS = [*WORDS, "episodes", "seed", "seconds", "k", *MEASURES]  # columns of results.parquet
SUMMARY = [*WORDS[1:], "episodes", "k", "measure", "n", *STATISTICS]  # columns of summary.parquet
AT_ONCE = 100  # trials of one job
BATCH = 10_000  # rounds read at once
FEW = 400  # fewer trials are read faster by this process than by new ones


class TrialCurve(NamedTuple):
    """A finished trial at its marked episodes."""

    words: dict[str, str]
    episodes: int
    seed: int
    seconds: float
    values: Floats  # [m, measures]


class Gathered(NamedTuple):
    """How much was written."""

    trials: int
    rows: int
    configurations: int


def gather(plan: SweepPlan, folder: SweepFolder, *, processes: int | None = None, run_code: bool = False) -> Gathered:
    """Write results.parquet and summary.parquet from the finished trials.

    run_code: whether problems that are a user's code (module:factory, gym:) may be made to compute V*. Without it their
    regret is missing, unless V* is in the folder already.
    """
    pa, pq = arrow()
    _best.cache_clear()
    rows = trials = configurations = 0
    with folder.writing():
        keep_values(plan, folder, run_code=run_code)
        with (
            drafted(folder.results) as first,
            drafted(folder.summary) as second,
            pq.ParquetWriter(first, _schema(pa, RESULTS), compression="zstd") as results,
            pq.ParquetWriter(second, _schema(pa, SUMMARY), compression="zstd") as summary,
        ):
            found = _curves(plan, folder, processes or os.cpu_count() or 1)
            for _, group in itertools.groupby(found, lambda curve: curve.words["configuration"]):
                curves = list(group)
                for at in range(0, len(curves), AT_ONCE):
                    table = _table(pa, curves[at : at + AT_ONCE])
                    results.write_table(table)
                    rows += len(table)
                summary.write_table(_summary(pa, curves))
                trials, configurations = trials + len(curves), configurations + 1
    return Gathered(trials, rows, configurations)


def keep_values(plan: SweepPlan, folder: SweepFolder, *, run_code: bool) -> None:
    """Compute V* of each problem with an oracle, once for the whole sweep, and save it in the folder."""
    for place, one in {trial.place: trial for trial in plan.configurations}.items():
        file = _values_file(folder.path, place)
        if file.exists() or (":" in one.problem and not run_code):
            continue
        try:
            world = find_world(one.problem, one.options)
        except ResetFreeError:  # reported by its trials
            continue
        with world:
            best = best_values(world.mdp)
        file.parent.mkdir(parents=True, exist_ok=True)
        with drafted(file) as draft, draft.open("wb") as out:
            np.savez(out, value=np.empty(0) if best is None else best, fingerprint=np.array(world.fingerprint))


def read_curve(trial: NamedTrial, folder: SweepFolder) -> TrialCurve | None:
    """A trial at its marked episodes, None if it is not finished; sums are added term by term as in a run."""
    if not folder.is_finished(trial.id, trial.episodes):
        return None
    file = folder.trial_file(trial.id)
    with closing(connect(file, "ro")) as connection, sentences(file):
        spec = read_spec(connection, file)
        (seconds,) = connection.execute("SELECT max(seconds) FROM checkpoints").fetchone()
        finite = start_type(connection) == "INTEGER"
        columns = [name if name != "s1" or finite else "NULL" for name in READ]
        cursor = connection.execute(f"SELECT {', '.join(columns)} FROM rounds ORDER BY k")
        parts = [np.array(rows, dtype=np.float64) for rows in iter(lambda: cursor.fetchmany(BATCH), [])]
    table = dict(zip(READ, np.concatenate(parts).T, strict=True))
    table["original_return"] = own_returns(table)
    if len(table["k"]) != trial.episodes or (spec["seed"], spec["problem"]) != (trial.seed, trial.problem):
        raise damaged(file, ValueError("it is of another trial"))
    best = _best(folder.path, trial.place, spec["fingerprint"]) if finite else None
    sums = [
        *cumulative(table, best).values(),
        predicted_resets(table, meant(spec)),
        *(np.cumsum(table[name]) for name in ("reward", "steps", "original_return")),
    ]
    at = marked(trial.episodes) - 1
    words = {
        "trial": trial.id,
        "configuration": trial.configuration,
        "problem": trial.problem,
        "problem_options": json.dumps(trial.options, sort_keys=True),
        "primal": spec["primal"]["name"],
        "dual": spec["dual"]["name"],
        "settings": json.dumps(trial.players.settings, sort_keys=True),
        "feedback": spec["feedback"],
        "engine": str(spec.get("engine", "local")),
    }
    return TrialCurve(
        words, trial.episodes, trial.seed, float(seconds), np.stack([column[at] for column in sums], axis=1)
    )


def _curves(plan: SweepPlan, folder: SweepFolder, processes: int) -> Iterator[TrialCurve]:
    """Finished trials in the order of the plan, read by several processes if there are many."""
    pieces = [plan.trials[at : at + AT_ONCE] for at in range(0, len(plan.trials), AT_ONCE)]
    read = partial(_read_piece, folder=folder.path)
    if processes == 1 or len(plan.trials) < FEW:
        for piece in pieces:
            yield from read((0, piece))[1]
        return
    done: dict[int, list[TrialCurve]] = {}
    turn = 0
    with Workers(processes, read) as workers:
        for _, result in workers.do(deque(enumerate(pieces))):
            if result is None:
                raise RunError("A process that read run files was killed, perhaps for want of memory. Try again.")
            done[result[0]] = result[1]
            while turn in done:
                yield from done.pop(turn)
                turn += 1


def _read_piece(piece: tuple[int, Sequence[NamedTrial]], folder: Path) -> tuple[int, list[TrialCurve]]:
    found = (read_curve(trial, SweepFolder(folder)) for trial in piece[1])
    return piece[0], [curve for curve in found if curve is not None]


def _table(pa: Any, curves: Sequence[TrialCurve]) -> Any:
    """Trials as rows, one per marked episode."""
    lengths = [len(curve.values) for curve in curves]
    index = pa.array(np.repeat(np.arange(len(curves)), lengths))
    columns = {name: pa.array([curve.words[name] for curve in curves]).take(index) for name in WORDS}
    for name in ("episodes", "seed", "seconds"):
        columns[name] = pa.array([getattr(curve, name) for curve in curves]).take(index)
    columns["k"] = np.concatenate([marked(curve.episodes) for curve in curves])
    values = np.concatenate([curve.values for curve in curves])
    columns |= {name: pa.array(values[:, i], from_pandas=True) for i, name in enumerate(MEASURES)}
    return pa.table(columns).select(RESULTS).cast(_schema(pa, RESULTS))


def _summary(pa: Any, curves: Sequence[TrialCurve]) -> Any:
    """One configuration: a row per marked episode and measure."""
    first, k = curves[0], marked(curves[0].episodes)
    n, found = summarise(np.stack([curve.values for curve in curves]).reshape(len(curves), -1))
    there = np.flatnonzero(n)
    columns: dict[str, Any] = {name: [first.words[name]] * len(there) for name in WORDS[1:]}
    columns["episodes"] = [first.episodes] * len(there)
    columns["k"] = np.repeat(k, len(MEASURES))[there]
    columns["measure"] = np.tile(np.array(MEASURES), len(k))[there].tolist()
    columns["n"] = n[there]
    columns |= {name: found[name][there] for name in STATISTICS}
    return pa.table(columns).select(SUMMARY).cast(_schema(pa, SUMMARY))


def _schema(pa: Any, names: Sequence[str]) -> Any:
    """The schema of a file with these columns; those that are neither words nor whole numbers are floats."""
    kinds = {**dict.fromkeys((*WORDS, "measure"), pa.string()), **dict.fromkeys(WHOLE, pa.int64())}
    return pa.schema([(name, kinds.get(name, pa.float64())) for name in names])


def _values_file(folder: Path, place: str) -> Path:
    return folder / "values" / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.npz"


@lru_cache(maxsize=64)
def _best(folder: Path, place: str, fingerprint: str) -> Floats | None:
    """[S] V* as saved in the folder; None if there is no oracle, or the problem has changed since."""
    try:
        kept = unpack(_values_file(folder, place).read_bytes())
        value: Floats = kept["value"]
        return value if value.ndim == 1 and len(value) and str(kept["fingerprint"]) == fingerprint else None
    except (OSError, ValueError, KeyError):
        return None


def arrow() -> tuple[Any, Any]:
    """PyArrow and its Parquet module, imported on first use; raises InvalidInput if they are not installed."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")  # which have no types
    except ImportError as error:
        raise InvalidInput("Gathering results needs PyArrow: install resetfree with the extra 'sweep'.") from error
