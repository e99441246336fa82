"""The common bases of dual players that choose lambda(s) = <xi(s), theta> with theta in U."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from resetfree.game.contract import DualPlayer, Plan, Statement
from resetfree.players.dual.multiplier_functions import FeasibleSet, Functions, Theta, bounded, functions, root
from resetfree.players.requirements import bound_of
from resetfree.problems.contract import Problem, State


@dataclass(slots=True)
class FunctionState:
    """The parameter of the present function, and the functions among which the player chooses."""

    theta: Theta
    among: Functions = field(metadata={"saved": False}, repr=False)


S = TypeVar("S", bound=FunctionState)


class FunctionPlayer(DualPlayer[S]):
    """A dual player with the settings `B` and `feasible_set` (see `functions`)."""

    B: float | None
    feasible_set: FeasibleSet

    def choices(self, problem: Problem) -> Functions:
        """Among which it chooses on a problem."""
        return functions(problem, bound_of(self), self.feasible_set, self.name)

    def multiplier(self, state: S, s1: State, ask: Callable[[float], Plan]) -> float:
        """clip(<xi(s1), theta>, 0, B)."""
        return state.among.at(state.theta, s1)

    def functions(self, state: S) -> Functions:
        """Among which it chooses."""
        return state.among

    def parameter(self, state: S) -> Theta:
        """The parameter theta of its present function."""
        return state.theta

    def largest_multiplier(self, problem: Problem, episodes: int) -> float:
        """The bound B of the functions it chooses among."""
        return self.choices(problem).cap


class FixedStepPlayer(FunctionPlayer[S]):
    """One step size for all rounds: its setting `eta`, by default B / sqrt(K)."""

    eta: float | None

    def step(self, episodes: int) -> float:
        """The step size of a game of K = `episodes` rounds."""
        return bound_of(self) / root(episodes) if self.eta is None else self.eta

    def fixed_step_statement(self, problem: Problem, episodes: int, **own: Any) -> Statement:
        """The step, and the regret |u|^2 / (2 eta) + (eta / 2) sum |x|^2 where every |x| is as large as it can be."""
        B, eta, among = bound_of(self), self.step(episodes), self.choices(problem)
        G, tuned = among.largest_xi, self.eta is not None
        bound = B / (2 * eta) * B + eta / 2 * G**2 * episodes
        return bounded({"B": B, "eta": eta, **own, "U": among.kind, "tuned": tuned}, bound, episodes, G)
