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
