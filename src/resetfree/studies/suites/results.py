"""The results file of a comparison: one JSON object per line, a trial each, appended as trials finish.

The first line is a header. A trial is in the file at most once; a line that a crash cut short is dropped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache
from pathlib import Path
from typing import Any, Self, get_args

from resetfree.core.arguments import is_special
from resetfree.core.certificate import plain
from resetfree.core.errors import RunError
from resetfree.core.files import WriterLock, drafted
from resetfree.studies.suites.trials import Ending, Measured, MethodTrial, key_of
from resetfree.studies.trial import with_settings

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
