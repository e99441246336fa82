"""What a run file may ask for by itself: no code, and nothing large. The rest somebody must say again.

A file is data that somebody else may have written. Whoever makes its problem again takes its options from here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.problems.gym.options import DOTTED, of_adapter
from resetfree.problems.registry import PROBLEMS
from resetfree.runs.runfile import named

LARGEST = 2**28  # of `ProblemSpec.size`: what is made and solved within seconds and a gigabyte
WHOLE = 10**6  # a whole number among the options of an environment or a factory
WORD = re.compile(r"[\w +-]*")  # text for code of others: no module, no path


def followed(
    spec: Mapping[str, Any], said: Mapping[str, Any] | None = None, path: Path | None = None
) -> dict[str, Any]:
    """The options of a file's problem with those that are said now in their place.

    Raises InvalidInput where one that is not said again names code, or makes the problem large.

    >>> followed({"problem": "gym:CartPole-v1", "problem_options": {"horizon": 50, "reset_when": "terminated"}})
    {'horizon': 50, 'reset_when': 'terminated'}
    >>> followed({"problem": "gym:CartPole-v1", "problem_options": {"reset_when": "mine:fell"}})
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The run names code for 'reset_when'. Nothing is run because a file names it:
    say it again with --set reset_when=mine:fell.
    """
    problem, said = spec["problem"], said or {}
    for key, value in spec["problem_options"].items():
        if key in said:
            continue
        again = f"say it again with --set {key}={shlex.quote(str(value))}."
        if names_code(problem, key, value):
            raise InvalidInput(f"{named(path)} names code for '{key}'. Nothing is run because a file names it: {again}")
        if problem not in PROBLEMS.own and _too_large(value):
            raise InvalidInput(f"{named(path)} asks for '{key}' = {value}, which is much: {again}")
    options = {**spec["problem_options"], **said}
    known, file_s = PROBLEMS.get(problem), {k: v for k, v in spec["problem_options"].items() if k not in said}
    counts = {key: value for key, value in file_s.items() if key != "seed" and type(value) is not float}
    if known is not None and counts and known.entries(options) > LARGEST:
        words = " ".join(f"--set {key}={shlex.quote(str(value))}" for key, value in counts.items())
        raise InvalidInput(
            f"{named(path)} asks for a problem of size {known.entries(options):.2g}, and because a file says so none "
            f"of more than {LARGEST:.2g} is made: name '{problem}' yourself, with {words}."
        )
    return options


def names_code(problem: str, key: str, value: Any) -> bool:
    """Whether an option may lead to something being imported."""
    if isinstance(value, Mapping):
        return any(names_code(problem, key, part) for part in [*value, *value.values()])
    if isinstance(value, list | tuple):
        return any(names_code(problem, key, part) for part in value)
    if not isinstance(value, str):
        return False
    group, _, setting = key.partition(".")
    if ":" in value or (group in DOTTED and setting == "function"):
        return True
    # Our own problems and the adapter import nothing else; what others do with text nobody knows.
    own = problem in PROBLEMS.own or of_adapter(key)
    return not own and WORD.fullmatch(value) is None


def _too_large(value: Any) -> bool:
    if isinstance(value, list | tuple | Mapping):
        return len(value) > WHOLE
    return isinstance(value, int) and abs(value) > WHOLE
