"""Checks of the arguments of `FiniteMDP`: each returns the array to keep, or raises InvalidInput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from resetfree.core import arguments
from resetfree.core.arguments import as_array, is_sequence
from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import NonNegative, Range, accepts, expect
from resetfree.problems.finite.transitions import ROW_SUM_TOLERANCE, Transitions, coarse, normalised

LONGEST = 100_000  # actions per episode: plans have a row for each
Horizon: TypeAlias = Annotated[int, Range(1, LONGEST)]


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
    shapes = (shape, (horizon, *shape))
    expect(array.shape in shapes, "'reward' of FiniteMDP", f"have shape {shapes[0]} or {shapes[1]}", array.shape)
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
    square = chain.ndim == 2 and chain.shape[0] == chain.shape[1] and len(chain) > 0 and n_states % len(chain) == 0
    must = f"be a square [m, m] with m a divisor of {n_states}"
    expect(square, "'contexts' of FiniteMDP", must, got=f"shape {chain.shape}")
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
        must = f"be a state in 0..{n_states - 1} or a distribution over the states"
        expect(0 <= array < n_states, f"'{what}' of FiniteMDP", must, given)
        array = np.eye(1, n_states, int(array))
    expect(array.size, f"'{what}' of FiniteMDP", "give some state positive probability", got="none")
    array = arguments.array(array if array.ndim == 2 else array[None], f"'{what}' of FiniteMDP")
    if array.shape != (n, width):
        shape = (width,) if n == 1 else (n, width)
        raise InvalidInput(f"The '{what}' of FiniteMDP must have shape {shape}. Got {np.shape(given)} instead.")
    array = _rows(array, given)
    for row in array:
        _check_distribution(row, what)
    inside = (array > 0) & reset.reshape(n if n > 1 else 1, width)
    got = f"positive probability on reset state {int(inside.argmax())}"
    expect(not inside.any(), f"'{what}' of FiniteMDP", "lie outside the reset set", got=got)
    array.setflags(write=False)
    return array


def check_features(given: ArrayLike | None, what: str, lead: tuple[int, ...]) -> Floats | None:
    """Known features [*lead, d], finite, or None."""
    if given is None:
        return None
    array = arguments.array(given, f"'{what}' of FiniteMDP")
    good = array.shape[:-1] == lead and array.ndim == len(lead) + 1 and np.isfinite(array).all()
    must = f"be finite numbers of shape {(*lead, 'd')}"
    expect(good, f"'{what}' of FiniteMDP", must, got=f"shape {array.shape}")
    array.setflags(write=False)
    return array


def check_names(names: Sequence[str] | None, what: str, n: int) -> tuple[str, ...]:
    """Check `n` names; by default they are the numbers from 0."""
    if names is None:
        return tuple(str(i) for i in range(n))
    expect(is_sequence(names), f"'{what}' of FiniteMDP", "be a list of names", names)
    expect(len(names) == n, f"'{what}' of FiniteMDP", f"have {n} entries", len(names))
    return tuple(str(x) for x in names)


def state_set(given: ArrayLike, what: str, n: int | None) -> Bools:
    """A set of states as Boolean [S]; n: S if it is known."""
    array = as_array(given, f"'{what}' of FiniteMDP")
    fits = array.ndim == 1 and len(array) > 0 and (n is None or len(array) == n) and array.dtype.kind in "biufO"
    good, got = fits and np.isin(array, (0, 1)).all(), f"{array.dtype} of shape {array.shape}"
    expect(good, f"'{what}' of FiniteMDP", "be Boolean, one entry per state", got=got)
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
    owner = f"'{what}' of FiniteMDP"
    expect((np.isfinite(row) & (row >= 0)).all(), owner, "hold probabilities", got="a negative or non-finite one")
    expect((row > 0).any(), owner, "give some state positive probability", got="none")
    expect(abs(row.sum() - 1) <= ROW_SUM_TOLERANCE, owner, "sum to one", got=f"{row.sum():.12g}")


def check_noise(noise: float | Literal["bernoulli"]) -> float | Literal["bernoulli"]:
    """Noise of rewards: "bernoulli", or a standard deviation."""
    good = accepts(noise, Literal["bernoulli"] | NonNegative)
    expect(good, "'noise' of FiniteMDP", 'be "bernoulli" or a standard deviation that is not negative', noise)
    return "bernoulli" if noise == "bernoulli" else float(noise)
