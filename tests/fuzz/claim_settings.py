"""Settings of every registered player, read off its declarations: nothing here names a player or a setting."""

import dataclasses
import math
import typing
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Literal

import resetfree as rf
from resetfree.core.settings import accepts, declarations, plain_parts
from resetfree.players import discover

ROLES: tuple[Literal["primal", "dual"], ...] = ("primal", "dual")
FACTORS = (0.1, 0.5, 3.0, 40.0)  # of a default
EXTREMES = (1e-100, 1e-9, 1e9, 1e100)


def players(role: Literal["primal", "dual"]) -> dict[str, Any]:
    """The classes that are available here, by name."""
    return dict(discover(role))


def values(cls: Any, field: dataclasses.Field[Any], extreme: bool = False) -> list[Any]:
    """Values of a setting that its declaration accepts and that differ from its default."""
    declared = declarations(cls)[field.name]
    found: list[Any] = []
    for part in plain_parts(declared):
        if typing.get_origin(part) is Literal:
            found += typing.get_args(part)
        elif part is bool:
            found += [False, True]
        elif part in (int, float):
            about = (isinstance(field.default, int | float) and field.default) or 1
            scaled = [about * factor for factor in FACTORS] + (list(EXTREMES) if extreme else [])
            found += [math.ceil(one) if part is int else float(one) for one in scaled if part is float or one < 1e6]
    return [one for one in dict.fromkeys(found) if one != field.default and accepts(one, declared)]


def variants(cls: Any, at_once: int = 2) -> Iterator[dict[str, Any]]:
    """The defaults, every setting by itself, and every two of them: those that the player accepts."""
    fields = {field.name: values(cls, field) for field in dataclasses.fields(cls)}
    for n in range(at_once + 1):
        for names in combinations(fields, n):
            chosen: list[dict[str, Any]] = [{}]
            for name in names:
                chosen = [{**one, name: value} for one in chosen for value in fields[name]]
            yield from (one for one in chosen if made(cls, one) is not None)


def made(cls: Any, settings: dict[str, Any]) -> Any:
    """The player, or None for settings that exclude each other."""
    try:
        return cls(**settings)
    except rf.ResetFreeError:
        return None
