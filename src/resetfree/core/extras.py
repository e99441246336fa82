"""Libraries of an extra, imported where they are first used, so that modules that need one can be listed without it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
NETWORKS = 'pip install "resetfree[neural]"'


class Deferred:
    """A module that is imported when one of its names is used.

    >>> Deferred("math").sqrt(4.0)
    2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


def jitted(*static: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`jax.jit` as a decorator that leaves the import of JAX to the first call.

    static: names of arguments that are constants of the compiled program.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.cache
        def program() -> Any:
            return importlib.import_module("jax").jit(function, static_argnames=static)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            found: T = program()(*args, **kwargs)
            return found

        return call

    return decorate
