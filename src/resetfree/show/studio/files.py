"""The folder of the studio: run files by name, never by path; copies and reports of them."""

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from resetfree.core.arguments import shown
from resetfree.core.errors import InvalidInput, ResetFreeError, RunError
from resetfree.core.files import WriterLock
from resetfree.runs.file.ledger import read_episodes_of, read_spec_of
from resetfree.runs.file.runfile import connect, sentences
from resetfree.show.studio import limits
from resetfree.show.studio import report_jobs as reporting
from resetfree.show.studio.frames import scene_of
from resetfree.show.studio.web import Children

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,119}")
ENDING = ".rfrun"
SIDES = ("left", "right")


class RunFolder:
    """Holds all runs of the studio; no other file, inside or outside, is read."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"The folder '{path}' of the studio cannot be created: {error.strerror}.") from error
        self.path = path.resolve()
        self.reporters = Children(limits.REPORTS)

    def file(self, name: Any) -> Path:
        """The run file with this name (without its ending): a plain file in the folder, not a link, not too large."""
        path = self.free(name)
        try:
            about = path.lstat()
        except OSError as error:
            raise RunError(f"There is no run '{name}'.") from error
        if not stat.S_ISREG(about.st_mode):
            raise RunError(
                f"The run '{name}' must be a plain file in the folder. Got a link, folder or device instead."
            )
        if about.st_size > limits.FILE:
            raise RunError(f"The run '{name}' is larger than {limits.FILE:,} bytes: use the command line for it.")
        return path

    def free(self, name: Any) -> Path:
        """The path of a run of this name, whether or not it exists."""
        if not isinstance(name, str) or NAME.fullmatch(name) is None or ".." in name:
            raise InvalidInput(
                f"The name of a run must be letters, digits and _ . + - (at most 120). Got {shown(name)} instead."
            )
        return self.path / f"{name}{ENDING}"

    def lanes(self, name: str) -> list[Path]:
        """The files of a session: one, or two of players that were run side by side."""
        pair = [self.free(f"{name}-{side}") for side in SIDES]
        if all(path.exists() for path in pair):
            return [self.file(f"{name}-{side}") for side in SIDES]
        return [self.file(name)]

    @contextmanager
    def reserved(self, words: str) -> Iterator[str]:
        """A free name, reserved until the context ends; by then its files exist.

        It is reserved against other threads and against other studios in the same folder. The lock is the kernel's: a
        studio that was killed reserves no name.
        """
        stem = re.sub(r"[^A-Za-z0-9_.+-]+", "-", words).strip("-.")[:80] or "run"
        for number in range(1, 10_000):
            name = f"{stem}-{number}"
            if self._taken(name):
                continue
            try:
                lock = WriterLock(self.path / name).acquire()
            except RunError as error:
                if isinstance(error.__cause__, BlockingIOError):  # another thread or studio is starting this run
                    continue
                raise
            try:
                if not self._taken(name):  # it may have been taken before the lock was acquired
                    yield name
                    return
            finally:
                lock.release()
        raise InvalidInput("The folder has too many runs of this name. Start the studio with another --folder.")

    def _taken(self, name: str) -> bool:
        return any(os.path.lexists(self.free(one)) for one in (name, *(f"{name}-{side}" for side in SIDES)))

    def listing(self) -> list[dict[str, Any]]:
        """Every run file, newest first; two lanes of one session are one entry."""
        found: dict[str, dict[str, Any]] = {}
        for entry in self._entries():
            stem = entry.name.removesuffix(ENDING)
            name = next((stem.removesuffix(f"-{s}") for s in SIDES if stem.endswith(f"-{s}")), stem)
            if name != stem and not all((self.path / f"{name}-{s}{ENDING}").exists() for s in SIDES):
                name = stem
            about = entry.stat(follow_symlinks=False)
            row = found.setdefault(name, {"name": name, "bytes": 0, "changed": 0.0, "lanes": []})
            row["bytes"] += about.st_size
            row["changed"] = max(row["changed"], about.st_mtime)
            row["lanes"].append(_summary(Path(entry.path)))
        return sorted(found.values(), key=lambda row: -row["changed"])

    def _entries(self) -> list[os.DirEntry[str]]:
        with os.scandir(self.path) as entries:
            named = (one for one in entries if one.name.endswith(ENDING) and NAME.fullmatch(one.name[: -len(ENDING)]))
            fits = [entry for entry in named if entry.is_file(follow_symlinks=False)]
        fits.sort(key=lambda entry: -entry.stat(follow_symlinks=False).st_mtime)
        return sorted(fits[: limits.LISTED], key=lambda entry: entry.name)

    def copy(self, name: str, place: Path) -> Path:
        """A consistent copy of a run file, also while it is being written, in the folder `place`."""
        path, target = self.file(name), place / "copy.rfrun"
        source = connect(path, "ro")
        with closing(source), sentences(path), closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchone()
        return target

    def report(self, name: str, place: Path) -> Path:
        """The report of a session in the folder `place`, made in a child process, which may fail alone."""
        return self._made(name, place / "report.html", "report")

    def film(self, name: str, place: Path) -> Path:
        """The film of a session, its lanes side by side, made as reports are."""
        return self._made(name, place / "film.gif", "film")

    def _made(self, name: str, target: Path, what: str) -> Path:
        paths = self.lanes(name)
        for path in paths:
            scene = scene_of(read_spec_of(path))
            if not scene.bounded:
                raise RunError(f"The problem of '{name}' is beyond the studio: {scene.why} Use the command line.")
        try:
            self.reporters.run(reporting.command(paths, target), f"{what} of '{name}'", limits.REPORT_SECONDS)
        except RunError as error:
            error.args = (str(error).replace(f"{self.path}{os.sep}", ""),)
            raise
        return target


def rounds_in(path: Path) -> int:
    """How many rounds a file holds, without reading them."""
    with closing(connect(path, "ro")) as connection, sentences(path):
        return int(connection.execute("SELECT count(*) FROM rounds").fetchone()[0])


def _summary(path: Path) -> dict[str, Any]:
    """The summary of a file from its spec, or the error that reading it raised."""
    try:
        spec, episodes = read_spec_of(path), read_episodes_of(path)
    except ResetFreeError as error:
        return {"file": path.name, "error": str(error).replace(f"{path.parent}{os.sep}", "")}
    names = {"problem": spec["problem"], "primal": spec["primal"]["name"], "dual": spec["dual"]["name"]}
    short = {key: str(name)[:80] for key, name in names.items()}
    return {"file": path.name, **short, "episodes": episodes, "seed": spec["seed"]}
