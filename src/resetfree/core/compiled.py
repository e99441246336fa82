"""The same bits everywhere: one decorator for every kernel, and one thread for linear algebra.

Kernels are compiled once, cached on disk, and keep the exact order of floating-point operations. LLVM asks Numba for
the machine code of a cached kernel by a callback, in which Python drops what the handler of a signal raises. LLVM then
goes on without the code, and the process ends at address 0. So signals wait meanwhile.

OpenBLAS, which NumPy and SciPy bring, splits products and factorisations among threads, and sums that are split
otherwise round otherwise. The wheels' libraries are set to one thread while a player works; with another BLAS
(conda's MKL, a distribution's own), set its number of threads to 1 in the environment to get the same bits everywhere.
"""

import ctypes
import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
import scipy
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


def jit_inlined(function: Callable[P, T]) -> Callable[P, T]:
    """A part of a kernel with a name of its own, which Numba copies into its callers: as quick as if written there."""
    found: Callable[P, T] = numba.njit(inline="always")(function)
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


F = TypeVar("F", bound=Callable[..., Any])

_lock = threading.Lock()
_inside = 0  # how many blocks are open, in all threads
_before: list[tuple[Callable[[int], Any], int]] = []  # what to call with which number of threads after the last


class OneThread:
    """A block in which linear algebra uses one thread, in all threads of this process; blocks may be nested.

    >>> with one_thread:
    ...     all(threads() == 1 for threads, _ in libraries())
    True
    """

    def __enter__(self) -> None:
        global _inside
        with _lock:
            _inside += 1
            if _inside == 1:
                for threads, use in libraries():
                    if (n := threads()) != 1:
                        _before.append((use, n))
                        use(1)

    def __exit__(self, *_: object) -> None:
        global _inside
        with _lock:
            _inside -= 1
            if _inside == 0 and _before:
                for use, n in _before:
                    use(n)
                _before.clear()


one_thread = OneThread()


def on_one_thread(method: F) -> F:
    """Wrap a method so that its linear algebra uses one thread."""

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with one_thread:
            return method(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


NAMES = [f"{prefix}openblas_{{}}_num_threads{suffix}" for prefix in ("scipy_", "") for suffix in ("64_", "")]


@cache
def libraries() -> list[tuple[Callable[[], int], Callable[[int], Any]]]:
    """How many threads each OpenBLAS of NumPy and SciPy uses, and how to change it."""
    found = []
    for package in (np, scipy):
        home = Path(str(package.__file__)).parent
        for folder in (home.parent / f"{home.name}.libs", home / ".dylibs", home / ".libs"):
            for file in sorted(folder.glob("*openblas*")):
                library = ctypes.CDLL(str(file))  # already loaded: the one in use
                for name in NAMES:
                    if hasattr(library, name.format("set")):
                        found.append((getattr(library, name.format("get")), getattr(library, name.format("set"))))
                        break
    return found
