"""The choices of the page: problems and players with their settings, as discovered."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any

from resetfree.core.arguments import shown
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import check, check_names, declarations, plain_parts
from resetfree.game.auto import choose
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES, discover, settings
from resetfree.players.algorithm1 import algorithm1
from resetfree.problems.blueprint import describe
from resetfree.problems.registry import HELP, make, problems
from resetfree.problems.zoo.fields import SYMBOLS
from resetfree.show.cli.listing import summary_line
from resetfree.show.studio import limits
from resetfree.show.studio.drawing import BY_HAND, DRAWN, TEMPLATES
from resetfree.show.studio.drawing import check as check_grid
from resetfree.show.studio.page_requests import Option, Seed, ShortText

# The price of asking for a reset, an option of every registered problem.
ASKING = {"name": HELP, "default": None, "kind": "float", "choices": None, "optional": True}


@cache
def catalogue() -> dict[str, Any]:
    """All choices, defaults and limits as plain data."""
    chosen = {
        id: {"summary": spec.summary, "options": [*_fields(spec.factory, spec.options), ASKING]}
        for id, spec in problems().items()
        if id not in (DRAWN, BY_HAND)
    }
    players = {
        role: {
            name: {"summary": summary_line(cls), "settings": _fields(cls, settings(cls))}
            for name, cls in discover(role).items()
        }
        for role in BASES
    }
    named = ("grid", "horizon", "episodes", "running", "certified", "seed")
    bounds = {name: getattr(limits, name.upper()) for name in named}
    return {
        "problems": chosen,
        "players": players,
        "feedback": ["auto", *FEEDBACK],
        "limits": bounds,
        "symbols": SYMBOLS,
        "templates": TEMPLATES,
        "breaking": [name for name, grid in TEMPLATES.items() if not check_grid(grid)["holds"]],
        "lanes": _lanes(),
    }


def _lanes() -> list[list[str]]:
    """The pairs of players that the page starts with: the choice of `auto` for a drawn grid, and Algorithm 1."""
    found = choose(make(DRAWN).problem(), discover("primal").own, bound_known=True)
    return [[primal, "auto"] for primal in (found.primal, algorithm1()[0].name)]


def problem_options(id: str, given: Any) -> dict[str, Any]:
    """Options of a registered problem, bounded before the problem is made."""
    known = problems()
    if id not in known:
        raise InvalidInput(f"The problem must be registered (see `resetfree list problems`). Got {shown(id)} instead.")
    check(given, dict[str, Any], f"options of '{id}'")
    check_names(given, [*known[id].options, HELP], f"option of problem '{id}'")
    for name, value in given.items():
        check(value, Seed if name == "seed" else Option, f"option '{name}'")
    return dict(given)


def player_settings(role: Any, name: str, given: Any) -> dict[str, Any]:
    """Settings of a player; values are checked by the player itself."""
    if name == "auto":
        known = sorted({field for cls in discover(role).values() for field in settings(cls)})
    elif name in discover(role):
        known = list(settings(discover(role)[name]))
    else:
        raise InvalidInput(
            f"The {role} player must be discovered (see `resetfree list players`). Got {shown(name)} instead."
        )
    check(given, dict[str, Any], f"settings of '{name}'")
    check_names(given, known, f"setting of {role} player '{name}'")
    for key, value in given.items():
        check(value, bool | int | float | ShortText | None, f"setting '{key}'")
    return dict(given)


def _fields(owner: Any, defaults: dict[str, Any]) -> list[dict[str, Any]]:
    """Options of a problem or settings of a player: name, default, kind of value, and choices if these are few."""
    declared, result = declarations(owner), []
    for name, default in defaults.items():
        parts = plain_parts(declared.get(name, Any if default is None else type(default)))
        choices = [x for part in parts if typing.get_origin(part) is typing.Literal for x in typing.get_args(part)]
        plain = [part.__name__ for part in parts if part in (int, float, bool, str)]
        result.append(
            {
                "name": name,
                "default": None if default is dataclasses.MISSING else describe(default),
                "kind": plain[0] if plain else "choice" if choices else "other",
                "choices": choices or None,
                "optional": type(None) in parts,
            }
        )
    return result
