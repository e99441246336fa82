"""VaPRL: the policy returns only as far as it knows the way from there, and further as it learns.

After Sharma, Gupta, Levine, Hausman and Finn (2021, "Autonomous reinforcement learning via subgoal curricula").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.core.settings import Fraction
from resetfree.players.neural.autonomy.turns import (
    CHOOSING,
    FORWARD,
    Context,
    Traits,
    TurnPlayer,
    TurnState,
    demonstrated,
)
from resetfree.problems.contract import Problem

COMPARED = 64  # states of demonstrations of which one is chosen


@dataclass(frozen=True)
class VaPRL(TurnPlayer):
    """One policy for all goals: an attempt at the task, then a curriculum of starts, in turn.

    Kept: between two attempts the policy is sent to the demonstrated state that is nearest to the initial ones, among
    those from which its value for the task reaches a threshold; replayed steps get other goals, drawn from those of the
    task and from demonstrations. Departures: nearness is the number of steps into a demonstration; 64 states are looked
    at; where none is mastered, the farthest into its demonstration is taken; the value is for the goal of that
    demonstration, not for the goal that comes next, which the task draws; only goals that a state can hold are set
    (`Guidance.achieved`); a turn is not cut short when its goal is reached.

    threshold: value from which on a start is mastered: gamma^t for a goal that is t steps away.

    >>> VaPRL().agents
    1
    """

    name: ClassVar[str] = "vaprl"
    published: ClassVar[Mapping[str, float]] = {"tabletop-v0": 1.0, "sawyer-door-v0": 0.71, "sawyer-peg-v0": 0.0}
    traits: ClassVar[Traits | None] = Traits(two=False, curriculum=True)
    baseline: ClassVar[bool] = True
    agents: ClassVar[int] = 1
    threshold: Fraction = 0.3

    def init(self, problem: Problem, episodes: int, seed: int) -> TurnState:
        """Refuse a task without demonstrations, too."""
        return demonstrated(self, super().init(problem, episodes, seed), problem)

    def goals(self, state: TurnState, agent: int, s: Floats, rng: np.random.Generator) -> Floats:
        """Their own, those of the task, its starts, and what demonstrations reached."""
        guidance, n = state.guidance, len(s)
        own = super().goals(state, agent, s, rng)
        shown = guidance.achieved(state.rows.state[rng.integers(state.shown, size=n)])
        starts = guidance.starts[rng.integers(len(guidance.starts), size=n)]
        which = rng.random((n, 1))
        return np.where(which < 0.5, own, np.where(which < 0.75, shown, starts))

    def next_turn(self, state: TurnState, s: Floats, there: bool) -> Context:
        """The task after a start; a start of the curriculum after the task."""
        return Context(FORWARD) if state.aimed else Context(FORWARD, self.start(state, s))

    def start(self, state: TurnState, s: Floats) -> Floats:
        """[G] the least advanced state of a demonstration from which the task is mastered, else the most advanced."""
        guidance, rng = state.guidance, state.random(CHOOSING)
        rows = rng.integers(state.forth, size=COMPARED)
        ends = np.flatnonzero(~state.rows.taken(state.forth))  # a demonstration ends with a row without an action
        which = np.searchsorted(ends, rows)
        begin = np.where(which > 0, ends[which - 1] + 1, 0)
        values = self.shares(state, FORWARD, state.rows.state[rows])
        order = rows - begin
        mastered = values >= self.threshold
        best = np.where(mastered, order, np.inf).argmin() if mastered.any() else order.argmax()
        return np.asarray(guidance.achieved(state.rows.state[rows[best]][None])[0])
