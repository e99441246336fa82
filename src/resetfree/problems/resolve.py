"""From what a user types to a problem: a registered id, gym:ID of a Gymnasium environment, or module:factory."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from resetfree.core.errors import InvalidInput, NotCertifiable, ResetFreeError, UnknownName
from resetfree.core.naming import imported
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import model_behind
from resetfree.problems.gym.options import NAMES, from_options
from resetfree.problems.registry import make, problems

GYM = "gym:"


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
    if problem.startswith(GYM):
        return None
    takes = _parameters(_factory(problem))
    return None if takes is None else [*takes, *(name for name in NAMES if name not in takes)]


def resolve(problem: str, options: dict[str, Any]) -> Any:
    """Make the problem that `problem` names.

    A factory gets the options that it takes; if it returns an environment, the adapter gets the others.

    >>> resolve("grid-v0", {"horizon": 3}).horizon
    3
    >>> resolve("gym:FrozenLake-v1", {"horizon": 3, "map_name": "8x8"}).n_states
    65
    """
    if ":" not in problem:
        return make(problem, **options)
    if problem.startswith(GYM):
        return from_options(problem, options)
    factory = _factory(problem)
    takes = _parameters(factory)
    own = {key: value for key, value in options.items() if takes is None or key in takes}
    rest = {key: value for key, value in options.items() if key not in own}
    try:
        made = factory(**own)
    except ResetFreeError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code, which may call exit: its own words are the most useful
        raise InvalidInput(f"The factory '{problem}' must return a problem. It raised {error!r} instead.") from error
    # An environment, as far as one can tell without Gymnasium.
    if hasattr(made, "step") and hasattr(made, "reset") and not isinstance(made, Problem):
        return from_options(made, rest, problem)
    if rest:
        raise UnknownName(f"option of factory '{problem}'", next(iter(rest)), takes or ())
    if not isinstance(made, Problem) and (not hasattr(made, "problem") or isinstance(made, type)):
        raise InvalidInput(
            f"The factory '{problem}' must return a FiniteMDP, a Problem or a gymnasium.Env. "
            f"It returned {type(made).__name__} instead."
        )
    return made


def resolve_model(problem: str, options: dict[str, Any]) -> Any:
    """The model that `problem` names, for those who may look: of an environment, the one that its table tells."""
    made = resolve(problem, options)
    if not isinstance(made, Problem):
        return made
    no_table = getattr(made, "no_table", "")
    if no_table:
        raise NotCertifiable(no_table)
    return model_behind(made)


def _parameters(factory: Any) -> list[str] | None:
    """The options that a factory takes, None where any name will do."""
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # not a function: what it takes shows when it is called
        return None
    free = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if free else list(parameters)


def _factory(problem: str) -> Any:
    """What module:factory names."""
    return imported(problem, "A PROBLEM must be a registered id or module:factory.")
