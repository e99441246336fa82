"""One trial of a sweep: what is played, by which it is known, and how it is played wherever an engine sends it."""

from __future__ import annotations

import hashlib
import json
import re
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from resetfree.core.drafts import lacks_room
from resetfree.core.errors import ResetFreeError, RunError
from resetfree.core.naming import one_line
from resetfree.game.contract import Round
from resetfree.game.loop import Game
from resetfree.problems.world import World, find_world
from resetfree.runs.learn import Progress, Stopped, learn
from resetfree.runs.setup import Setup, prepare
from resetfree.runs.tracking import tracked
from resetfree.studies.engines.runner import Outcome, Stop
from resetfree.studies.folder import SweepFolder

LOOK = 0.1  # seconds between two looks at whether the trial shall end
PATIENCE = 1.0  # seconds that a worker waits where another process holds its run file


@dataclass(frozen=True)
class Trial:
    """What is asked of `learn`; trials that ask for the same are the same trial."""

    problem: str
    options: dict[str, Any]
    primal: str
    dual: str
    feedback: str
    bound: float | None
    settings: dict[str, dict[str, Any]]  # of the primal and the dual player
    episodes: int
    seed: int

    @cached_property
    def id(self) -> str:
        """A hash of everything in it, which names its run file."""
        return _digest({"configuration": self.configuration, "seed": self.seed})

    @cached_property
    def configuration(self) -> str:
        """The same for trials that differ in the seed only."""
        return _digest({one.name: getattr(self, one.name) for one in fields(self) if one.name != "seed"})

    def with_seeds(self, seeds: Iterable[int]) -> Iterator[Trial]:
        """The trials of this configuration; its hash is computed once for all of them."""
        shared = {one.name: getattr(self, one.name) for one in fields(self)}
        for seed in seeds:
            trial = Trial(**{**shared, "seed": seed})
            trial.__dict__["configuration"] = self.configuration  # where `cached_property` keeps it
            yield trial

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `learn`."""
        return {
            "problem": self.problem,
            "primal": self.primal,
            "dual": self.dual,
            "episodes": self.episodes,
            "seed": self.seed,
            "feedback": self.feedback,
            "B": self.bound,
            "settings": {**self.settings, "problem": self.options},
        }

    def prepared(self, worlds: dict[str, World], before: Mapping[str, Any] | None = None) -> Setup:
        """Its players on its problem, which is made once for all trials that share `worlds`.

        before: the spec of another trial of the problem; what the oracle told that one is not computed again.
        """
        if self.place not in worlds:
            worlds[self.place] = find_world(self.problem, self.options)
        return prepare(
            worlds[self.place],
            primal=self.primal,
            dual=self.dual,
            episodes=self.episodes,
            seed=self.seed,
            feedback=self.feedback,
            B=self.bound,
            settings={**self.settings, "problem": self.options},
            before=before,
        )

    @property
    def place(self) -> str:
        """The same for trials on the same problem."""
        return json.dumps([self.problem, self.options], sort_keys=True)

    def __str__(self) -> str:
        words = [_with(self.problem, self.options), _with(self.primal, self.settings.get("primal", {}))]
        words.append(f"against {_with(self.dual, self.settings.get('dual', {}))}")
        words += [f"feedback {self.feedback}"] if self.feedback != "auto" else []
        words += [f"B = {self.bound:g}"] if self.bound is not None else []
        return ", ".join([*words, f"{self.episodes} episodes, seed {self.seed}"])


class Errand(NamedTuple):
    """What a worker is sent: a trial, the folder of its sweep, and where TensorBoard files go if they are wanted."""

    trial: Trial
    folder: Path
    tensorboard: Path | None = None

    @property
    def id(self) -> str:
        """That of the trial."""
        return self.trial.id

    @property
    def again(self) -> str:
        """What to type to go on with it."""
        return (
            f"It goes on, with as much time again or another --time-limit, after: resetfree sweep retry {self.folder}"
        )

    @property
    def events(self) -> Path | None:
        """The folder of its TensorBoard files, with a name that people can read."""
        if self.tensorboard is None:
            return None
        words = f"{self.trial.problem}-{self.trial.primal}-{self.trial.dual}-seed{self.trial.seed}-{self.id[:8]}"
        return self.tensorboard / re.sub(r"[^\w.-]+", "-", words)

    def play(self, stop: Stop = lambda: False) -> Outcome:
        """Play the trial from its newest checkpoint if there is one; what it raises is kept in the folder.

        stop: if it says so, the trial is saved and ended.
        """
        trial, folder = self.trial, SweepFolder(self.folder)
        file = folder.trial_file(trial.id)
        try:
            resume = file.exists()
            own = (trial.problem, trial.episodes, trial.options, file if resume else None)
            with tracked(_heeding(stop), self.events, *own) as progress:
                learn(**trial.asked, path=file, resume=resume, progress=progress)
        except (Stopped, KeyboardInterrupt):
            return Outcome("stopped")
        except Exception as error:  # a trial that fails is a result, and must not stop the sweep
            if isinstance(error, RunError) and isinstance(error.__cause__, BlockingIOError):
                time.sleep(PATIENCE)  # a worker of a driver that was killed is still at it
                return Outcome("busy", str(error))
            return self.failed(error)
        with suppress(OSError):  # a trial that is finished has not failed, whatever lies in errors/
            folder.forget_error(trial.id)
        return Outcome("done")

    def failed(self, error: BaseException) -> Outcome:
        """Keep what was raised, with its traceback; a full disk is not the trial's doing."""
        sentence, trial = one_line(error), self.trial
        if lacks_room(error):
            return Outcome("lost", str(error) if isinstance(error, ResetFreeError) else f"{sentence}.")
        trace = "".join(traceback.format_exception(error))
        text = f"{sentence}\n\n{trial}\n{json.dumps(asdict(trial), sort_keys=True)}\n\n{trace}"
        try:
            SweepFolder(self.folder).keep_error(trial.id, text)
        except OSError as failure:
            why = f"The trial {trial.id} failed ({sentence}), which cannot be kept: {failure.strerror}."
            return Outcome("lost", why)
        return Outcome("failed", sentence)


def _heeding(stop: Stop) -> Progress:
    """Look now and then whether to end; `learn` saves the run when it is interrupted between two rounds."""
    due = time.monotonic() + LOOK

    def note(game: Game, this: Round) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + LOOK
            if stop():
                raise KeyboardInterrupt

    return note


def _digest(asked: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def _with(name: str, settings: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value}" for key, value in settings.items())])
