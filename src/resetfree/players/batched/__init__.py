"""What a player declares to be played by the batched engine: an optional method, and it needs no JAX.

A player with a method `batched_form(problem, episodes) -> BatchedForm` is played many seeds and settings at once. It
may import JAX inside, or name a function of a module that does (`written_in`), and returns a program over rows: the
last axis of every array is the row, which is one run. InvalidInput is raised for settings that have no batched form.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from resetfree.problems.contract import Problem


class PrimalProgram(Protocol):
    """What of a primal player is compiled; equal programs are compiled once. `linear.batched` has examples."""

    @property
    def samples_actions(self) -> bool:
        """Whether its policy draws actions, so that uniforms must be drawn for them."""

    def begin(self, shape: Any, given: dict[str, Any]) -> Any:
        """The fresh state on the host, a pytree of NumPy arrays."""

    def plan(self, scene: Any, state: Any, turn: Any, evaluate: bool) -> Any:
        """A `BatchedPlan` (of `passes`) for the starts and multipliers in the `Turn`, for all rows."""

    def learn(self, scene: Any, state: Any, path: Any, lam: Any, plan: Any) -> Any:
        """The state after the episodes."""


class DualProgram(Protocol):
    """What of a dual player is compiled; `dual.batched` has examples."""

    def begin(self, given: dict[str, Any]) -> Any:
        """The fresh state on the host, a pytree of NumPy arrays."""

    def multiplier(self, given: dict[str, Any], state: Any, s1: Any) -> Any:
        """[rows] multipliers of the starts."""

    def learn(self, given: dict[str, Any], state: Any, s1: Any, k: Any, g: Any, was_reset: Any) -> Any:
        """The state after round k with the cost signal g [rows] in [0, 1]."""


class BatchedForm(NamedTuple):
    """A player with its settings, ready for the batched engine."""

    program: Any  # a PrimalProgram or DualProgram: static and hashable
    numbers: dict[str, Any]  # given to the program: a number becomes [rows], one per setting; arrays are for all rows


def written_in(place: str) -> Callable[[Any, Problem, int], BatchedForm]:
    """The method `batched_form` of a player whose form is the function `place`, module:name, of player and problem.

    The module needs JAX and is imported when a form is wanted, so that a player is read without it.
    """

    def batched_form(self: Any, problem: Problem, episodes: int) -> BatchedForm:
        module, _, name = place.partition(":")
        form: BatchedForm = getattr(import_module(f"resetfree.players.{module}"), name)(self, problem, episodes)
        return form

    return batched_form


def has_batched_form(cls: type) -> bool:
    """Whether a class of players declares its own batched form; inherited ones do not count: a subclass may differ."""
    return "batched_form" in vars(cls)
