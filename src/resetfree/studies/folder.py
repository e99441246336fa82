"""The folder of a sweep: what lies where, which trials are finished, and what was raised.

sweep.toml            what is played, as it was given
trials/ab/ab12….rfrun the run file of each trial, named by the hash of what it asks for
errors/ab12….txt      the traceback of a trial that failed
results.parquet, summary.parquet, report.md, curves.png
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resetfree.core.drafts import drafted, sweep_out
from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.lock import WriterLock, is_held
from resetfree.runs.runfile import connect, sentences

LARGEST = 2**20  # bytes of a sweep file
FORMAT = "# A sweep of resetfree, as it was given. The folder belongs to it.\n"


class SweepFolder:
    """Names and looks only: it holds no state of its own, so that any process may make one."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.plan = self.path / "sweep.toml"
        self.results, self.summary = self.path / "results.parquet", self.path / "summary.parquet"
        self.report, self.picture = self.path / "report.md", self.path / "curves.png"

    def trial_file(self, id: str) -> Path:
        """The run file of a trial; folders by prefix keep each of them short."""
        return self.path / "trials" / id[:2] / f"{id}.rfrun"

    def error_file(self, id: str) -> Path:
        """What a trial raised."""
        return self.path / "errors" / f"{id}.txt"

    def prepare(self, text: str, *, update: bool = False) -> None:
        """Make the folder that of the sweep in `text`, or go on with it.

        update: whether another sweep may take the folder over; the trials that both have are kept.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.plan.exists():
                if self._states(text):
                    return
                if not update:
                    raise RunError(
                        f"The folder '{self.path}' holds another sweep. Name another (--out), or let the new one have "
                        "it (--update): trials that both have are kept."
                    )
            elif any(not _is_ours(one.name) for one in self.path.iterdir()):
                raise RunError(f"The folder '{self.path}' is not that of a sweep, and not empty. Name another.")
            write_text(self.plan, FORMAT + text)
        except OSError as error:
            raise RunError(f"The folder '{self.path}' cannot be written: {error.strerror}.") from error

    def _states(self, text: str) -> bool:
        try:
            return read_text(self.plan) == FORMAT + text
        except UnicodeError:
            return False

    def text(self) -> str:
        """What is played, as it was given."""
        try:
            return read_text(self.plan).removeprefix(FORMAT)
        except (OSError, ValueError) as error:
            raise RunError(
                f"The folder '{self.path}' is not that of a sweep: it has no readable sweep.toml."
            ) from error

    @contextmanager
    def playing(self) -> Iterator[None]:
        """One driver at a time; a killed one lets go by itself."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(self.path / "sweep").acquire()
        except OSError as error:
            raise RunError(f"The folder '{self.path}' cannot be written: {error.strerror}.") from error
        except RunError as error:
            if isinstance(error.__cause__, BlockingIOError):
                raise RunError(f"The sweep in '{self.path}' is being played by another process.") from error
            raise
        try:
            for place in (self.path, self.path / "errors", self.path / "values"):
                sweep_out(place)
            yield
        finally:
            lock.release()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """What the disk refuses while results are written, as one sentence."""
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise RunError(
                f"The results in '{self.path}' cannot be written: {why}. The trials that are done stay; the same "
                "command goes on."
            ) from error

    def is_finished(self, id: str, episodes: int) -> bool:
        """Whether the run file of a trial is whole.

        A file whose log lies beside it is being written, or was when its writer was killed: it is left alone, for on
        another machine even looking at it would disturb. Going on with it tells whether it is finished.
        """
        file = self.trial_file(id)
        if not file.exists() or Path(f"{file}-wal").exists():
            return False
        try:
            connection = connect(file, "ro")
        except RunError:
            return False
        try:
            with sentences(file):
                (k,) = connection.execute("SELECT max(k) FROM checkpoints").fetchone()
        except RunError:
            return False
        finally:
            connection.close()
        return isinstance(k, int) and k >= episodes

    def is_held(self, id: str) -> bool:
        """Whether some process on this machine is playing a trial now."""
        return is_held(self.trial_file(id))

    @property
    def is_played(self) -> bool:
        """Whether a driver on this machine is at work on the sweep now."""
        return is_held(self.path / "sweep")

    def failed(self) -> dict[str, Path]:
        """The trials that have raised something."""
        folder = self.path / "errors"
        return {one.stem: one for one in sorted(folder.glob("*.txt"))} if folder.is_dir() else {}

    def keep_error(self, id: str, text: str) -> None:
        """Keep what a trial raised."""
        file = self.error_file(id)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)

    def forget_error(self, id: str) -> None:
        """A trial has been played to its end after all, or shall be tried again."""
        self.error_file(id).unlink(missing_ok=True)

    def remove_trial(self, id: str) -> None:
        """Throw the run file of a trial away."""
        lock = WriterLock(self.trial_file(id)).acquire()
        try:
            for ending in ("", "-wal", "-shm", "-journal"):
                Path(f"{self.trial_file(id)}{ending}").unlink(missing_ok=True)
        finally:
            lock.release()


def write_text(path: Path, text: str) -> None:
    """All of it or nothing."""
    with drafted(path) as draft:
        draft.write_text(text, encoding="utf-8")


def read_text(path: Path) -> str:
    """A sweep file; what is no file of a reasonable size is refused before it is read, for it may have no end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would let us wait until somebody writes to it
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise InvalidInput(f"A sweep file must be a file. Got '{path}', a device or a pipe, instead.")
        with os.fdopen(os.dup(handle), "rb") as file:
            data = file.read(LARGEST + 1)
    finally:
        os.close(handle)
    if len(data) > LARGEST:
        raise InvalidInput(f"A sweep file must have at most {LARGEST:,} bytes. Got '{path}' with more instead.")
    return data.decode("utf-8").replace("\r\n", "\n")


def _is_ours(name: str) -> bool:
    """What may lie in the folder of a sweep that never began: its lock, and drafts of its file."""
    return name == "sweep.lock" or (name.startswith("sweep.toml.") and name.endswith(".new"))
