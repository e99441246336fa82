"""The common base of dual players that choose lambda(s) = <xi(s), theta> with theta in U."""

from __future__ import annotations

from typing import Protocol, TypeVar

from resetfree.game.contract import DualPlayer
from resetfree.players.shared.multiplier_functions import Functions, Theta
from resetfree.problems.contract import Problem


class FunctionState(Protocol):
    """A state that knows the functions it chooses among."""

    @property
    def among(self) -> Functions:
        """Those of theta in U, at most B."""


S = TypeVar("S", bound=FunctionState)


class FunctionPlayer(DualPlayer[S]):
    """A dual player whose state has `among` and, unless it overrides `parameter`, `theta`."""

    def functions(self, state: S) -> Functions:
        """Among which it chooses."""
        return state.among

    def parameter(self, state: S) -> Theta:
        """The parameter theta of its present function."""
        return state.theta  # type: ignore[attr-defined]

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The bound B of the functions it chooses among."""
        return self.init(problem, episodes, 0).among.cap
