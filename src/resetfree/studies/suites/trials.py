"""One trial of a comparison, and the file that holds the results of all.

All methods get the same random numbers: the generator of a game depends on the seed alone, and every episode takes the
same number of uniforms from it. The file has a header and one JSON object per line, a trial each, appended as trials
finish. A trial is in it at most once; a line that a crash cut short is dropped.
"""

import hashlib
import json
import math
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np

from resetfree.core import AssumptionViolated, Floats, InvalidInput, NotCertifiable, RunError, is_special, one_line
from resetfree.core.certificate import plain
from resetfree.core.files import WriterLock, drafted
from resetfree.game.loop import begin, play
from resetfree.players import Setting
from resetfree.problems import FiniteMDP
from resetfree.problems.finite.mdp import FiniteProblem
from resetfree.studies.suites import Instance, instance, methods
from resetfree.studies.trial import LOOK, Trial, with_settings
from resetfree.theory.assumptions import dual_class
from resetfree.theory.certificates.anytime import resets_upper
from resetfree.theory.oracle import Evaluator
from resetfree.theory.oracle.dynamic_programming import solve

Ending: TypeAlias = Literal["done", "stopped", "failed"]


@dataclass(frozen=True)
class MethodPlayers:
    """The players of a method of the comparison, as they are made for a case."""

    case: str
    method: str
    pooled: bool
    width: float  # 0 for a method without one
    tuning: bool  # played to choose a width; never reported


MethodTrial: TypeAlias = Trial[MethodPlayers]


def key_of(trial: MethodTrial) -> str:
    """A unique name, also in files."""
    players, place = trial.players, with_settings(trial.problem, trial.options)
    role = "tuning" if players.tuning else "reported"
    pooling = "pooled" if players.pooled else "per step"
    words = (players.case, role, players.method, pooling, f"{players.width:g}", place)
    return " | ".join([*words, f"seed {trial.seed}", f"K {trial.episodes}"])


@dataclass(frozen=True)
class Measured:
    """The outcome of a trial; sums over the episodes played."""

    status: Ending  # "stopped": by the time limit; "failed": by an exception
    played: int = 0
    regret: float = 0.0  # Regret, exact
    resets: float = 0.0  # Resets, expected and exact
    realised: int = 0  # resets that happened
    last_reset: int = 0  # episode of the last reset that happened, 0 if none did
    seconds: float = 0.0  # wall time of learning, without the oracle's
    bound: float = 0.0  # B
    certificate: float = 0.0  # upper bound on Resets at the end that needs no model
    covered: bool = False  # whether that bound was above Resets after every episode
    error: str | None = None


class Interrupted(Exception):
    """The trial was stopped on request; nothing of it is kept."""


@dataclass(frozen=True, eq=False)
class Ground:
    """An instance with what its trials share."""

    mdp: FiniteMDP
    problem: FiniteProblem
    value: Floats  # [S] V*, nan where no reset-free policy exists
    bound: float  # B


@cache
def ground(on: Instance) -> Ground:
    """Make an instance, once in a process, with its V* and the least B of its multipliers.

    >>> round(ground(Instance("grid-v0")).bound, 4)
    38.8665
    """
    mdp = on.make()
    bound = dual_class(mdp).detail.get("B")
    if bound is None:
        raise NotCertifiable(f"The instance '{on}' has no bound on its multipliers that the oracle can compute.")
    return Ground(mdp, mdp.problem(), solve(mdp, starts=[]).value, float(bound))


def run_trial(trial: MethodTrial, limit: float = float("inf"), stop: Callable[[], bool] = lambda: False) -> Measured:
    """Play a trial; an exception becomes part of the outcome.

    limit: seconds of wall time, checked between episodes.  stop: polled; if it returns true, raises `Interrupted`.
    """
    tally = _Tally()
    try:
        status = _play(trial, tally, limit, stop)
    except (Interrupted, KeyboardInterrupt):
        raise
    except Exception as error:  # a method that fails is a result, and must not end the comparison
        return tally.outcome("failed", one_line(error))
    return tally.outcome(status, None)


class _Tally:
    """Sums over the episodes so far: a trial keeps no rounds."""

    def __init__(self) -> None:
        self.played = self.last_reset = 0
        self.regret = self.resets = self.seconds = self.bound = 0.0
        self.before: list[float] = []  # Resets just before each realised reset, where the bound is tightest

    def outcome(self, status: Ending, error: str | None) -> Measured:
        upper = resets_upper(np.arange(len(self.before) + 1))
        covered = bool((upper >= [*self.before, self.resets]).all())
        sums = {name: value for name, value in vars(self).items() if name != "before"}
        about: dict[str, Any] = {"realised": len(self.before), "certificate": float(upper[-1]), "covered": covered}
        return Measured(status, error=error, **about, **sums)


def _play(trial: MethodTrial, tally: _Tally, limit: float, stop: Callable[[], bool]) -> Ending:
    here, players = ground(instance(trial.problem, **trial.options)), trial.players
    tally.bound = here.bound
    setting = Setting(here.bound, players.width, players.pooled, here.problem)
    primal, dual, feedback = methods()[players.method].build(setting)
    clock, value, evaluator = time.perf_counter, here.value, Evaluator(here.mdp)
    spent = 0.0  # by the oracle, which does not count for the method

    def oracle(policy: Any, s1: Any) -> tuple[float, float]:
        nonlocal spent
        then = clock()
        exact = evaluator(policy, s1)
        spent += clock() - then
        return exact

    began = clock()
    due = began + LOOK
    game = begin(here.problem, primal, dual, episodes=trial.episodes, seed=trial.seed)
    rounds = play(here.problem, primal, dual, game, episodes=trial.episodes, feedback=feedback, oracle=oracle)
    for this in rounds:
        assert this.exact is not None
        v_r, v_c = this.exact
        best = float(value[this.s1])
        if math.isnan(best):
            raise AssumptionViolated(
                f"Episode {this.k} starts in state {this.s1}, from which no reset-free policy exists.",
                assumption="feasibility",
                witness=this.s1,
            )
        if not math.isfinite(v_r + v_c):
            raise InvalidInput(f"The policy of episode {this.k} must have values. Got {v_r} and {v_c} instead.")
        if this.episode.reset:
            tally.before.append(tally.resets)
            tally.last_reset = this.k
        tally.regret += best - v_r
        tally.resets += v_c
        tally.played = this.k
        now = clock()
        tally.seconds = now - began - spent
        if now >= due:
            due = now + LOOK
            if stop():
                raise Interrupted
            if now - began > limit and this.k < trial.episodes:
                return "stopped"
    return "done"


FORMAT = "resetfree bench 1"


class Results:
    """Outcomes by the key of their trial, in memory and in a file that one process writes at a time.

    overwrite: whether a file of another kind or another suite may be replaced (and the same suite restarted).
    redo: methods whose trials in the file are discarded.
    """

    def __init__(self, path: Path, suite: str, *, overwrite: bool = False, redo: Collection[str] = ()) -> None:
        self.path, self.outcomes, self.others = path, dict[str, Measured](), 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error
        self._lock = WriterLock(path).acquire()
        try:
            header = {"format": FORMAT, "suite": suite}
            lines = [] if overwrite or not path.exists() else self._read(header)
            kept = [line for line in lines if line["method"] not in redo]
            for line in kept:
                self.outcomes[line["key"]] = _outcome(line)
                self.others += line["code"] != code_digest()
            # Rewritten atomically: a line that a crash cut short is dropped, and nothing else can be lost.
            with drafted(path) as draft:
                draft.write_text("".join(json.dumps(line) + "\n" for line in [header, *kept]))
            self._file = path.open("a")
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise _unwritable(path, error) from error
            raise

    def add(self, trial: MethodTrial, outcome: Measured) -> None:
        """Append an outcome; it is in the file when this returns."""
        key = key_of(trial)
        if key in self.outcomes:
            raise RunError(f"A trial is kept once. Got '{key}' twice.")
        line = {
            "key": key,
            **vars(trial.players),
            "instance": with_settings(trial.problem, trial.options),
            "seed": trial.seed,
            "episodes": trial.episodes,
            "code": code_digest(),
            "outcome": plain(asdict(outcome)),
        }
        try:
            self._file.write(json.dumps(line, allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.outcomes[key] = outcome

    def close(self) -> None:
        """Close the file and release its lock."""
        with suppress(OSError):  # a failed write was reported before
            self._file.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, header: dict[str, str]) -> list[dict[str, Any]]:
        """The trials in the file; raises RunError if it is not a results file of this suite."""
        refuse = "Replace it (--overwrite) or name another (--out)."
        if is_special(self.path):
            raise RunError(f"The file '{self.path}' is a pipe or a device, and holds no results of bench. {refuse}")
        try:
            lines = self.path.read_text().splitlines()
            first = json.loads(lines[0])
        except (ValueError, IndexError) as error:
            raise RunError(f"The file '{self.path}' exists and holds no results of bench. {refuse}") from error
        if not isinstance(first, dict) or first.get("format") != FORMAT:
            raise RunError(f"The file '{self.path}' exists and holds no results of bench. {refuse}")
        if first != header:
            raise RunError(
                f"The file '{self.path}' holds results of suite '{first.get('suite')}', not of '{header['suite']}'. "
                f"{refuse}"
            )
        result = []
        for i, line in enumerate(lines[1:], 2):
            damaged = f"Line {i} of the results file '{self.path}' is damaged. {refuse}"
            try:
                read = json.loads(line)
            except (ValueError, RecursionError) as error:
                if i == len(lines):
                    break
                raise RunError(damaged) from error
            try:
                _outcome(read)
            except (ValueError, TypeError, KeyError) as error:
                raise RunError(damaged) from error
            result.append(read)
        return result


def _outcome(line: dict[str, Any]) -> Measured:
    """The outcome in a line of the file; raises ValueError, TypeError or KeyError if the line is invalid."""
    found = Measured(**line["outcome"])
    for one in fields(Measured):
        value, default = getattr(found, one.name), one.default
        if isinstance(default, float | int) and not isinstance(value, float | int):
            raise ValueError(f"'{one.name}' must be a number")
    for name in ("key", "method", "code"):
        if not isinstance(line[name], str):
            raise ValueError(f"'{name}' must be text")
    if found.status not in get_args(Ending):
        raise ValueError("it has no status")
    return found


@cache
def code_digest() -> str:
    """A hash of the package's code without `show`: whether two trials were played by the same code.

    >>> len(code_digest())
    16
    """
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        if where.parts[0] != "show":
            digest.update(str(where).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _unwritable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"The results file '{path}' cannot be written: {error.strerror}. Its contents are safe; run the same command "
        "again to continue."
    )
