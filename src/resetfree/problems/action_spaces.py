"""Action spaces: finitely many choices, or the points of a box.

Players and policies use numbers for actions: the index of a choice, or a vector [A] of a box. `native` converts them to
what the environment takes.

Legend: n choices; A numbers in a point of a box.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from resetfree.core import Floats, InvalidInput, as_array, expect, is_sequence, shown, whole
from resetfree.core.arguments import array


@dataclass(frozen=True, eq=False)
class Choices:
    """Actions 0 .. n - 1; `values[i]` is the environment's action for i (None: i itself).

    >>> push = Choices(3, [-1.0, 0.0, 1.0])
    >>> len(push), push[2], push.holds(2), push.holds(3)
    (3, 1.0, True, False)
    """

    n: int
    values: Sequence[Any] | NDArray[Any] | None = None
    n_uniforms: ClassVar[int] = 1  # random numbers for one action

    def __post_init__(self) -> None:
        whole(self.n, "'n' of Choices", 1)
        if self.values is not None:
            expect(is_sequence(self.values), "'values' of Choices", "be a list", self.values)
            expect(len(self.values) == self.n, "'values' of Choices", f"be {self.n}", len(self.values))

    def __str__(self) -> str:
        return f"one of 0..{self.n - 1}"

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, action: int) -> Any:
        return range(self.n)[action] if self.values is None else self.values[action]

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.n) if self.values is None else self.values)

    def holds(self, action: Any) -> bool:
        """Whether it is one of these actions."""
        return isinstance(action, int | np.integer) and bool(0 <= action < self.n)

    @cached_property
    def levels(self) -> tuple[int, ...] | None:
        """The number of levels of each entry, if the actions are all points of a grid, the last entry counted first.

        Such actions are ordered: action i is the point `np.unravel_index(i, levels)`. None for any other list.

        >>> Choices(4, [np.array([0, 0]), np.array([0, 1]), np.array([1, 0]), np.array([1, 1])]).levels
        (2, 2)
        """
        if self.values is None or not all(np.ndim(one) for one in self.values):
            return None
        try:
            table = np.array([np.ravel(one) for one in self.values], dtype=np.float64)
        except (TypeError, ValueError):  # actions of several parts, or of several sizes
            return None
        axes = [np.unique(column) for column in table.T]
        if prod(map(len, axes)) != self.n:
            return None
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(self.n, -1)
        return tuple(map(len, axes)) if np.array_equal(grid, table) else None

    def native(self, action: int) -> Any:
        """The action as the environment takes it."""
        return self[action]

    def stack(self, actions: list[Any]) -> NDArray[Any]:
        """The actions of an episode: int [n]."""
        return np.array(actions, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Box:
    """Actions are vectors [A] of float64, entry by entry between `low` and `high`, which are finite.

    low, high: numbers, or arrays of the shape and the type that the environment takes.

    >>> force = Box([-2.0, 0.0], [2.0, 1.0])
    >>> force.size, force.holds(np.array([0.5, 0.5])), force.holds(np.array([3.0, 0.5]))
    (2, True, False)
    >>> force.clip([3.0, -1.0])
    array([2., 0.])
    """

    low: NDArray[Any]
    high: NDArray[Any]
    n: ClassVar[None] = None  # not countable

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        try:
            least, most = (np.array(end) for end in np.broadcast_arrays(_floats(low), _floats(high)))
        except ValueError:
            least = most = np.zeros(0)
        if not least.size or not np.isfinite([least, most]).all() or not (least <= most).all():
            raise InvalidInput(
                "A Box must have finite bounds of one shape, the lower first. "
                f"Got {shown(low)} and {shown(high)} instead."
            )
        object.__setattr__(self, "low", least)
        object.__setattr__(self, "high", most.astype(least.dtype))

    def __str__(self) -> str:
        ends = {(a, b) for a, b in zip(self.low.ravel().tolist(), self.high.ravel().tolist(), strict=True)}
        within = f" in [{min(ends)[0]:g}, {min(ends)[1]:g}]" if len(ends) == 1 else " within a box"
        return f"{self.size} number{'' if self.size == 1 else 's'}{within}"

    @property
    def size(self) -> int:
        """The number of entries A of an action."""
        return int(self.low.size)

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """[A] each: the bounds of an action."""
        return self.low.ravel().astype(np.float64), self.high.ravel().astype(np.float64)

    @property
    def n_uniforms(self) -> int:
        """Random numbers for one action: one per entry."""
        return self.size

    def holds(self, action: Any) -> bool:
        """Whether it is a vector within the bounds."""
        good = isinstance(action, np.ndarray) and action.shape == (self.size,) and action.dtype.kind == "f"
        return good and bool(((self.low.ravel() <= action) & (action <= self.high.ravel())).all())

    def clip(self, action: ArrayLike) -> NDArray[np.float64]:
        """[A] the nearest action of the box."""
        vector = np.asarray(action, dtype=np.float64)
        return np.asarray(np.clip(vector, self.low.ravel(), self.high.ravel()), dtype=np.float64)

    def native(self, action: NDArray[np.float64]) -> NDArray[Any]:
        """The action as the environment takes it: the same numbers in its shape and type."""
        return np.asarray(action.reshape(self.low.shape).astype(self.low.dtype))

    def stack(self, actions: list[Any]) -> NDArray[Any]:
        """The actions of an episode: float [n, A]."""
        return np.array(actions, dtype=np.float64).reshape(-1, self.size)


class Levels(Box):
    """Ordered whole numbers as a box: the environment takes the nearest whole numbers.

    >>> gears = Levels(np.array([0, 1]), np.array([4, 3]))
    >>> gears.native(np.array([2.6, 1.2])), str(gears)
    (array([3, 1]), '2 numbers within a box, rounded')
    """

    def __init__(self, low: NDArray[Any], high: NDArray[Any]) -> None:
        super().__init__(low, high)
        object.__setattr__(self, "low", np.asarray(low))
        object.__setattr__(self, "high", np.asarray(high))

    def __str__(self) -> str:
        return f"{super().__str__()}, rounded"

    def native(self, action: NDArray[np.float64]) -> NDArray[Any]:
        """The nearest whole numbers, in the shape and type of the environment."""
        return np.asarray(np.rint(action).reshape(self.low.shape).astype(self.low.dtype))


def box_between(low: NDArray[Any], high: NDArray[Any]) -> Box:
    """A box with these bounds, rounded if they are of whole numbers: the other way round of its `low` and `high`."""
    return (Levels if low.dtype.kind in "biu" else Box)(low, high)


ActionSpace: TypeAlias = Choices | Box


def own_action(space: ActionSpace, native: Any, what: str) -> Any:
    """The action here for one of the environment: the nearest one; raises InvalidInput with `what` in its message.

    >>> own_action(Choices(3, [-1.0, 0.0, 1.0]), 0.7, "It"), own_action(Box([0.0], [1.0]), [1.5], "It")
    (2, array([1.]))
    """
    wrong = InvalidInput(f"{what} must give {space}, as the environment takes it. Got {shown(native)} instead.")
    given = np.asarray(native)
    if given.dtype.kind not in "biuf" or not np.isfinite(given).all():
        raise wrong
    if isinstance(space, Box):
        if given.size != space.size:
            raise wrong
        return space.clip(given.ravel())
    if space.values is None:
        if given.size != 1 or given.item() not in range(space.n):
            raise wrong
        return int(given.item())
    try:
        known = np.array([np.ravel(one) for one in space], dtype=np.float64)
    except (TypeError, ValueError):
        known = np.zeros((0, 0))
    if known.shape != (space.n, given.size):
        raise wrong
    away = np.abs(known - given.ravel()).sum(axis=1)
    if np.asarray(space[0]).dtype.kind in "biu" and away.min() > 0.0:
        raise wrong  # no grid of points, of which one is nearest
    return int(away.argmin())


def from_unit(unit: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The actions [..., A] between `low` and `high` of numbers in [-1, 1]."""
    return np.asarray(np.clip((low + high) / 2 + (high - low) / 2 * unit, low, high), dtype=np.float64)


def to_unit(action: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> NDArray[np.float64]:
    """The numbers in [-1, 1] of actions [..., A]; 0 where a box has no width.

    >>> to_unit(np.array([0.5, 3.0]), np.array([0.0, 3.0]), np.array([1.0, 3.0]))
    array([0., 0.])
    """
    return np.asarray((action - (low + high) / 2) / np.where(high > low, (high - low) / 2, 1.0), dtype=np.float64)


def _floats(given: ArrayLike) -> NDArray[Any]:
    """Bounds as an array, in their own type and shape if they are one of floats."""
    own = isinstance(given, np.ndarray) and given.dtype.kind == "f"
    return as_array(given, "bounds of a Box") if own else np.atleast_1d(array(given, "bounds of a Box"))


class PairFeatures(ABC):
    """Features of every action in states that are vectors; a problem that has them can be played by linear players.

    Rewards and transitions should be linear in them: r(s,a) = phi(s,a).omega, P(.|s,a) = sum_j phi_j(s,a) nu_j.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number d of features."""

    @property
    @abstractmethod
    def norm_bound(self) -> float:
        """An upper bound on |phi(s, a)| over all states and actions; proved widths are for at most 1."""

    @abstractmethod
    def __call__(self, states: Floats) -> Floats:
        """Phi [n, A, d] of states [n, D]."""
