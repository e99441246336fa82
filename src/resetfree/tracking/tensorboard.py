"""Scalars as TensorBoard event files (extra tensorboard), written with tensorboardX."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from resetfree.errors import InvalidInput, RunError


class TensorBoard:
    """One folder of event files; step = episode.

    after: what an earlier session wrote after this episode is not to be shown: it is played again.
    """

    def __init__(self, folder: Path, after: int | None = None) -> None:
        try:
            library: Any = import_module("tensorboardX")  # which has no types
        except ImportError as error:
            raise InvalidInput(
                "The TensorBoard files need tensorboardX: install resetfree with the extra 'tensorboard'."
            ) from error
        try:
            folder.mkdir(parents=True, exist_ok=True)
            purge = None if after is None else after + 1
            own = f".{time.time_ns():020d}"  # the library's own names differ by the second, and sessions may be shorter
            self._writer: Any = library.SummaryWriter(str(folder), purge_step=purge, filename_suffix=own)
        except OSError as error:
            raise RunError(f"The TensorBoard folder '{folder}' cannot be written: {error.strerror}.") from error

    def write(self, k: int, values: Mapping[str, float]) -> None:
        """The numbers of one episode."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, k)

    def close(self) -> None:
        """Write out what is buffered."""
        self._writer.close()
