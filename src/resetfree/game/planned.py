"""Whether a player's constants depend on the planned number of episodes: then what is proved ends with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from resetfree.game.contract import Statement
from resetfree.problems.contract import Problem


def depends_on_length(player: Any, problem: Problem, planned: int, rounds: int) -> bool:
    """Whether a player that was made for `planned` episodes differs from one that is made for `rounds`.

    >>> import resetfree as rf
    >>> from resetfree.players.dual.online_gradient import ConstantStep, ProjectedGradient
    >>> grid = rf.make("grid-v0").problem()
    >>> [depends_on_length(player(B=2.0), grid, 600, 800) for player in (ConstantStep, ProjectedGradient)]
    [True, False]
    """
    if _fixed(player.statement(problem, planned)) != _fixed(player.statement(problem, rounds)):
        return True
    one, other = (list(_leaves(player.init(problem, episodes, 0))) for episodes in (planned, rounds))
    return len(one) != len(other) or not all(map(_same, one, other))


def _fixed(said: Statement) -> tuple[object, ...]:
    """What a player uses in every round, without the bounds on its regret, which grow with the rounds."""
    used = {name: value for name, value in said.constants.items() if "regret_bound" not in name}
    return used, said.covered, said.most_resets


def _same(one: Any, other: Any) -> bool:
    """Whether two arrays are equal; nan, for what a player does not use, is."""
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f" and other.dtype.kind == "f"))


def _leaves(value: Any) -> Iterator[Any]:
    """The numbers and arrays of a fresh state, saved or not."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name))
    elif isinstance(value, dict | list | tuple):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)
    elif isinstance(value, np.ndarray | np.generic | int | float):
        yield np.asarray(value)
