"""Trackers as callbacks of `learn`: the same scalars, at the same episodes, in one dashboard or another."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from resetfree.core import arguments
from resetfree.core.arguments import words
from resetfree.core.errors import InvalidInput, RunError, one_line
from resetfree.runs.session import Session
from resetfree.runs.tracking.tracker import Sink, TensorBoard, Tracker, best_values

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
