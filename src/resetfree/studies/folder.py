"""The folder of a sweep: its files, which trials are finished, and the errors of those that failed.

sweep.toml            the sweep file, as it was given
trials/ab/ab12….rfrun the run file of each trial, named by the hash of its arguments
errors/ab12….txt      the traceback of a trial that failed
results.parquet, summary.parquet, report.md, curves.png
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from resetfree.core.errors import InvalidInput, RunError
from resetfree.core.files import WriterLock, drafted, is_held, sweep_out
from resetfree.core.system import NONBLOCK
from resetfree.runs.file.newfile import remove
from resetfree.runs.file.runfile import connect, sentences

LARGEST = 2**20  # bytes of a sweep file
FORMAT = "# A sweep of resetfree, as it was given. The folder belongs to it.\n"


class SweepFolder:
    """The paths of a sweep folder and their status; without state, so that any process may make one."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.plan = self.path / "sweep.toml"
        self.results, self.summary = self.path / "results.parquet", self.path / "summary.parquet"
        self.report, self.picture = self.path / "report.md", self.path / "curves.png"

    def trial_file(self, id: str) -> Path:
        """The run file of a trial; folders by prefix keep each of them small."""
        return self.path / "trials" / id[:2] / f"{id}.rfrun"

    def error_file(self, id: str) -> Path:
        """The file with the error of a trial."""
        return self.path / "errors" / f"{id}.txt"

    def prepare(self, text: str, *, update: bool = False) -> None:
        """Create the folder for the sweep in `text`, or reuse it if it holds that sweep.

        update: whether another sweep may take over the folder; the trials that both have are kept.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if self.plan.exists():
                if self._states(text):
                    return
                if not update:
                    raise RunError(
                        f"The folder '{self.path}' holds another sweep. Name another (--out), or update it (--update): "
                        "trials that both have are kept."
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
        """The text of the sweep file, as it was given."""
        try:
            return read_text(self.plan).removeprefix(FORMAT)
        except (OSError, ValueError) as error:
            raise RunError(
                f"The folder '{self.path}' is not that of a sweep: it has no readable sweep.toml."
            ) from error

    @contextmanager
    def playing(self) -> Iterator[None]:
        """Lock the folder for one driver; a killed driver releases the lock."""
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
            self._remove_drafts()
            lock.release()

    def _remove_drafts(self) -> None:
        """Remove the drafts of run files that a killed worker left; one that is being written is locked, and stays."""
        for draft in self.path.glob("trials/*/*.new*"):
            with suppress(OSError):
                if not is_held(Path(str(draft).rpartition(".new")[0])):
                    draft.unlink(missing_ok=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn errors of the disk while results are written into RunError with one sentence."""
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise RunError(
                f"The results in '{self.path}' cannot be written: {why}. The trials that are done are saved; run the "
                "same command again to continue."
            ) from error

    def is_finished(self, id: str, episodes: int) -> bool:
        """Whether the run file of a trial is complete.

        A file with a log beside it is being written, or its writer was killed. It counts as unfinished and is not
        opened, since reading it from another machine could disturb the writer. Resuming it settles whether it is.
        """
        file = self.trial_file(id)
        if not file.exists() or self.is_open(id):
            return False
        try:
            with closing(connect(file, "ro")) as connection, sentences(file):
                (k,) = connection.execute("SELECT max(k) FROM checkpoints").fetchone()
        except RunError:
            return False
        return isinstance(k, int) and k >= episodes

    def is_open(self, id: str) -> bool:
        """Whether a log lies beside the run file of a trial."""
        return Path(f"{self.trial_file(id)}-wal").exists()

    def is_held(self, id: str) -> bool:
        """Whether a process on this machine is playing the trial now."""
        return is_held(self.trial_file(id))

    @property
    def is_played(self) -> bool:
        """Whether a driver on this machine is playing the sweep now."""
        return is_held(self.path / "sweep")

    def failed(self) -> dict[str, Path]:
        """The error files of the failed trials, by id."""
        folder = self.path / "errors"
        return {one.stem: one for one in sorted(folder.glob("*.txt"))} if folder.is_dir() else {}

    def keep_error(self, id: str, text: str) -> None:
        """Save the error of a trial."""
        file = self.error_file(id)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, text)

    def forget_error(self, id: str) -> None:
        """Delete the error of a trial that has finished since, or is to be retried."""
        self.error_file(id).unlink(missing_ok=True)

    def remove_trial(self, id: str) -> None:
        """Delete the run file of a trial."""
        lock = WriterLock(self.trial_file(id)).acquire()
        try:
            remove(self.trial_file(id))
        finally:
            lock.release()


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with drafted(path) as draft:
        draft.write_text(text, encoding="utf-8")


def read_text(path: Path) -> str:
    """The text of a sweep file; raises InvalidInput for a device, a pipe or a large file, before it is read."""
    handle = os.open(path, os.O_RDONLY | NONBLOCK)  # opening a pipe would block until it has a writer
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
    """Whether a file may exist in the folder of a sweep that never began: its lock, and drafts of its file."""
    return name == "sweep.lock" or (name.startswith("sweep.toml.") and name.endswith(".new"))
