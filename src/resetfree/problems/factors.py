"""Named coordinates of finite states: what a rule about danger may speak of.

Legend: S states, F factors. A row of -1 is a state that has none: a reset state, or one that was not observed yet.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput

MOST = 10_000_000  # values of a factor that are distinguished
NONE = -1  # in the rows of states without factors


@dataclass(frozen=True)
class Factor:
    """One coordinate of a state.

    kind: factors of one kind hold the same sort of thing, and can be equal; "" for a kind of its own.
    ordered: whether "at most" means something.
    words: what to call its values, by number; default: the numbers.
    """

    name: str
    kind: str = ""
    ordered: bool = True
    words: tuple[str, ...] = ()

    def word(self, value: int) -> str:
        """What to call a value.

        >>> Factor("passenger", words=("red", "in taxi")).word(1), Factor("row").word(3)
        ('in taxi', '3')
        """
        return self.words[value] if 0 <= value < len(self.words) else str(value)


@dataclass(eq=False)
class Factors:
    """The factors of all states. Rows may be filled in while a problem is played, never changed."""

    parts: tuple[Factor, ...]
    values: NDArray[np.int64]  # [S, F], not negative; -1 throughout a row without factors
    actions: tuple[str, ...] = ()  # names of actions

    def action(self, a: int) -> str:
        """What to call an action."""
        return self.actions[a] if a < len(self.actions) else f"action {a}"

    def text(self) -> str:
        """The names of factors and actions, without the values."""
        return json.dumps({"parts": [[*vars(part).values()] for part in self.parts], "actions": self.actions})

    @classmethod
    def from_text(cls, text: str, values: NDArray[np.int64], n_states: int) -> Factors:
        """The other way round; raises InvalidInput for what is none.

        >>> row = Factors((Factor("row", words=("top", "bottom")),), np.array([[0], [1]]))
        >>> Factors.from_text(row.text(), row.values, 2).parts == row.parts
        True
        """
        try:
            plain = json.loads(text)
            parts = tuple(
                Factor(str(name), str(kind), bool(ordered), tuple(map(str, words)))
                for name, kind, ordered, words in plain["parts"]
            )
            actions = tuple(map(str, plain["actions"]))
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InvalidInput("The factors of a checkpoint must be names and values.") from None
        fits = values.shape == (n_states, len(parts)) and values.max(initial=0) <= MOST
        if not fits:
            raise InvalidInput("The factors of a checkpoint must be names and values.")
        return cls(parts, values, actions)

    @property
    def known(self) -> int:
        """The number of states that have factors."""
        return int(has_factors(self.values).sum()) if self.parts else 0


def has_factors(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[S] whether each row of factors is filled in.

    >>> has_factors(np.array([[0, 3], [-1, -1]])).tolist()
    [True, False]
    """
    return np.asarray(values[:, 0] != NONE)


def grid_factors(layout: Any, n_states: int, actions: tuple[str, ...] = ()) -> Factors:
    """Row and column of each state of a `GridLayout`.

    >>> import resetfree as rf
    >>> rf.make("grid-v0").problem().factors.values[:2].tolist()
    [[0, 0], [0, 1]]
    """
    row, column = np.divmod(np.asarray(layout.cell, dtype=np.int64), layout.n_cols)
    return Factors((Factor("row"), Factor("column")), np.stack([row, column], axis=1).reshape(n_states, 2), actions)


def context_factors(n_states: int, n_contexts: int) -> Factors:
    """The place within a context, and the context, of each state of a problem with contexts.

    >>> context_factors(4, 2).values.tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    context, place = np.divmod(np.arange(n_states), n_states // n_contexts)
    parts = (Factor("place", ordered=False), Factor("task", ordered=False))
    return Factors(parts, np.stack([place, context], axis=1))
