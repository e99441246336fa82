"""What a task states about itself to methods that bring a system back without a reset: goals, starts, demonstrations.

Legend: D numbers in a state, G of them its goal; n states.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arrays import Bools, Floats


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
    onward: Callable[[Floats], NDArray[np.int64]]  # [n] the task to set next in states [n, D]: among goals, then starts
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

    achieved: NDArray[np.int64]  # [G]
    wanted: NDArray[np.int64]  # [G]
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
    """Those of a task that states its guidance, if what its states [., D] have reached are numbers of theirs."""
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

    return GoalColumns(at, wanted, reached)
