"""What a problem may state of itself besides its steps: factors of its states, and guidance on the way back.

`Factors` are named coordinates of finite states: what a rule about danger may speak of. `Guidance` is for methods that
bring a system back without a reset: goals, starts, demonstrations.

Legend: S states, F factors; a row of -1 is a state that has none: a reset state, or one that was not observed yet.
n states of D numbers, G of them its goal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from resetfree.core import Bools, Floats, Ints, InvalidInput

MOST = 10_000_000  # values of a factor that are distinguished
NEARLY = 1e-3  # of a goal, and beside it: nearly reached
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
    values: Ints  # [S, F], not negative; -1 throughout a row without factors
    actions: tuple[str, ...] = ()  # names of actions

    def action(self, a: int) -> str:
        """What to call an action."""
        return self.actions[a] if a < len(self.actions) else f"action {a}"

    def text(self) -> str:
        """The names of factors and actions, without the values."""
        return json.dumps({"parts": [[*vars(part).values()] for part in self.parts], "actions": self.actions})

    @classmethod
    def from_text(cls, text: str, values: Ints, n_states: int) -> Factors:
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


def has_factors(values: Ints) -> Bools:
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


class Demonstration(NamedTuple):
    """What a scripted expert did."""

    states: Floats  # [m + 1, D]
    actions: Floats  # [m, A]
    rewards: Floats  # [m]


@dataclass(frozen=True, eq=False)
class Guidance:
    """What is known of a task besides its steps; none of it is learned from the system.

    A method may put another goal into a state: what `reward` says then is the reward for that goal.
    """

    goal: slice  # where the goal is in a state
    goals: Floats  # [n, G] that the task requests
    starts: Floats  # [m, G] as goals: where the system stands after a reset
    achieved: Callable[[Floats], Floats]  # [n, G] the goals that states [n, D] have reached
    reward: Callable[[Floats], Floats]  # [n] of arriving in states [n, D], in [0, 1]
    home: Callable[[Floats], Floats]  # [n] the reward of arriving where the system starts, in [0, 1]
    onward: Callable[[Floats], Ints]  # [n] the task to set next in states [n, D]: among goals, then starts
    demonstrations: Callable[[int, bool], list[Demonstration]]  # (seed, back): towards goals, or from there to starts

    def with_goal(self, states: Floats, goals: Floats) -> Floats:
        """[n, D] the states with other goals [G] or [n, G]."""
        changed = np.array(states, dtype=np.float64)
        changed[..., self.goal] = goals
        return changed

    def reached(self, states: Floats, goals: Floats) -> Bools:
        """[n] whether states [n, D] have reached goals, where the reward is all or nothing."""
        return np.asarray(self.reward(self.with_goal(states, goals)) >= 1.0)


@dataclass(frozen=True, eq=False)
class GoalColumns:
    """Where the goal is in a state, and where the goal that it has reached, number by number.

    reached: [n] whether goals achieved [n, G] count as the goals desired [n, G]; None if the task does not say.
    """

    achieved: Ints  # [G]
    wanted: Ints  # [G]
    reached: Callable[[Floats, Floats], Bools] | None = None

    def radius(self, goal: Floats, scale: Floats) -> float:
        """The distance from a goal [G] up to which it counts as reached, in the direction of `scale` [G]."""
        assert self.reached is not None
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            hit = bool(self.reached((goal + middle * scale)[None], goal[None])[0])
            low, high = (middle, high) if hit else (low, middle)
        return float(low * np.linalg.norm(scale))


def columns_of(guidance: Guidance, size: int) -> GoalColumns | None:
    """Those of a task that states its guidance, if what its states [., D] have reached are numbers of theirs.

    None, too, where a goal that is nearly reached does not pay as much as one that is: rewards are graded then.
    """
    probe = np.random.default_rng(0).normal(size=(2, size))
    found = guidance.achieved(probe)
    same = (found[:, :, None] == probe[:, None, :]).all(axis=0)
    wanted = np.arange(size)[guidance.goal]
    if not same.any(axis=1).all():
        return None
    at = same.argmax(axis=1)

    def reached(achieved: Floats, desired: Floats) -> Bools:
        states = np.zeros((len(achieved), size))
        states[:, at] = achieved
        return guidance.reached(states, desired)

    goals = np.asarray(guidance.goals, dtype=np.float64)
    sparse = len(wanted) and len(goals) and reached(goals * (1.0 + NEARLY) + NEARLY, goals).all()
    return GoalColumns(at, wanted, reached) if sparse else None
