"""Every method of the comparison: those that players declare, `auto` as in `learn`, and those of other packages."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from resetfree.core.arguments import shown
from resetfree.core.discovery import Registry, Unfit
from resetfree.core.errors import InvalidInput
from resetfree.game.auto import choose
from resetfree.players import BASES, discover, make_player
from resetfree.players.method import Method, Players, Setting, own_methods


def _auto(s: Setting) -> Players:
    if s.problem is None:
        raise InvalidInput("The method 'auto' needs a problem to choose players for. Got none instead.")
    found = choose(s.problem, discover("primal").own, bound_known=True)
    primal = make_player("primal", found.primal, found.settings.get("primal"))
    dual = make_player("dual", found.dual, found.settings.get("dual"))
    primal, dual = (replace(p, B=s.B) if getattr(p, "B", 0.0) is None else p for p in (primal, dual))
    return primal, dual, found.feedback


AUTO = Method(
    "auto", "ours", "What `learn` chooses by default, with its default widths.", _auto, rank=30, widths=(), pools=False
)


def _accept(name: str, found: Any) -> Method:
    if not isinstance(found, Method) or found.name != name:
        raise Unfit(f"must be a Method with the name '{name}', and is {shown(found)}")
    return found


METHODS: Registry[Method] = Registry("method", group="resetfree.methods", accept=_accept)  # of other packages


@cache
def methods() -> dict[str, Method]:
    """Every method by name: those of the players, `auto`, and those of other packages."""
    own = [method for role in BASES for cls in discover(role).values() for method in own_methods(cls)]
    lines = [AUTO, *own, *METHODS.values()]
    found: dict[str, Method] = {}
    for method in sorted(lines, key=lambda method: method.rank):
        if method.name in found:
            raise InvalidInput(f"A method's name must be its own. Got '{method.name}' twice.")
        found[method.name] = method
    return found
