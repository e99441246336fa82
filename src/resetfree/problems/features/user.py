"""A user's own features: any function of the state vector; without one, the state itself and a constant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput, imported
from resetfree.core.settings import Range, expect
from resetfree.problems.features import FeatureMap, Features
from resetfree.problems.features.scaling import affordable, fit_interval, seen

Function: TypeAlias = Callable[[Floats], ArrayLike]
ROUNDING = 1e-9  # by which a norm may exceed its bound


@dataclass
class Given(Features):
    """psi(s) = f(s), or (s, 1) without an f; a run saves the dimension and the bound, not the code."""

    function: Function | None = field(metadata={"saved": False})
    batched: bool = field(metadata={"fixed": True})
    d: int = field(metadata={"fixed": True})
    bound: Annotated[float, Range(above=0, most=inf)] = field(metadata={"fixed": True})
    not_negative: bool = field(metadata={"fixed": True})

    @property
    def dimension(self) -> int:
        """The number of entries that the function returned."""
        return self.d

    @property
    def norm_bound(self) -> float:
        """The user's `bound`."""
        return self.bound

    @property
    def non_negative(self) -> bool:
        """The user's `non_negative`."""
        return self.not_negative

    def __call__(self, states: Floats) -> Floats:
        """Psi [n, d]; raises InvalidInput if it is not finite, exceeds the bound or is negative against its setting."""
        states = np.asarray(states, dtype=np.float64)
        if self.function is None:
            psi = np.concatenate([states, np.ones((len(states), 1))], axis=1)
        elif self.batched:
            psi = np.array(self.function(states), dtype=np.float64)
        else:
            psi = np.array([np.asarray(self.function(s), dtype=np.float64).ravel() for s in states], dtype=np.float64)
            psi = psi.reshape(len(states), -1) if len(states) else np.empty((0, self.dimension))
        # Called at every step of an episode: messages are made only if something is wrong.
        if psi.shape != (len(states), self.dimension) or not np.isfinite(psi).all():
            got = f"shape {psi.shape} for {len(states)} states"
            expect(False, "'function' of user", f"give {self.dimension} finite numbers per state", got=got)
        if self.norm_bound < inf:
            largest = float(np.sqrt((psi**2).sum(axis=1)).max(initial=0.0))
            if largest > self.norm_bound * (1.0 + ROUNDING):
                got = f"{self.norm_bound:g} and a norm of {largest:g}"
                expect(False, "'bound' of user", "be at least every |psi(s)|", got=got)
        if self.non_negative and (psi < 0).any():
            expect(False, "'function' of user", "not be negative with 'non_negative'", got="a negative number")
        return psi


@dataclass(frozen=True)
class UserFeatures(FeatureMap):
    """psi(s) = function(s); without a function psi(s) = (s, 1).

    The run file has the name of the function and not its code: to continue a run it must be given again.

    function: of a state [D], returns d numbers; or "module:name" of one.  bound: on |psi(s)|, inf if it is unknown; a
    state that exceeds it raises.  batched: whether the function takes states [n, D] and returns [n, d]; its rows must
    not depend on each other.  non_negative: whether psi(s) >= 0 for every state.

    >>> psi = UserFeatures(lambda s: (s[0] * s[1], 1.0)).fit(np.empty((0, 2)), np.zeros(2), np.ones(2), 0)
    >>> psi(np.array([[2.0, 3.0]])).tolist(), psi.norm_bound
    ([[6.0, 1.0]], inf)
    """

    name: ClassVar[str] = "user"
    function: Function | str | None = None
    bound: Annotated[float, Range(above=0, most=inf)] = inf
    batched: bool = False
    non_negative: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.function, str):
            found_function(self.function)

    def fit(self, states: Floats, low: Floats, high: Floats, seed: int) -> Given:
        """Calls the function on a state seen, or on the middle of the bounds, to find its dimension."""
        states, low, high = seen(states, low, high, self.name)
        function = found_function(self.function) if isinstance(self.function, str) else self.function
        d = len(low) + 1
        if function is not None:
            at = states[0] if len(states) else fit_interval(states, low, high, -1.0).centre
            d = np.asarray(function(at[None] if self.batched else at), dtype=np.float64).size
        expect(d >= 1, "'function' of user", "give at least one number", got="none")
        affordable(d, len(low), self.name, "give fewer numbers")
        return Given(function, self.batched, d, float(self.bound), self.non_negative)


def found_function(name: str) -> Function:
    """Import `module:name`; raises InvalidInput if it is not a function.

    >>> found_function("math:fsum")([1.0, 2.0])
    3.0
    """
    what = "The 'function' of user must be module:name of a function."
    found: Function = imported(name, what)
    if not callable(found):
        raise InvalidInput(f"{what} Got {name!r} instead.")
    return found
