"""Experiment tracking: scalars of a run for dashboards, under the names of docs/columns.md, at log-spaced episodes.

The run file stays the record; a tracker only copies numbers: cumulative Regret and Resets and the columns of the round.
`ToTensorBoard`, `ToWandb` and `ToMlflow` are callbacks of `learn`. The library of a dashboard is imported when it is
used; TensorBoard's event files (extra tensorboard) are written with tensorboardX.

Legend: K episodes, V*(s) the best value of a policy that is never reset from s, nan if there is none.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, RunError, arguments, one_line, words
from resetfree.core.system import Closes
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.problems import PROBLEMS, FiniteMDP, World
from resetfree.runs.file.ledger import read
from resetfree.runs.file.recorded import COLUMNS, columns_of
from resetfree.runs.learn import Progress
from resetfree.runs.session import Session
from resetfree.theory.oracle.dynamic_programming import solve


def marked(episodes: int, per_decade: int = 10) -> NDArray[np.int64]:
    """The rounded powers 10^(i / per_decade) up to `episodes`, each once, and `episodes` itself.

    >>> marked(100).tolist()
    [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100]
    >>> marked(7, per_decade=2).tolist()
    [1, 3, 7]
    """
    n = int(np.ceil(np.log10(max(episodes, 1)) * per_decade)) + 1
    found = np.unique(np.rint(10.0 ** (np.arange(n + 1) / per_decade)).astype(np.int64))
    return np.append(found[found < episodes], episodes)


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

            for name in ("stopping", "begins"):
                setattr(both, name, getattr(progress, name, None))
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


class TensorBoard:
    """One folder of event files; step = episode.

    after: hide what an earlier session wrote after this episode: it is played again.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        self._folder = folder
        try:
            library: Any = import_module("tensorboardX.event_file_writer")  # which has no types
            self._proto: Any = import_module("tensorboardX.proto")
            self._scalar: Any = import_module("tensorboardX.summary").scalar
        except ImportError as error:
            raise InvalidInput(
                "The TensorBoard files need tensorboardX: install resetfree with the extra 'tensorboard'."
            ) from error
        with self._sentence():
            self._made = [one for one in (folder, *folder.parents) if not one.exists()]
            folder.mkdir(parents=True, exist_ok=True)
            own = f".{time.time_ns():020d}"  # the library's own names differ by the second, and sessions may be shorter
            # This writer writes at once; the usual one has a thread that a full disk ends silently.
            self._writer: Any = library.EventsWriter(str(folder / "events"), own)
            (self._file,) = folder.glob(f"*{own}")
            if after is not None:
                begun = self._proto.event_pb2.SessionLog(status=self._proto.event_pb2.SessionLog.START)
                self._add(after + 1, file_version="brain.Event:2")
                self._add(after + 1, session_log=begun)

    def write(self, k: int, values: Mapping[str, float]) -> None:
        """Write the scalars of episode k."""
        with self._sentence():
            for name, value in values.items():
                self._add(k, summary=self._scalar(name, value))

    def close(self) -> None:
        """Write out what is buffered."""
        with self._sentence():
            self._writer.close()

    def discard(self) -> None:
        """Remove the file, and the folders that were made for it."""
        with suppress(OSError):  # what others wrote there in the meantime stays
            self._file.unlink()
            for one in self._made:
                one.rmdir()

    def _add(self, k: int, **what: Any) -> None:
        self._writer.write_event(self._proto.event_pb2.Event(step=k, wall_time=time.time(), **what))

    @contextmanager
    def _sentence(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunError(f"The TensorBoard folder '{self._folder}' cannot be written: {error.strerror}.") from error


FILE = "mlflow.db"


class MlflowSink:
    """One run of the client; step = episode. The client's own defaults of the process are left alone."""

    def __init__(self, where: str | Path, experiment: str, parameters: Mapping[str, Any]) -> None:
        try:
            mlflow: Any = import_module("mlflow")
            self._entities: Any = import_module("mlflow.entities")
        except ImportError as error:
            raise InvalidInput("MLflow needs its client: install resetfree with the extra 'mlflow'.") from error
        try:
            address, files = str(where), None
            if isinstance(where, Path):
                where.mkdir(parents=True, exist_ok=True)
                address, files = f"sqlite:///{(where / FILE).absolute()}", (where / "artifacts").absolute().as_uri()
            self._client: Any = mlflow.MlflowClient(tracking_uri=address)
            known = self._client.get_experiment_by_name(experiment)
            place = self._client.create_experiment(experiment, files) if known is None else known.experiment_id
            name = f"{parameters['problem']} seed {parameters['seed']}"
            self._id: str = self._client.create_run(place, run_name=name).info.run_id
            for key, value in parameters.items():
                self._client.log_param(self._id, key, value)
        except Exception as error:  # of the client, its database and its server
            raise RunError(f"MLflow cannot be used at '{where}': {one_line(error)}.") from error

    def write(self, k: int, values: Mapping[str, float]) -> None:
        """Log the scalars of episode k."""
        now = int(time.time() * 1000)
        metrics = [self._entities.Metric(name, value, now, k) for name, value in values.items()]
        self._client.log_batch(self._id, metrics)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._id)


class WandbSink:
    """One run of the client; step = episode."""

    def __init__(self, folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        try:
            wandb: Any = import_module("wandb")
        except ImportError as error:
            raise InvalidInput(
                "Weights & Biases needs its client: install resetfree with the extra 'wandb'."
            ) from error
        given = {"project": "resetfree", "mode": "offline", "name": f"{config['problem']} seed {config['seed']}"}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            quiet = wandb.Settings(silent=True, console="off")
            own = {"dir": str(folder), "config": dict(config), "settings": quiet, **given, **options}
            self._run: Any = wandb.init(**own)
        except Exception as error:  # of the client, which has many
            raise RunError(f"Weights & Biases cannot be used in '{folder}': {one_line(error)}.") from error

    def write(self, k: int, values: Mapping[str, float]) -> None:
        """Log the scalars of episode k."""
        self._run.log(dict(values), step=k)

    def close(self) -> None:
        """Write out what is buffered."""
        self._run.finish()


class Recording(ABC):
    """A callback that copies scalars of the run to a sink, which it opens when the run begins."""

    _tracker: Tracker | None = None

    @abstractmethod
    def open(self, session: Session) -> Sink:
        """Open the sink for a run."""

    def begin(self, session: Session) -> None:
        """Open the sink, and sum up what earlier sessions played."""
        before = session.columns() if session.resumed else None
        best = best_values(session.world.mdp)
        self._tracker = Tracker(self.open(session), session.spec["episodes"], best, before)

    def __call__(self, session: Session) -> None:
        """Record the last round."""
        assert self._tracker is not None
        self._tracker(session.game, session.round)

    def end(self, session: Session) -> None:
        """Close the sink."""
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None


class ToTensorBoard(Recording):
    """Scalars as TensorBoard event files in a folder (extra tensorboard)."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = arguments.path(folder, "'folder' of ToTensorBoard")

    def open(self, session: Session) -> Sink:
        """A new event file; what an earlier session wrote after the resumed episode is hidden."""
        return TensorBoard(self.folder, session.resumed or None)


class ToWandb(Recording):
    """Scalars to Weights & Biases (extra wandb), offline by default: `wandb sync` uploads the folder later.

    folder: where its files go.  options: of `wandb.init`, as project=..., mode="online".
    """

    def __init__(self, folder: str | Path = ".", **options: Any) -> None:
        self.folder, self._options = arguments.path(folder, "'folder' of ToWandb"), options

    def open(self, session: Session) -> Sink:
        """A run of the client, with the request of this run as its configuration."""
        return WandbSink(self.folder, request(session), self._options)


class ToMlflow(Recording):
    """Scalars to MLflow (extra mlflow): to a SQLite file in a folder, which `mlflow ui` shows, or to a server.

    where: a folder, or the address of a tracking server.  experiment: its name there.
    """

    def __init__(self, where: str | Path = "mlflow", experiment: str = "resetfree") -> None:
        self.where: str | Path = where
        if not (isinstance(where, str) and "://" in where):
            self.where = arguments.path(where, "'where' of ToMlflow")
        self.experiment = words(experiment, "'experiment' of ToMlflow")

    def open(self, session: Session) -> Sink:
        """A run of the client, with the request of this run as its parameters."""
        return MlflowSink(self.where, self.experiment, request(session))


def request(session: Session) -> dict[str, Any]:
    """The request of a run, flat: what a dashboard compares runs by."""
    spec = session.spec
    named = {key: spec[key] for key in ("problem", "feedback", "episodes", "seed", "horizon")}
    return {**named, "primal": spec["primal"]["name"], "dual": spec["dual"]["name"], "resumed_after": session.resumed}
