"""One writer at a time: a lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

from resetfree.core.errors import RunError


class WriterLock:
    """An exclusive lock on FILE, kept on the sidecar FILE.lock; removed when it is released.

    The lock is the kernel's (flock), not the sidecar's existence: a sidecar left by a killed process locks nothing.
    """

    def __init__(self, path: Path) -> None:
        self._shown = path
        self._sidecar = Path(f"{os.path.realpath(path)}.lock")  # two names of one file share one lock
        self._handle = -1

    def acquire(self) -> Self:
        """Take the lock, or say who cannot have it."""
        try:
            import fcntl
        except ImportError as error:
            raise RunError("Writing run files needs file locks, which this system does not have.") from error
        while True:
            try:
                handle = os.open(self._sidecar, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise RunError(
                    f"The run file '{self._shown}' cannot be written: {error.strerror} in its folder."
                ) from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(handle)
                raise RunError(
                    f"The run file '{self._shown}' is being written by another process. Wait until it has finished, "
                    "or write to another file."
                ) from error
            except OSError as error:
                os.close(handle)
                raise RunError(
                    f"The run file '{self._shown}' cannot be locked: {error.strerror}. Put it on a local disk."
                ) from error
            if self._is_current(handle):
                self._handle = handle
                return self
            os.close(handle)  # its last holder removed the sidecar between our open and our lock: try the new one

    def release(self) -> None:
        """Remove the sidecar while it is still ours, then let go; releasing twice does nothing."""
        if self._handle >= 0:
            self._sidecar.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1

    def _is_current(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._sidecar))
        except FileNotFoundError:
            return False
