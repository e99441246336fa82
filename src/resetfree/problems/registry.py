"""Registered problems: a decorator in one file per problem, found by looking into the folder, never listed by hand."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from resetfree.core.arguments import words
from resetfree.core.errors import InvalidInput, UnknownName
from resetfree.core.settings import check_options, parameters

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ProblemSpec:
    """A registered problem: its versioned id, what it shows in one sentence, and how it is made."""

    id: str
    summary: str
    factory: Callable[..., Any]
    size: Callable[..., int] | None = None  # of its options

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of its options."""
        return parameters(self.factory)

    def entries(self, options: Mapping[str, Any]) -> int:
        """About how much is worked through to make and to solve it, told before anything is made.

        H S A, and sixteen for each transition that is not zero; 0 where no option changes it.

        >>> problems()["pits-v0"].entries({"n": 3000})
        216576000000
        """
        if self.size is None:
            return 0
        given = {name: options.get(name, default) for name, default in self.options.items()}
        check_options(self.factory, given, f"problem '{self.id}'")
        return self.size(**given)


_FOUND: dict[str, ProblemSpec] = {}


def register(id: str, summary: str, size: Callable[..., int] | None = None) -> Callable[[F], F]:
    """Register a factory whose keyword arguments, all with defaults, are the problem's options.

    size: see `ProblemSpec.entries`; needed where an option is a whole number or text that the size depends on.
    """

    def add(factory: F) -> F:
        if id in _FOUND and _FOUND[id].factory.__module__ != factory.__module__:
            raise InvalidInput(f"A problem's id must be its own. Got '{id}', which is registered already.")
        _FOUND[id] = ProblemSpec(id, summary, factory, size)
        return factory

    return add


@cache
def _discover() -> None:
    package = importlib.import_module("resetfree.problems.zoo")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def problems() -> dict[str, ProblemSpec]:
    """Every registered problem by id.

    >>> "grid-v0" in problems()
    True
    """
    _discover()
    return dict(sorted(_FOUND.items()))


def make(id: str, **options: Any) -> Any:
    """Make a registered problem.

    >>> make("pits-v0", n=7, slip=0.1).n_states
    49
    >>> make("grid-v1")
    Traceback (most recent call last):
    resetfree.core.errors.UnknownName: There is no problem 'grid-v1'. Did you mean 'grid-v0'?
    """
    known = problems()
    if words(id, "id of a problem") not in known:
        raise UnknownName("problem", id, known)
    spec = known[id]
    check_options(spec.factory, options, f"problem '{id}'")
    return spec.factory(**options)
