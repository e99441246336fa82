"""One decorator for every kernel: compiled once, cached on disk, exact floating-point order kept.

LLVM asks Numba for the machine code of a cached kernel by a callback, in which Python drops what the handler of a
signal raises. LLVM then goes on without the code, and the process ends at address 0. So signals wait meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.registry import cpu_target

from resetfree.core.interrupts import deferred

P = ParamSpec("P")
T = TypeVar("T")
CALLS_BACK = ("finalize_object", "get_function_address", "get_global_value_address")  # of LLVM's engine


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Numba's `njit` that keeps the function's type; no fast-math, so that comparisons are exact."""
    compiled: Any = numba.njit(cache=True, nogil=True)(function)
    compile_or_load = compiled.compile

    def compile_unharmed(signature: Any) -> Any:
        _have_signals_wait()
        return compile_or_load(signature)

    compiled.compile = compile_unharmed
    found: Callable[P, T] = compiled
    return found


@cache
def _have_signals_wait() -> None:
    """While LLVM may call back: once for its engine, which all kernels share, and not before the first of them."""
    engine = cpu_target.target_context.codegen()._engine
    for name in CALLS_BACK:
        setattr(engine, name, _deferring(getattr(engine, name)))


def _deferring(call: Callable[P, T]) -> Callable[P, T]:
    @wraps(call)
    def deferring(*args: P.args, **kwargs: P.kwargs) -> T:
        with deferred():
            return call(*args, **kwargs)

    return deferring
