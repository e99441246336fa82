"""Scalars for MLflow (extra mlflow), in a SQLite file of its own or on a tracking server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, RunError, one_line

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
