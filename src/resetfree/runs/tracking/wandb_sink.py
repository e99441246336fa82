"""Scalars for Weights & Biases (extra wandb), offline unless the user says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, RunError, one_line


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
