"""Checks of the arguments of `FiniteMDP`: each returns the array to keep, or raises InvalidInput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import arguments
from resetfree.core.arguments import as_array, is_sequence, real, shown
from resetfree.core.errors import InvalidInput
from resetfree.problems.finite.transitions import (
    ROW_SUM_TOLERANCE,
    Bools,
    Floats,
    Transitions,
    coarse,
    normalised,
)

LONGEST = 100_000  # actions per episode: plans have a row for each


def check_rows(t: Transitions, reset: Bools) -> None:
    """Raise InvalidInput if a row of a state outside the reset set is empty."""
    empty = (np.diff(t.indptr) == 0).reshape(t.n_layers, len(reset), t.n_actions) & ~reset[:, None]
    if empty.any():
        layer, s, a = np.argwhere(empty)[0]
        step = "" if t.stationary else f", step {layer + 1}"
        raise InvalidInput(
            f"Each row of the 'transition' of FiniteMDP must sum to one. Got 0 for state {s}, action {a}{step} instead."
        )


def check_reward(reward: ArrayLike, horizon: int, shape: tuple[int, int]) -> Floats:
    """Rewards [1 or H, S, A] in [0, 1]."""
    array = arguments.array(reward, "'reward' of FiniteMDP")
    if array.shape not in (shape, (horizon, *shape)):
        raise InvalidInput(
            f"The 'reward' of FiniteMDP must have shape {shape} or {(horizon, *shape)}. Got {array.shape} instead."
        )
    array = array[None] if array.ndim == 2 else array
    bad = ~((array >= 0) & (array <= 1))
    if bad.any():
        h, s, a = np.argwhere(bad)[0]
        step = "" if len(array) == 1 else f", step {h + 1}"
        raise InvalidInput(
            "The 'reward' of FiniteMDP must lie in [0, 1]. "
            f"Got {array[h, s, a]:.6g} for state {s}, action {a}{step} instead."
        )
    array.setflags(write=False)
    return array


def check_contexts(contexts: ArrayLike | None, n_states: int) -> Floats | None:
    """The chain of contexts [m, m], or None."""
    if contexts is None:
        return None
    chain = arguments.array(contexts, "'contexts' of FiniteMDP")
    if chain.ndim != 2 or chain.shape[0] != chain.shape[1] or len(chain) == 0 or n_states % len(chain):
        raise InvalidInput(
            f"The 'contexts' of FiniteMDP must be a square [m, m] with m a divisor of {n_states}. "
            f"Got shape {chain.shape} instead."
        )
    chain = _rows(chain, contexts)
    for row in chain:
        _check_distribution(row, "contexts")
    chain.setflags(write=False)
    return chain


def distributions(given: int | ArrayLike, what: str, reset: Bools, n: int = 1) -> Floats:
    """Distributions [n, S/n] without mass on reset states."""
    array = as_array(given, f"'{what}' of FiniteMDP")
    n_states = len(reset)
    width = n_states // n
    if array.ndim == 0 and array.dtype.kind in "iu" and n == 1:
        if not 0 <= array < n_states:
            raise InvalidInput(
                f"The '{what}' of FiniteMDP must be a state in 0..{n_states - 1} or a distribution over "
                f"the states. Got {given!r} instead."
            )
        array = np.eye(1, n_states, int(array))
    if array.size == 0:
        raise InvalidInput(f"The '{what}' of FiniteMDP must give some state positive probability. Got none instead.")
    array = arguments.array(array if array.ndim == 2 else array[None], f"'{what}' of FiniteMDP")
    if array.shape != (n, width):
        shape = (width,) if n == 1 else (n, width)
        raise InvalidInput(f"The '{what}' of FiniteMDP must have shape {shape}. Got {np.shape(given)} instead.")
    array = _rows(array, given)
    for row in array:
        _check_distribution(row, what)
    inside = (array > 0) & reset.reshape(n if n > 1 else 1, width)
    if inside.any():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must lie outside the reset set. "
            f"Got positive probability on reset state {int(np.flatnonzero(inside)[0])} instead."
        )
    array.setflags(write=False)
    return array


def check_features(given: ArrayLike | None, what: str, lead: tuple[int, ...]) -> Floats | None:
    """Known features [*lead, d], finite, or None."""
    if given is None:
        return None
    array = arguments.array(given, f"'{what}' of FiniteMDP")
    if array.shape[:-1] != lead or array.ndim != len(lead) + 1 or not np.isfinite(array).all():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must be finite numbers of shape {(*lead, 'd')}. "
            f"Got shape {array.shape} instead."
        )
    array.setflags(write=False)
    return array


def check_names(names: Sequence[str] | None, what: str, n: int) -> tuple[str, ...]:
    """Check `n` names; by default they are the numbers from 0."""
    if names is None:
        return tuple(str(i) for i in range(n))
    if not is_sequence(names):
        raise InvalidInput(f"The '{what}' of FiniteMDP must be a list of names. Got {shown(names)} instead.")
    if len(names) != n:
        raise InvalidInput(f"The '{what}' of FiniteMDP must have {n} entries. Got {len(names)} instead.")
    return tuple(str(x) for x in names)


def check_horizon(horizon: Any, name: str) -> None:
    """Raise InvalidInput unless it is a number of actions per episode.

    >>> check_horizon(10**9, "FiniteMDP")
    Traceback (most recent call last):
    resetfree.core.errors.InvalidInput: The 'horizon' of FiniteMDP must be a positive integer up to 100000.
    Got 1000000000 instead.
    """
    good = isinstance(horizon, int | np.integer) and not isinstance(horizon, bool)
    if not good or not 1 <= horizon <= LONGEST:
        upto = f" up to {LONGEST}" if good and horizon > 1 else ""
        raise InvalidInput(f"The 'horizon' of {name} must be a positive integer{upto}. Got {shown(horizon)} instead.")


def state_set(given: ArrayLike, what: str, n: int | None) -> Bools:
    """A set of states as Boolean [S]; n: S if it is known."""
    array = as_array(given, f"'{what}' of FiniteMDP")
    fits = array.ndim == 1 and len(array) > 0 and (n is None or len(array) == n) and array.dtype.kind in "biufO"
    if not fits or not np.isin(array, (0, 1)).all():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must be Boolean, one entry per state. "
            f"Got {array.dtype} of shape {array.shape} instead."
        )
    result = array.astype(np.bool_)
    result.setflags(write=False)
    return result


def _rows(array: Floats, given: object) -> Floats:
    """Distributions [n, width]; those given in single precision are normalised within its rounding."""
    if not coarse(given):
        return array
    n, width = array.shape
    return normalised(np.arange(n + 1) * width, array.ravel()).reshape(n, width)


def _check_distribution(row: Floats, what: str) -> None:
    if not (np.isfinite(row) & (row >= 0)).all():
        raise InvalidInput(
            f"The '{what}' of FiniteMDP must hold probabilities. Got a negative or non-finite one instead."
        )
    if not (row > 0).any():
        raise InvalidInput(f"The '{what}' of FiniteMDP must give some state positive probability. Got none instead.")
    if abs(row.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InvalidInput(f"The '{what}' of FiniteMDP must sum to one. Got {row.sum():.12g} instead.")


def check_noise(noise: float | Literal["bernoulli"]) -> float | Literal["bernoulli"]:
    """Noise of rewards: "bernoulli", or a standard deviation."""
    if isinstance(noise, str) and noise == "bernoulli":
        return "bernoulli"
    try:
        return real(noise, "noise")
    except InvalidInput:
        raise InvalidInput(
            "The 'noise' of FiniteMDP must be \"bernoulli\" or a standard deviation that is not negative. "
            f"Got {shown(noise)} instead."
        ) from None
