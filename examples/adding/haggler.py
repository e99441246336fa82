"""Raises the price after each reset, and lowers it a little after an episode without one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import resetfree as rf
from resetfree.players.testing.battery import check_dual


@dataclass
class Price:
    """What the player has learned."""

    lam: float


@dataclass(frozen=True)
class Haggler(rf.DualPlayer[Price]):
    """lam + step after a reset, lam - step / 10 after an episode without one, never below 0."""

    name: ClassVar[str] = "haggler"
    step: float = 0.5

    def init(self, problem: rf.Problem, episodes: int, seed: int) -> Price:
        """Resets are free at first."""
        return Price(0.0)

    def multiplier(self, state: Price, s1: Any, ask: Callable[[float], rf.Plan]) -> float:
        """The same for every start; `ask(lam)` would say what the primal player plans at another price."""
        return state.lam

    def update(self, state: Price, round: rf.Round) -> Price:
        """Learn from the round that was played."""
        change = self.step if round.episode.reset else -self.step / 10
        return Price(max(0.0, state.lam + change))


if __name__ == "__main__":
    check_dual(Haggler())
