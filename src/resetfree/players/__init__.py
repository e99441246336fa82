"""Players, one class per file, found by looking into the folders: adding one is adding one file."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeAlias

from resetfree.core.errors import InvalidInput, UnknownName
from resetfree.core.settings import check_names
from resetfree.game.contract import DualPlayer, PrimalPlayer

Role: TypeAlias = Literal["primal", "dual"]
BASES: dict[Role, Any] = {"primal": PrimalPlayer, "dual": DualPlayer}


@cache
def discover(role: Role) -> dict[str, Any]:
    """Every player class of a role by name.

    >>> "linear-ucb" in discover("primal"), "projected-gradient" in discover("dual")
    (True, True)
    """
    found: dict[str, Any] = {}
    for name in _modules(role) + _modules("baselines"):
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if not inspect.isclass(cls):
                continue
            if issubclass(cls, BASES[role]) and cls.__module__ == module.__name__ and not inspect.isabstract(cls):
                found[cls.name] = cls  # type: ignore[attr-defined]
    return dict(sorted(found.items()))


def _modules(folder: str) -> list[str]:
    package = importlib.import_module(f"{__name__}.{folder}")
    return [info.name for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")]


def settings(cls: Any) -> dict[str, Any]:
    """Names and defaults of a player's hyperparameters."""
    return {f.name: f.default for f in dataclasses.fields(cls)}


def make_player(role: Role, player: str | Any, options: Mapping[str, Any] | None = None) -> Any:
    """A player by name with some hyperparameters set, or the player itself."""
    if not isinstance(player, str):
        if not isinstance(player, BASES[role]):
            raise InvalidInput(f"The '{role}' must be a name or a {role} player. Got {type(player).__name__} instead.")
        _check_names(role, type(player), options)
        return dataclasses.replace(player, **options) if options else player
    known = discover(role)
    if player not in known:
        raise UnknownName(f"{role} player", player, known)
    _check_names(role, known[player], options)
    return known[player](**(options or {}))


def _check_names(role: Role, cls: Any, options: Mapping[str, Any] | None) -> None:
    """Refuse a setting that the player does not have."""
    if options:
        allowed = settings(cls) if dataclasses.is_dataclass(cls) else {}
        check_names(options, allowed, f"setting of {role} player '{cls.name}'")
