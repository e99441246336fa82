"""One trial of a study: its arguments and its id; the job that plays it in any process; and the folder of a sweep.

sweep.toml            the sweep file, as it was given
trials/ab/ab12….rfrun the run file of each trial, named by the hash of its arguments
errors/ab12….txt      the traceback of a trial that failed
results.parquet, summary.parquet, report.md, curves.png
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, Unpack

from resetfree.core import InvalidInput, ResetFreeError, RunError, one_line
from resetfree.core.files import WriterLock, drafted, is_held, lacks_room, sweep_out
from resetfree.core.system import NONBLOCK
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.players import BASES, Role, current_settings, discover
from resetfree.problems import World, find_world
from resetfree.runs.file.newfile import remove
from resetfree.runs.file.runfile import connect, sentences
from resetfree.runs.learn import Progress, Stopped, fulfil
from resetfree.runs.request import Options, RunRequest
from resetfree.runs.setup import Setup, prepare
from resetfree.runs.tracking import tracked
from resetfree.studies.engines import Outcome, Stop

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


P = TypeVar("P")
LOOK = 0.1  # seconds between two polls of `stop`
PATIENCE = 1.0  # seconds that a worker waits while another process writes its run file


@dataclass(frozen=True)
class NamedPlayers:
    """Two players by name, as `learn` takes them."""

    primal: str = "auto"
    dual: str = "auto"
    feedback: str = "auto"
    bound: float | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)  # of the primal and the dual player

    def __str__(self) -> str:
        words = [with_settings(getattr(self, role), self.settings.get(role, {})) for role in BASES]
        words += [f"feedback {self.feedback}"] if self.feedback != "auto" else []
        words += [f"B = {self.bound:g}"] if self.bound is not None else []
        return ", against ".join([words[0], ", ".join(words[1:])])


@dataclass(frozen=True)
class Trial(Generic[P]):
    """One game of a study: players on a problem, for some episodes, with a seed.

    players: NamedPlayers in a sweep, a method of the comparison in a suite.
    """

    problem: str
    options: dict[str, Any]
    players: P
    episodes: int
    seed: int

    @cached_property
    def id(self) -> str:
        """A hash of all its fields, which names its run file."""
        return _digest({"configuration": self.configuration, "seed": self.seed})

    @cached_property
    def configuration(self) -> str:
        """A hash of all its fields but the seed."""
        return _digest({name: value for name, value in self.to_dict().items() if name != "seed"})

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "players"}
        return {**own, **vars(self.players)}

    def with_seeds(self, seeds: Iterable[int]) -> Iterator[Trial[P]]:
        """The trials of this configuration; its hash is computed only once."""
        for seed in seeds:
            trial = replace(self, seed=seed)
            trial.__dict__["configuration"] = self.configuration  # fills the `cached_property`
            yield trial

    @property
    def arguments(self: NamedTrial) -> dict[str, Any]:
        """The arguments of `learn` besides the problem."""
        players = self.players
        return {
            "primal": players.primal,
            "dual": players.dual,
            "episodes": self.episodes,
            "seed": self.seed,
            "feedback": players.feedback,
            "B": players.bound,
            "settings": {**players.settings, "problem": self.options},
        }

    def request(self: NamedTrial, **options: Unpack[Options]) -> RunRequest:
        """The request of its run.  options: other arguments of `learn`."""
        return RunRequest.of(self.problem, {**self.arguments, **options})

    def prepared(self: NamedTrial, worlds: dict[str, World], before: Mapping[str, Any] | None = None) -> Setup:
        """Its players on its problem, which is made once for all trials that share `worlds`.

        before: the spec of another trial of the problem: a bound B by the oracle is taken from it.
        """
        if self.place not in worlds:
            worlds[self.place] = find_world(self.problem, self.options)
        request = self.request()
        return prepare(worlds[self.place], request.who, episodes=self.episodes, seed=self.seed, before=before)

    @property
    def place(self) -> str:
        """A key of its problem with all options."""
        return json.dumps([self.problem, self.options], sort_keys=True)

    def __str__(self) -> str:
        where = with_settings(self.problem, self.options)
        return f"{where}, {self.players}, {self.episodes} episodes, seed {self.seed}"


NamedTrial: TypeAlias = Trial[NamedPlayers]


class TrialJob(NamedTuple):
    """The job of a worker: a trial, the folder of its sweep, and the folder for TensorBoard files, if any."""

    trial: NamedTrial
    folder: Path
    tensorboard: Path | None = None

    @property
    def id(self) -> str:
        """The id of the trial."""
        return self.trial.id

    @property
    def again(self) -> str:
        """What to type to continue it."""
        return f"To continue it, with as much time again or another --time-limit: resetfree sweep retry {self.folder}"

    @property
    def events(self) -> Path | None:
        """The folder of its TensorBoard files, with a readable name."""
        if self.tensorboard is None:
            return None
        trial, players = self.trial, self.trial.players
        words = f"{trial.problem}-{players.primal}-{players.dual}-seed{trial.seed}-{self.id[:8]}"
        return self.tensorboard / re.sub(r"[^\w.-]+", "-", words)

    def play(self, stop: Stop = lambda: False) -> Outcome:
        """Play the trial, resuming its run file if there is one; its error is saved in the folder.

        stop: polled; if it returns true, the trial is saved and ended.
        """
        trial, folder = self.trial, SweepFolder(self.folder)
        file = folder.trial_file(trial.id)
        try:
            if folder.is_finished(trial.id, trial.episodes):  # by another worker since: a file that is done stays shut
                return Outcome("done")
            resume = file.exists()
            before = file if resume else None
            request = trial.request(path=file, resume=resume)
            with (
                request.world() as world,
                tracked(_interrupted_by(stop), self.events, world, trial.episodes, before) as progress,
            ):
                fulfil(request.changed("around", progress=progress), world)
        except (Stopped, KeyboardInterrupt):
            return Outcome("stopped")
        except Exception as error:  # a trial that fails is a result, and must not stop the sweep
            if isinstance(error, RunError) and isinstance(error.__cause__, BlockingIOError):
                time.sleep(PATIENCE)  # a worker of a killed driver is still playing it
                return Outcome("busy", str(error))
            return self.failed(error)
        with suppress(OSError):  # a finished trial has not failed, whatever errors/ holds
            folder.forget_error(trial.id)
        return Outcome("done")

    def failed(self, error: BaseException) -> Outcome:
        """Save an error with its traceback; a full disk is not a failure of the trial."""
        sentence, trial = one_line(error), self.trial
        if lacks_room(error):
            return Outcome("lost", str(error) if isinstance(error, ResetFreeError) else f"{sentence}.")
        trace = "".join(traceback.format_exception(error))
        text = f"{sentence}\n\n{trial}\n{json.dumps(trial.to_dict(), sort_keys=True)}\n\n{trace}"
        try:
            SweepFolder(self.folder).keep_error(trial.id, text)
        except OSError as failure:
            why = f"The trial {trial.id} failed ({sentence}), which cannot be kept: {failure.strerror}."
            return Outcome("lost", why)
        return Outcome("failed", sentence)


def _interrupted_by(stop: Stop) -> Progress:
    """A `progress` that polls `stop` and raises KeyboardInterrupt, after which `learn` saves the run."""
    due = time.monotonic() + LOOK

    def note(game: Game, this: Round) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LOOK
            if stop():
                raise KeyboardInterrupt

    return note


def stored_settings(spec: Mapping[str, Any], role: Role, defaults: Mapping[str, Any], bound: bool) -> dict[str, Any]:
    """The settings of a player that the spec of a run holds and that must be given again to resume it.

    The others are defaults, or computed by the oracle. bound: whether a bound B that was given counts.
    """
    keep_bound = bound and spec["B_source"] == "given"
    settings = current_settings(discover(role).get(spec[role]["name"]), spec[role]["settings"])
    return {
        name: value
        for name, value in settings.items()
        if (keep_bound or name != "B") and isinstance(value, bool | int | float | str) and value != defaults.get(name)
    }


def with_settings(name: str, settings: Mapping[str, Any]) -> str:
    """A problem with its options, or a player with its settings, in words.

    >>> with_settings("pits-v0", {"n": 7, "slip": 0.1})
    'pits-v0 n=7 slip=0.1'
    """
    return " ".join([name, *(f"{key}={value}" for key, value in settings.items())])


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
