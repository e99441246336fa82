"""Scalars as TensorBoard event files (extra tensorboard), written with tensorboardX."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, RunError


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
