"""Backward passes over the requested states only: exact, and as large as what was seen.

A plan at (h, s) depends on counts alone, and only on those of the places that observed edges lead to from (h, s) in the
steps that are left: by induction from the last step, Q of a tried pair is a function of the values of its observed
successors one step later, and Q of an untried pair is known in closed form (it has no successors, and its width or cap
is the same everywhere). So the pass over these places gives the very numbers that the pass over all states gives. An
episode may leave them, through an edge that was never seen before; then the pass goes on from where it arrives.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.errors import InvalidInput
from resetfree.players.linear.lazy_softmax import Widths, softmax_places, softmax_step
from resetfree.players.tabular.count_planning import Bonus
from resetfree.players.tabular.lazy_composite import composite_places
from resetfree.players.tabular.sparse_counts import SeenCounts, longer
from resetfree.players.tabular.visited import FIRST, STATES, Numbers, give_places, reach
from resetfree.problems.contract import State
from resetfree.problems.finite.tabular_policy import LazyPolicy
from resetfree.problems.finite.transitions import Bools, Floats

ROOM = 256  # places to begin with


class LazyPass(LazyPolicy):
    """The places of a plan that were requested so far, and those that their values need."""

    def __init__(self, counts: SeenCounts, shape: tuple[int, int, int]) -> None:
        super().__init__(shape)
        self._counts, self._version = counts, counts.version
        self._seen = counts.counts  # the present arrays; they only grow, and `version` counts their changes
        self._n_seen = int(counts.size[STATES])
        self._place: Numbers = np.zeros((shape[0], self._n_seen), dtype=np.int32)  # pages are allocated on first write
        self._state_at: Numbers = np.zeros(ROOM, dtype=np.int32)
        self.n_places = FIRST

    def work_out(self, h: int, numbers: Numbers) -> None:
        """Make places for some states (-1: none) at step h, and compute the values there."""
        if self._version != self._counts.version:
            raise InvalidInput(
                "A policy that is computed on request must be used before its player learns more: "
                "take it as an array if it is to be kept."
            )
        self._state_at = longer(self._state_at, self.n_places + len(numbers))
        end = int(give_places(self._place, self._state_at, h, numbers, self.n_places))
        if end > self.n_places:
            self._extend(h, end)

    def places(self, h: int, numbers: Numbers) -> Numbers:
        """[n] the places of some numbered states at step h, where their values are."""
        self.work_out(h, numbers)
        return np.asarray(self._place[h, numbers])

    def numbers(self, states: NDArray[Any]) -> Numbers:
        """[n] the numbers of some states, -1 for those that were not seen when the plan was made."""
        numbers: Numbers = self._counts.number[states]
        numbers[numbers >= self._n_seen] = -1
        return numbers

    def touched(self) -> int:
        """How many edges (non-zeros of the observed model) the pass has gone along, where data are pooled."""
        edges = self._seen.used.sum(axis=1, dtype=np.int64)
        rows = self._seen.row[self._state_at[FIRST : self.n_places], 0]
        return int(edges[rows[rows >= 0]].sum())

    def _extend(self, h: int, end: int) -> None:
        """Compute the new places of step h, and those that they need."""
        begin = self.n_places
        bounds = np.full(self.shape[0] + 1, end, dtype=np.int64)
        bounds[: h + 1] = begin
        step, at, n = h, begin, end
        while True:
            step, at, n = reach(
                self._seen, self._counts.n_transitions, self._place, self._state_at, bounds, step, at, n
            )
            if step == self.shape[0]:
                break
            self._state_at = longer(self._state_at, n + 1)
        self.n_places = n
        self._fill(bounds, h)

    @abstractmethod
    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        """Compute the values of the new places."""


class SoftmaxPass(LazyPass):
    """Algorithm 1's pass for one multiplier, with one-hot features."""

    def __init__(self, counts: SeenCounts, shape: tuple[int, int, int], widths: Widths, caps: Floats) -> None:
        super().__init__(counts, shape)
        self._fixed = (counts.n_transitions, widths, caps)
        self._v_r, self._v_c = np.empty((2, ROOM))
        self._untried = max(min(widths.beta_r * (1.0 / widths.reg) ** 0.5, caps[0]), 0.0)

    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        self._v_r, self._v_c = longer(self._v_r, self.n_places), longer(self._v_c, self.n_places)
        softmax_places(self._seen, *self._fixed, self._place, self._v_r, self._v_c, self._state_at, bounds, first)

    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        """Uniform where nothing was seen: there all actions are equally good."""
        rows, numbers = np.empty((len(states), self.shape[2])), self.numbers(states)
        self.work_out(h, numbers)
        now_r, now_c = np.empty((2, len(states)))
        softmax_step(self._seen, *self._fixed, self._place, self._v_r, self._v_c, h, numbers, now_r, now_c, rows)
        return rows

    def values(self, s1: State) -> tuple[float, float]:
        """V_r and V_c at step 1."""
        number = self.numbers(np.array([s1]))
        if number[0] < 0:
            return self._untried, 0.0
        at = self.places(0, number)[0]
        return float(self._v_r[at]), float(self._v_c[at])


class TieBreak(NamedTuple):
    """Which of equally good actions to take: the one with the largest score + weight jitter."""

    score: Floats  # [A]
    weight: float
    jitter: Floats  # [S, A]


class Held(NamedTuple):
    """What is held back of the actions that can still be safe: pairs with a larger belief than the limit."""

    belief: Floats  # [S, A] that a pair is fatal, or [0, 0]: nothing is held back
    limit: float


NOTHING_HELD = Held(np.empty((0, 0)), 1.0)


class CompositePass(LazyPass):
    """The optimistic pass on counts for one multiplier, inside the actions that can still be safe."""

    def __init__(
        self,
        counts: SeenCounts,
        shape: tuple[int, int, int],
        bonus: Bonus,
        bad: Bools,
        endless: bool,
        ties: TieBreak,
        held: Held = NOTHING_HELD,
    ) -> None:
        super().__init__(counts, shape)
        self._held = held
        self._bonus, self._bad, self._endless = bonus, bad, endless
        self._ties = ties
        self._v, self._v_r, self._v_c, self._low = np.empty((4, ROOM))
        self._action: Numbers = np.empty(ROOM, dtype=np.int32)

    def _fill(self, bounds: NDArray[np.int64], first: int) -> None:
        for name in ("_v", "_v_r", "_v_c", "_low", "_action"):
            setattr(self, name, longer(getattr(self, name), self.n_places))
        within = (self._bad, self._endless, self._counts.n_transitions, self._bonus, *self._ties, *self._held)
        made = (self._v, self._v_r, self._v_c, self._low, self._action)
        composite_places(self._seen, *within, self._place, self._state_at, bounds, first, *made)

    def rows(self, h: int, states: NDArray[np.int64]) -> Floats:
        """The preferred action where nothing was seen: there all actions are equally good."""
        numbers = self.numbers(states)
        seen = numbers >= 0
        preference = self._ties.score + self._ties.weight * self._ties.jitter[states]
        if len(self._held.belief):
            belief = self._held.belief[states]
            limit = np.maximum(belief.min(axis=1, keepdims=True), self._held.limit)
            preference = np.where(belief <= limit, preference, -np.inf)
        actions = preference.argmax(axis=1)
        if seen.any():
            at = self.places(h, numbers[seen])  # first: it may make the arrays longer
            actions[seen] = self._action[at]
        return np.asarray(np.eye(self.shape[2])[actions])

    def values(self, s1: State) -> tuple[float, float, float]:
        """V_r and V_c of the policy on the counts, and the optimistic V, at step 1."""
        number = self.numbers(np.array([s1]))
        if number[0] < 0:
            return float(self.shape[0]), 0.0, float(self.shape[0])
        at = self.places(0, number)[0]
        return float(self._v_r[at]), float(self._v_c[at]), float(self._v[at])
