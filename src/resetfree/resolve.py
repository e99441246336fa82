"""From what a user types to a problem: a registered id, or module:factory."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any

from resetfree.errors import InvalidInput, ResetFreeError, UnknownName
from resetfree.registry import make, problems


def parse_options(pairs: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value is read as bool, int, float or text, whichever fits first.

    >>> parse_options(["n=7", "slip=0.1", "risk_pays=false", "order=random"])
    {'n': 7, 'slip': 0.1, 'risk_pays': False, 'order': 'random'}
    """
    result = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise InvalidInput(f"The '--set' must be KEY=VALUE. Got '{pair}' instead.")
        result[key] = _value(text)
    return result


def _value(text: str) -> bool | int | float | str:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def option_names(problem: str) -> list[str] | None:
    """The options that a problem takes, None where any name will do.

    >>> option_names("grid-v0")
    ['slip', 'horizon']
    """
    if ":" not in problem:
        known = problems()
        if problem not in known:
            raise UnknownName("problem", problem, known)
        return list(known[problem].options)
    try:
        parameters = inspect.signature(_factory(problem)).parameters
    except (TypeError, ValueError):  # not a function: what it takes shows when it is called
        return None
    free = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if free else list(parameters)


def resolve(problem: str, options: dict[str, Any]) -> Any:
    """Make the problem that `problem` names.

    >>> resolve("grid-v0", {"horizon": 3}).horizon
    3
    """
    if ":" not in problem:
        return make(problem, **options)
    factory = _factory(problem)
    try:
        made = factory(**options)
    except ResetFreeError:
        raise
    except Exception as error:  # the user's code: its own words are the most useful
        raise InvalidInput(f"The factory '{problem}' must return a problem. It raised {error!r} instead.") from error
    if not hasattr(made, "problem"):
        raise InvalidInput(
            f"The factory '{problem}' must return a FiniteMDP. It returned {type(made).__name__} instead."
        )
    return made


def _factory(problem: str) -> Any:
    """What module:factory names."""
    module_name, _, factory_name = problem.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's own module lies where the command is run
    try:
        return getattr(importlib.import_module(module_name), factory_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(
            f"A PROBLEM must be a registered id or module:factory. Got '{problem}', which does not import: {error}."
        ) from error
