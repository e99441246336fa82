"""The problem options that may be taken from a run file: none that name code, and none that make a large problem.

A file is untrusted input. The remaining options must be given again by the user.
"""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.problems.gym import DOTTED, of_adapter
from resetfree.problems.registry import PROBLEMS
from resetfree.runs.file.runfile import named

LARGEST = 2**28  # `Size.work` of what is made and solved within seconds and a gigabyte
WHOLE = 10**6  # the largest integer among the options of an environment or a factory
WORD = re.compile(r"[\w +-]*")  # text that is safe for foreign code: no module, no path


def trusted_options(
    spec: Mapping[str, Any], given: Mapping[str, Any] | None = None, path: Path | None = None
) -> dict[str, Any]:
    """The options of a file's problem, overridden by those that are given now.

    Raises InvalidInput if an option that is not given again names code, or makes the problem large.

    >>> trusted_options({"problem": "gym:CartPole-v1", "problem_options": {"horizon": 50, "reset_when": "terminated"}})
    {'horizon': 50, 'reset_when': 'terminated'}
    >>> trusted_options({"problem": "gym:CartPole-v1", "problem_options": {"reset_when": "mine:fell"}})
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The run names code for 'reset_when'. Nothing is run because a file names it:
    give it again with --set reset_when=mine:fell.
    """
    problem, given = spec["problem"], given or {}
    from_file = {key: value for key, value in spec["problem_options"].items() if key not in given}
    for key, value in from_file.items():
        again = f"give it again with --set {key}={shlex.quote(str(value))}."
        if names_code(problem, key, value):
            raise InvalidInput(f"{named(path)} names code for '{key}'. Nothing is run because a file names it: {again}")
        if problem not in PROBLEMS.own and _too_large(value):
            raise InvalidInput(f"{named(path)} requests '{key}' = {value}, which is large: {again}")
    options, known = {**spec["problem_options"], **given}, PROBLEMS.get(problem)
    counts = {key: value for key, value in from_file.items() if key != "seed" and type(value) is not float}
    if known is not None and counts and (work := known.sized(options).work) > LARGEST:
        words = " ".join(f"--set {key}={shlex.quote(str(value))}" for key, value in counts.items())
        raise InvalidInput(
            f"{named(path)} requests a problem of size {work:.2g}, and because a file says so none "
            f"of more than {LARGEST:.2g} is made: name '{problem}' yourself, with {words}."
        )
    if problem.startswith("gym:") and "after_goal" not in spec and not {"goal_when", "reset_when"} & options.keys():
        options["goal_when"] = "never"  # a run from before goals were distinguished: every end was a reset
    return options


def names_code(problem: str, key: str, value: Any) -> bool:
    """Whether an option may cause an import."""
    if isinstance(value, Mapping):
        return any(names_code(problem, key, part) for part in [*value, *value.values()])
    if isinstance(value, list | tuple):
        return any(names_code(problem, key, part) for part in value)
    if not isinstance(value, str):
        return False
    if key == "limits" and problem.startswith("gym:"):
        return ":" in value and "=" not in value  # else intervals, as in "heat=:80"
    group, _, setting = key.partition(".")
    if ":" in value or (group in DOTTED and setting == "function") or key == "new_task":
        return True
    # Our own problems and the adapter import nothing else; what foreign code does with text is unknown.
    own = problem in PROBLEMS.own or of_adapter(key)
    return not own and WORD.fullmatch(value) is None


def _too_large(value: Any) -> bool:
    if isinstance(value, list | tuple | Mapping):
        return len(value) > WHOLE
    return isinstance(value, int) and abs(value) > WHOLE
