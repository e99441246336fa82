"""Policies as formulas of array operations, from which C and ONNX are written; those of tanh(weights.states) are here.

Here too: tanh(weight.s + bias + top.tanh(hidden.s + shift)) in a box, or rounded to the nearest of some actions; and a
policy that takes every action equally likely.

Legend: n numbers in, m out; S states, L layers (1, or one per step). D numbers in a state; F hidden units; A numbers in
an action of a box, or actions in a list, of N numbers each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, require
from resetfree.problems.action_spaces import Box, Choices, from_unit, to_unit
from resetfree.problems.contract import ChoicePolicy, Policy, State

WEIGHTS = ("weight", "bias", "hidden", "shift", "top")
SEPARATE = 16  # actions without an order up to which each has a direction of its own
NONE: Floats = np.empty(0)  # stands for no hidden units, whatever the sizes


@dataclass
class TanhPolicy(Policy):
    """The action middle + half tanh(weight.s + bias + top.tanh(hidden.s + shift)) of a box.

    Without weights, any one in `reach` of the middle. Without hidden units, it is linear but for the tanh.
    """

    kind = "TanhPolicy"
    axes: ClassVar[dict[str, str]] = {
        **{"weight": "AD", "bias": "A", "low": "A", "high": "A"},
        **{"hidden": "FD", "shift": "F", "top": "AF"},
    }
    stationary = True
    weight: Floats  # [A, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [A]
    low: Floats = field(metadata={"fixed": True})  # [A] the box
    high: Floats = field(metadata={"fixed": True})  # [A]
    reach: float = 1.0  # part of the box
    hidden: Floats = field(default_factory=lambda: NONE, metadata={"grows": (0,)})  # [F, D]
    shift: Floats = field(default_factory=lambda: NONE, metadata={"grows": (0,)})  # [F]
    top: Floats = field(default_factory=lambda: NONE, metadata={"grows": (1,)})  # [A, F]

    def __post_init__(self) -> None:
        if self.hidden is NONE:
            n_actions, size = self.weight.shape
            self.hidden, self.shift, self.top = np.zeros((0, size)), np.zeros(0), np.zeros((n_actions, 0))

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has a box."""
        require((self.low <= self.high).all(), "policy must have a box of actions")
        require(0.0 <= self.reach <= 1.0, "policy must reach a part of its box")
        n_units = {len(self.hidden), len(self.shift), self.top.shape[1]}
        require(len(n_units) == 1, "policy must have as many hidden units everywhere")

    def same_as(self, other: TanhPolicy | TanhChoice) -> bool:
        """Whether it acts like another one in the same box."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in WEIGHTS)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the action, the same at every step."""
        if not self.weight.any():
            return from_unit(self.reach * (2.0 * np.asarray(u) - 1.0), self.low, self.high)
        return from_unit(_pushed(self, s), self.low, self.high)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export; without weights the middle of the box."""
        middle = replace(self, bias=np.zeros_like(self.bias), top=np.zeros_like(self.top))
        return _formula(self if self.weight.any() else middle, state).in_box(self.low, self.high)

    def unit(self, actions: NDArray[Any]) -> Floats:
        """[n, A] actions on the scale of the box, [-1, 1]."""
        return to_unit(actions, self.low, self.high)


@dataclass
class TanhChoice(ChoicePolicy):
    """The action whose row of a table is nearest to tanh(weight.s + bias + top.tanh(hidden.s + shift)).

    Without weights, every action is equally likely.
    """

    kind = "TanhChoice"
    axes: ClassVar[dict[str, str]] = {
        **{"weight": "ND", "bias": "N", "table": "AN"},
        **{"hidden": "FD", "shift": "F", "top": "NF"},
    }
    stationary = True
    weight: Floats  # [N, D]
    bias: Floats = field(metadata={"saved_as": "offset"})  # [N]
    table: Floats = field(metadata={"fixed": True})  # [A, N] each action in [-1, 1]
    hidden: Floats = field(metadata={"grows": (0,)})  # [F, D]
    shift: Floats = field(metadata={"grows": (0,)})  # [F]
    top: Floats = field(metadata={"grows": (1,)})  # [N, F]

    def check_loaded(self) -> None:
        """Raise InvalidInput unless it has actions, and as many hidden units everywhere."""
        require(len(self.table) > 0, "policy must have actions")
        n_units = {len(self.hidden), len(self.shift), self.top.shape[1]}
        require(len(n_units) == 1, "policy must have as many hidden units everywhere")

    def same_as(self, other: TanhPolicy | TanhChoice) -> bool:
        """Whether it acts like another one."""
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in WEIGHTS)

    def __call__(self, h: int, s: State) -> Floats:
        """[A] probabilities, the same at every step."""
        n = len(self.table)
        if not self.weight.any():
            return np.full(n, 1.0 / n)
        return np.asarray(np.arange(n) == nearest_row(_pushed(self, s)[None], self.table)[0], dtype=np.float64)

    def formula(self, state: Formula) -> Formula:
        """The mode, for export; without weights the first action."""
        if not self.weight.any():
            return state.affine(np.zeros((self.weight.shape[1], len(self.table))), np.zeros(len(self.table))).argmax()
        return _formula(self, state).affine(2.0 * self.table.T, -(self.table**2).sum(axis=1)).argmax()

    def unit(self, actions: NDArray[Any]) -> Floats:
        """[n, N] the rows of actions."""
        return np.asarray(self.table[actions.astype(np.int64)])


def _pushed(policy: TanhPolicy | TanhChoice, s: State) -> Floats:
    x = np.atleast_1d(np.asarray(s, dtype=np.float64))
    pushed = policy.weight @ x + policy.bias
    if len(policy.hidden):
        pushed = pushed + policy.top @ np.tanh(policy.hidden @ x + policy.shift)
    return np.asarray(np.tanh(pushed))


def _formula(policy: TanhPolicy | TanhChoice, state: Formula) -> Formula:
    """What `_pushed` computes."""
    pushed = state.affine(policy.weight.T, policy.bias)
    if len(policy.hidden):
        inner = state.affine(policy.hidden.T, policy.shift).tanh()
        pushed = pushed.add(inner.affine(policy.top.T, np.zeros_like(policy.bias)))
    return pushed.tanh()


def nearest_row(pushed: Floats, table: Floats) -> NDArray[np.int64]:
    """[n] the row of a table [A, N] that is nearest to each of pushed [n, N]; the first among ties."""
    return np.asarray((2.0 * pushed @ table.T - (table**2).sum(axis=1)).argmax(axis=1))


def action_table(actions: Choices) -> Floats:
    """[A, N] actions that are vectors of levels as points of a box; a row of its own direction for each other one.

    >>> action_table(Choices(2)).tolist(), action_table(Choices(3, [-1.0, 0.0, 4.0])).tolist()
    ([[-1.0], [1.0]], [[-1.0], [-0.6], [1.0]])
    >>> action_table(Choices(4, [np.array(way) for way in ((0, 0), (0, 1), (1, 0), (1, 1))])).tolist()
    [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    >>> action_table(Choices(3)).tolist()
    [[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    """
    values = list(actions)
    counted = all(isinstance(one, int | np.integer) for one in values)
    try:
        levels = np.array([np.ravel(one) for one in values], dtype=np.float64)
    except (TypeError, ValueError):
        levels, counted = np.arange(actions.n, dtype=np.float64)[:, None], True
    if counted and 2 < actions.n <= SEPARATE:
        return 2.0 * np.eye(actions.n) - 1.0
    low, high = levels.min(axis=0), levels.max(axis=0)
    moves = high > low
    return np.asarray(to_unit(levels, low, high)[:, moves]) if moves.any() else np.zeros((actions.n, 1))


def no_choice(actions: Choices, size: int) -> TanhChoice:
    """Every action equally likely."""
    table = action_table(actions)
    n = table.shape[1]
    return TanhChoice(
        weight=np.zeros((n, size)),
        bias=np.zeros(n),
        table=table,
        hidden=np.zeros((0, size)),
        shift=np.zeros(0),
        top=np.zeros((n, 0)),
    )


def no_policy(box: Box, size: int, reach: float = 1.0) -> TanhPolicy:
    """Every action of the box equally likely, or of the part of it around its middle."""
    return TanhPolicy(np.zeros((box.size, size)), np.zeros(box.size), *box.ends, reach)


Operation: TypeAlias = Literal["observation", "affine", "scale", "tanh", "relu", "clip", "add", "argmax", "lookup"]


@dataclass(frozen=True, eq=False)
class Formula:
    """A vector of `size` numbers: an operation on those of other formulas, with arrays of its own."""

    operation: Operation
    size: int
    of: tuple[Formula, ...] = ()
    arrays: tuple[NDArray[Any], ...] = field(default=(), repr=False)

    def affine(self, weight: Floats, bias: Floats) -> Formula:
        """X W + b, with W [n, m] and b [m]."""
        return Formula("affine", len(bias), (self,), (weight, bias))

    def scale(self, factor: Floats, shift: Floats) -> Formula:
        """Factor x + shift, entry by entry."""
        return Formula("scale", self.size, (self,), (factor, shift))

    def tanh(self) -> Formula:
        """The hyperbolic tangent of each entry."""
        return Formula("tanh", self.size, (self,))

    def relu(self) -> Formula:
        """Max(x, 0) of each entry."""
        return Formula("relu", self.size, (self,))

    def clip(self, low: Floats | float, high: Floats | float) -> Formula:
        """The nearest vector between two."""
        ends = (np.array(np.broadcast_to(end, self.size), dtype=np.float64) for end in (low, high))
        return Formula("clip", self.size, (self,), tuple(ends))

    def add(self, other: Formula) -> Formula:
        """The sum of two vectors."""
        return Formula("add", self.size, (self, other))

    def argmax(self) -> Formula:
        """The place of the largest entry, the first one among ties."""
        return Formula("argmax", 1, (self,))

    def lookup(self, table: NDArray[np.int64]) -> Formula:
        """The entry of table [L, S] for a state that is a number, at the step of the episode."""
        return Formula("lookup", 1, (self,), (table,))

    def layers(self, layers: Sequence[tuple[Floats, Floats]], smooth: bool) -> Formula:
        """A network: affine layers, with tanh or rectified units between them."""
        found = self
        for i, (weight, bias) in enumerate(layers):
            if i:
                found = found.tanh() if smooth else found.relu()
            found = found.affine(weight, bias)
        return found

    def in_box(self, low: Floats, high: Floats) -> Formula:
        """The actions between `low` and `high` of numbers in [-1, 1]: `action_spaces.from_unit`."""
        return self.scale((high - low) / 2, (low + high) / 2).clip(low, high)

    def in_order(self) -> list[Formula]:
        """It and all that it is made of, each after what it needs.

        >>> x = Formula("observation", 2)
        >>> [one.operation for one in x.tanh().add(x).in_order()]
        ['observation', 'tanh', 'add']
        """
        found: list[Formula] = []
        for one in self.of:
            found += [part for part in one.in_order() if part not in found]
        return [*found, self]


@runtime_checkable
class HasFormula(Protocol):
    """A policy whose mode is a formula of the state: an action [A] of a box, or the number [1] of a choice."""

    def formula(self, state: Formula) -> Formula:
        """The mode in a state: the numbers of an observation, or the number of a counted one."""
