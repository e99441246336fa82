"""Trackers as callbacks of `learn`: the same scalars, at the same episodes, in one dashboard or another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from resetfree.core import arguments
from resetfree.core.arguments import words
from resetfree.runs.session import Session
from resetfree.runs.tracking.mlflow_sink import MlflowSink
from resetfree.runs.tracking.tensorboard import TensorBoard
from resetfree.runs.tracking.tracker import Sink, Tracker, best_values
from resetfree.runs.tracking.wandb_sink import WandbSink


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
