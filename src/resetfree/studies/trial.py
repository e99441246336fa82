"""One trial of a study: its arguments and its id; and the job that plays a trial of a sweep in any process."""

from __future__ import annotations

import hashlib
import json
import re
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, Unpack

from resetfree.core.errors import ResetFreeError, RunError, one_line
from resetfree.core.files import lacks_room
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.players import BASES, Role, current_settings, discover
from resetfree.problems.registry import World, find_world
from resetfree.runs.learn import Progress, Stopped, fulfil
from resetfree.runs.request import Options, RunRequest
from resetfree.runs.setup import Setup, prepare
from resetfree.runs.tracking import tracked
from resetfree.studies.engines.runner import Outcome, Stop
from resetfree.studies.folder import SweepFolder

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
