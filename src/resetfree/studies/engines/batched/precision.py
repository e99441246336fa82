"""Float64 inside the engine, without a change to the user's JAX configuration.

Only NumPy arrays and opaque device values cross the boundary; nothing yields or calls back inside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def in_float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with 64-bit numbers in this thread, whatever the caller has set.

    >>> import jax.numpy as jnp
    >>> in_float64(lambda: str(jnp.ones(1).dtype))(), str(jnp.ones(1).dtype)
    ('float64', 'float32')
    """

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inside
