"""Markov policies of finite problems: arrays [H, S, A] of probabilities, or [H, S] of actions; H may be left out.

Such an array is accepted wherever a policy is; a `TabularPolicy` wraps it. If it would be too large, a `LazyPolicy`
computes only the states that are needed.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Floats, InvalidInput, as_array
from resetfree.problems.contract import ChoicePolicy, State
from resetfree.problems.formula import Formula

LARGEST_TABLE = 2_000_000_000  # bytes of a whole policy as one array


class Sizes(Protocol):
    """The sizes that a policy must fit: a `FiniteMDP`, or another object that has them."""

    name: str
    horizon: int
    n_states: int
    n_actions: int


@dataclass
class TabularPolicy(ChoicePolicy):
    """pi_h(a|s) as an array; one layer is used at all steps.

    >>> TabularPolicy(np.array([[[0.5, 0.5], [0.0, 1.0]]])).act(3, 1, 0.2)
    1
    """

    kind = "table"
    axes: ClassVar[dict[str, str]] = {"probabilities": "LSA"}
    probabilities: Floats  # [1, S, A] or [H, S, A]

    def __call__(self, h: int, s: State) -> Floats:
        """[A] probabilities."""
        return np.asarray(self.probabilities[(h - 1) % len(self.probabilities), s])

    @property
    def stationary(self) -> bool:
        """Whether there is one layer."""
        return len(self.probabilities) == 1

    def modal(self) -> TabularPolicy:
        """The policy of the most probable actions, the first among ties."""
        rows = self.probabilities
        return TabularPolicy(np.eye(rows.shape[2])[rows.argmax(axis=2)])

    def formula(self, state: Formula) -> Formula:
        """The mode, for export."""
        return state.lookup(self.probabilities.argmax(axis=2))

    def check_loaded(self) -> None:
        """Raise InvalidInput unless every row is a distribution."""
        rows = self.probabilities
        if not ((rows >= 0).all() and (np.abs(rows.sum(axis=-1) - 1.0) <= 1e-9).all()):
            raise InvalidInput("Each row of a policy must be a distribution. Got another row instead.")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """[S, A] or [H, S, A], for NumPy."""
        rows = self.probabilities[0] if self.stationary else self.probabilities
        return rows if dtype is None else rows.astype(dtype)


class LazyPolicy(ChoicePolicy):
    """A Markov policy computed on demand; as an array it is [H, S, A], unless that is too large."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.shape = shape  # H, S, A

    def __call__(self, h: int, s: State) -> Floats:
        """[A] probabilities."""
        return np.asarray(self.rows(h - 1, np.array([s]))[0])

    @abstractmethod
    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        """[n, A] the distributions over actions at step h (from 0) in some states."""

    def dense(self) -> Floats:
        """The whole array [H, S, A]; raises InvalidInput if it is too large."""
        size = 8 * self.shape[0] * self.shape[1] * self.shape[2]
        if size > LARGEST_TABLE:
            raise InvalidInput(
                f"A policy as one array must take at most {LARGEST_TABLE / 1e9:.0f} GB. Got {size / 1e9:.1f} instead."
            )
        table, everywhere = np.empty(self.shape), np.arange(self.shape[1])
        for h in range(self.shape[0] - 1, -1, -1):
            table[h] = self.rows(h, everywhere)
        return table

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The whole array, for NumPy."""
        return self.dense() if dtype is None else self.dense().astype(dtype)


def as_policy(policy: ArrayLike | ChoicePolicy, mdp: Sizes) -> Floats:
    """Any accepted form as probabilities [H, S, A].

    Paper: policy pi = {pi_h(a|s)}, Markovian.

    policy: int [S] or [H, S] (an action each), or float [S, A] or [H, S, A] (a distribution each), or a `ChoicePolicy`.
    """
    shape = (mdp.horizon, mdp.n_states, mdp.n_actions)
    array = policy if isinstance(policy, np.ndarray) else _tabulated(policy, shape, f"policy of '{mdp.name}'")
    if array.dtype == np.float64 and array.shape == shape:
        return array  # a player's own plan: its rows are checked by `players.testing`
    return np.ascontiguousarray(np.broadcast_to(_layers(array, shape, f"policy of '{mdp.name}'"), shape))


def table(policy: Any, horizon: int, n_states: int, n_actions: int) -> TabularPolicy:
    """The probabilities of a policy in any form that `as_policy` takes; equal layers become one.

    >>> table(np.array([[0, 1], [0, 1]]), 2, 2, 2).probabilities.tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    shape = (horizon, n_states, n_actions)
    rows = _layers(_tabulated(policy, shape, "policy"), shape, "policy")
    found = TabularPolicy(rows[:1] if (rows == rows[0]).all() else rows)
    found.check_loaded()
    return found


def _tabulated(policy: Any, shape: tuple[int, int, int], what: str) -> NDArray[Any]:
    """A policy as an array; one without `__array__` is called at every step and state of `shape` (H, S, A)."""
    if isinstance(policy, ChoicePolicy) and not hasattr(policy, "__array__"):
        return np.array([[policy(h + 1, s) for s in range(shape[1])] for h in range(shape[0])])
    return as_array(policy, what)


def _layers(array: NDArray[Any], shape: tuple[int, int, int], what: str) -> Floats:
    """Actions or probabilities as new probabilities [1, S, A] or [H, S, A]; raises InvalidInput."""
    if array.dtype.kind in "iu" and array.shape in (shape[:2], shape[1:2]):
        if array.size and (array.min() < 0 or array.max() >= shape[2]):
            raise InvalidInput(
                f"A policy's actions must lie in 0..{shape[2] - 1}. Got {array.min()}..{array.max()} instead."
            )
        array = np.eye(shape[2])[array]
    if array.dtype.kind != "f" or array.shape not in (shape, shape[1:]):
        raise InvalidInput(
            f"A {what} must be integers of shape {shape[1:2]} or {shape[:2]}, or probabilities of shape "
            f"{shape[1:]} or {shape}. Got {array.dtype} of shape {array.shape} instead."
        )
    return np.array(array if array.ndim == 3 else array[None], dtype=np.float64)


def check_policy(policy: ArrayLike | ChoicePolicy, mdp: Sizes) -> Floats:
    """`as_policy`; raises InvalidInput unless every row is a distribution."""
    array = as_policy(policy, mdp)
    off = ~((array >= 0).all(axis=2) & (np.abs(array.sum(axis=2) - 1) <= 1e-9))
    if off.any():
        h, s = np.argwhere(off)[0]
        raise InvalidInput(
            "Each row of a policy must be a distribution. "
            f"Got {array[h, s].tolist()} at step {h + 1}, state {s}, instead."
        )
    return array


def uniform(mdp: Sizes) -> Floats:
    """The uniform policy [H, S, A]."""
    return np.full((mdp.horizon, mdp.n_states, mdp.n_actions), 1.0 / mdp.n_actions)


def random_policy(mdp: Sizes, rng: np.random.Generator, concentration: float = 0.5) -> NDArray[np.float64]:
    """A random policy [H, S, A] with independent Dirichlet rows, for tests."""
    return rng.dirichlet(np.full(mdp.n_actions, concentration), size=(mdp.horizon, mdp.n_states))
