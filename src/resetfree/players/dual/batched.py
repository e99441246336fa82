"""The dual players for many rows at once: a multiplier per row, and what each learns from a round.

Legend: theta the parameter of lambda(s) = <xi(s), theta>, cap = B, g in [0, 1] the cost signal, k the round from 1.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array

from resetfree.core import InvalidInput
from resetfree.players import BatchedForm
from resetfree.players.batched import take
from resetfree.players.dual import MultiplierLine, Space
from resetfree.players.dual.one_multiplier import ConstantPenalty, Counting, OneMultiplier
from resetfree.players.dual.online_gradient import ProjectedGradient
from resetfree.problems import Problem
from resetfree.theory.sets import Ball, OrthantBall

Given: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Gradient:
    """`projected-gradient` on an interval, a ball, or an orthant with a ball."""

    kind: str  # "line", "ball" or "orthant"
    features: int  # d'; 0 for the constant 1

    def begin(self, given: Given) -> Any:
        """Zeros [max(d', 1), rows]."""
        return np.zeros((max(self.features, 1), len(given["cap"])))

    def multiplier(self, given: Given, theta: Array, s1: Array) -> Array:
        """clip(<xi(s1), theta>, 0, B)."""
        named = (self._xi(given, s1) * theta).sum(axis=0) if self.features else theta[0]
        return jnp.minimum(jnp.maximum(named, 0.0), given["cap"])

    def learn(self, given: Given, theta: Array, s1: Array, k: Array, g: Array, was_reset: Array) -> Array:
        """P_U(theta + B / sqrt(k) g xi(s1)); a round without cost leaves theta where it is, exactly."""
        size = given["cap"] / jnp.sqrt(k.astype(jnp.float64)) * g
        moved = theta + (size * self._xi(given, s1) if self.features else size)
        if self.kind == "line":
            moved = jnp.minimum(jnp.maximum(moved, given["low"]), given["high"])
        else:
            moved = jnp.maximum(moved, 0.0) if self.kind == "orthant" else moved
            norm = jnp.sqrt((moved * moved).sum(axis=0))
            moved = jnp.where(norm <= given["cap"], moved, moved / jnp.maximum(norm, 1e-300) * given["cap"])
        return jnp.where(g > 0, moved, theta)

    def _xi(self, given: Given, s1: Array) -> Array:
        """[d', rows] features of the starts."""
        return take(given["xi"], s1).T


@dataclass(frozen=True)
class Penalty:
    """The dual player `constant-penalty`."""

    def begin(self, given: Given) -> None:
        """Nothing is learned."""

    def multiplier(self, given: Given, state: None, s1: Array) -> Array:
        """The penalty C in every row."""
        penalty: Array = given["penalty"]
        return penalty

    def learn(self, given: Given, state: None, s1: Array, k: Array, g: Array, was_reset: Array) -> None:
        """Nothing is learned."""


@dataclass(frozen=True)
class ResetCount:
    """The dual player `counting`: resets per row."""

    def begin(self, given: Given) -> Any:
        """No reset yet."""
        return np.zeros(len(given["eta"]), dtype=np.int32)

    def multiplier(self, given: Given, n: Array, s1: Array) -> Array:
        """The count times eta."""
        return jnp.asarray(given["eta"] * n)

    def learn(self, given: Given, n: Array, s1: Array, k: Array, g: Array, was_reset: Array) -> Array:
        """Count the reset that happened, whatever the cost signal is."""
        return n + was_reset


@dataclass(frozen=True)
class One:
    """`one-multiplier`."""

    first_start_only: bool

    def begin(self, given: Given) -> tuple[Any, Any]:
        """Y = 0, and no first start yet."""
        rows = len(given["eta"])
        return np.zeros(rows), np.full(rows, -1, dtype=np.int32)

    def multiplier(self, given: Given, state: tuple[Array, Array], s1: Array) -> Array:
        """The multiplier Y of every row."""
        return state[0]

    def learn(
        self, given: Given, state: tuple[Array, Array], s1: Array, k: Array, g: Array, was_reset: Array
    ) -> tuple[Array, Array]:
        """One step, unless only the first start counts and this is another."""
        Y, first = state
        moved = jnp.minimum(Y + given["eta"] * g, given["cap"])
        if not self.first_start_only:
            return moved, first
        first = jnp.where(first < 0, s1, first)
        return jnp.where(s1 == first, moved, Y), first


def constant_penalty_form(player: ConstantPenalty, problem: Problem, episodes: int) -> BatchedForm:
    """The same penalty in every row."""
    return BatchedForm(Penalty(), {"penalty": player.penalty()})


def counting_form(player: Counting, problem: Problem, episodes: int) -> BatchedForm:
    """A count per row."""
    return BatchedForm(ResetCount(), {"eta": float(player.eta)})


def one_multiplier_form(player: OneMultiplier, problem: Problem, episodes: int) -> BatchedForm:
    """A multiplier per row."""
    fresh = player.init(problem, episodes, 0)
    return BatchedForm(One(player.first_start_only), {"eta": fresh.eta, "cap": fresh.cap})


def projected_gradient_form(player: ProjectedGradient, problem: Problem, episodes: int) -> BatchedForm:
    """A theta per row; sets whose projection needs a solver are refused."""
    among = player.choices(problem)
    if isinstance(among, MultiplierLine):
        xi = np.zeros((0, 1)) if among.xi is None else np.array(among.xi)[:, None]
        numbers = {"low": among.low, "high": among.high, "cap": among.cap, "xi": xi}
        return BatchedForm(Gradient("line", 0 if among.xi is None else 1), numbers)
    assert isinstance(among, Space)
    if not isinstance(among.members, Ball | OrthantBall):
        raise InvalidInput(
            "The set of multipliers of projected-gradient must be an interval, a ball or an orthant with a ball in "
            f"the batched engine. Got {type(among.members).__name__} instead."
        )
    kind, xi = "ball" if isinstance(among.members, Ball) else "orthant", np.asarray(problem.xi, dtype=np.float64)
    return BatchedForm(Gradient(kind, xi.shape[1]), {"cap": among.cap, "xi": xi})
