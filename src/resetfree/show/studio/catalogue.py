"""What can be chosen on the page: problems and players with their settings, as they are discovered."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from functools import cache
from typing import Any

from resetfree.core.errors import InvalidInput
from resetfree.game.auto import choose
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES, discover, settings
from resetfree.players.algorithm1 import algorithm1
from resetfree.problems.fingerprint import describe
from resetfree.problems.registry import make, problems
from resetfree.problems.zoo.drawn import SYMBOLS
from resetfree.show.studio import inputs, limits
from resetfree.show.studio.drawing import BY_HAND, DRAWN, TEMPLATES


@cache
def catalogue() -> dict[str, Any]:
    """Everything, as plain data."""
    chosen = {
        id: {"summary": spec.summary, "options": [_option(*item) for item in spec.options.items()]}
        for id, spec in problems().items()
        if id not in (DRAWN, BY_HAND)
    }
    players = {
        role: {name: {"summary": _told(cls), "settings": _fields(cls)} for name, cls in discover(role).items()}
        for role in BASES
    }
    bounds = {
        "grid": limits.GRID, "horizon": limits.HORIZON, "episodes": limits.EPISODES, "running": limits.RUNNING,
        "certified": limits.CERTIFIED, "seed": limits.SEED,
    }  # fmt: skip
    return {
        "problems": chosen, "players": players, "feedback": ["auto", *FEEDBACK], "limits": bounds,
        "symbols": SYMBOLS, "templates": TEMPLATES, "lanes": _lanes(),
    }  # fmt: skip


def _lanes() -> list[list[str]]:
    """The pairs that the page begins with: what `auto` takes for a drawn grid, beside Algorithm 1."""
    found = choose(make(DRAWN).problem(), discover("primal").own, bound_known=True)
    return [[primal, "auto"] for primal in (found.primal, algorithm1()[0].name)]


def problem_options(id: str, given: Any) -> dict[str, Any]:
    """Options of a registered problem, bounded before anything is made of them."""
    known = problems()
    if id not in known:
        raise InvalidInput(f"The problem must be a registered one. Got {inputs.shown(id)} instead.")
    options = inputs.mapping(given, f"options of '{id}'", known[id].options)
    for name, value in options.items():
        if not isinstance(value, bool | int | float | str):
            raise InvalidInput(f"The option '{name}' must be a number or a word. Got {inputs.kind(value)} instead.")
        if isinstance(value, int) and not isinstance(value, bool):
            inputs.whole(value, f"option '{name}'", -limits.SEED, limits.SEED if name == "seed" else limits.OPTION)
        if isinstance(value, str):
            inputs.text(value, f"option '{name}'", (limits.GRID + 1) ** 2)
    return options


def player_settings(role: Any, name: str, given: Any) -> dict[str, Any]:
    """Settings of a player; values are checked by the player itself."""
    if name == "auto":
        known = sorted({field for cls in discover(role).values() for field in settings(cls)})
    elif name in discover(role):
        known = list(settings(discover(role)[name]))
    else:
        raise InvalidInput(f"The {role} player must be a discovered one. Got {inputs.shown(name)} instead.")
    found = inputs.mapping(given, f"settings of '{name}'", known)
    for key, value in found.items():
        if not isinstance(value, bool | int | float | str | None):
            raise InvalidInput(f"The setting '{key}' must be a number or a word. Got {inputs.kind(value)} instead.")
        if isinstance(value, str):
            inputs.text(value, f"setting '{key}'")
    return found


def _option(name: str, default: Any) -> dict[str, Any]:
    return {"name": name, "default": describe(default), "kind": type(default).__name__, "choices": None}


def _fields(cls: Any) -> list[dict[str, Any]]:
    """The fields of a player: name, default, what they take, and the choices where these are few."""
    try:
        hints = typing.get_type_hints(cls)
    except NameError:  # names that only a type checker sees
        hints = {}
    result = []
    for field in dataclasses.fields(cls):
        wanted = hints.get(field.name)
        parts = typing.get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
        choices = [x for part in parts if typing.get_origin(part) is typing.Literal for x in typing.get_args(part)]
        plain = [part.__name__ for part in parts if part in (int, float, bool, str)]
        default = None if field.default is dataclasses.MISSING else describe(field.default)
        result.append(
            {
                "name": field.name, "default": default, "kind": plain[0] if plain else "choice" if choices else "other",
                "choices": choices or None, "optional": type(None) in parts,
            }
        )  # fmt: skip
    return result


def _told(cls: type) -> str:
    """The first line of a player's file."""
    return (sys.modules[cls.__module__].__doc__ or cls.__doc__ or "").strip().split("\n")[0]
