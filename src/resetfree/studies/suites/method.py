"""A method of the comparison: two players and what the dual is told, made for a problem, a width and pooling or not."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeAlias

from resetfree.core.errors import InvalidInput
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.problems.contract import Problem
from resetfree.problems.finite.mdp import FiniteMDP

Kind: TypeAlias = Literal["ours", "paper", "baseline", "oracle"]
WIDTHS = (0.02, 0.05, 0.1, 0.2)  # every method with a width gets this sweep


@dataclass(frozen=True)
class Setting:
    """What a method may use when it is made for a problem."""

    B: float  # the bound on the multipliers that the paper's algorithm must know too
    width: float  # scale of the bonuses, from WIDTHS; 0 where a method has none
    pooled: bool  # one set of data for all steps; only where the dynamics are stationary
    problem: Problem | None = None  # what a learner sees, for methods that choose by it


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    build: makes the players for a setting, and says what the dual is told (see `game.FEEDBACK`).
    widths: the sweep its width is chosen from, on other instances than those reported; () if it has no width.
    pools: whether it has a pooled version.
    guaranteed: whether a theorem covers its resets or its regret with the constants used here (else tuned).
    inapplicable: why it cannot run on a problem, or None.
    """

    name: str
    kind: Kind
    summary: str
    build: Callable[[Setting], tuple[PrimalPlayer[Any], DualPlayer[Any], str]]
    widths: tuple[float, ...] = WIDTHS
    pools: bool = True
    guaranteed: bool = False
    inapplicable: Callable[[FiniteMDP], str | None] = lambda mdp: None


@cache
def methods() -> dict[str, Method]:
    """Every method by name, found in `experiments/methods`."""
    package = importlib.import_module("resetfree.studies.suites.methods")
    found: dict[str, Method] = {}
    for info in pkgutil.iter_modules(package.__path__):
        for method in importlib.import_module(f"{package.__name__}.{info.name}").METHODS:
            if method.name in found:
                raise InvalidInput(f"A method's name must be its own. Got '{method.name}' twice.")
            found[method.name] = method
    return found
