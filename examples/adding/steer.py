"""Weights drawn at random, the best of them kept: the smallest player of continuous actions."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import resetfree as rf

Floats = NDArray[np.float64]


@dataclass
class Steer(rf.Policy):
    """Actions tanh(weight s) between -2 and 2, which chance does not change."""

    kind = "steer"
    axes: ClassVar[dict[str, str]] = {"weight": "AD"}
    stationary = True
    weight: Floats

    def act(self, h: int, s: Any, u: Any) -> Any:
        """The same in every step."""
        return 2.0 * np.tanh(self.weight @ s)


@dataclass
class Best:
    """What the player has learned."""

    weight: Floats
    gain: float
    seed: int
    k: int = 0


@dataclass(frozen=True)
class Search(rf.PrimalPlayer[Best]):
    """A step from the best weights in each episode."""

    name: ClassVar[str] = "search"
    action_spaces: ClassVar[tuple[type, ...]] = (rf.Box,)

    def init(self, problem: Any, episodes: int, seed: int) -> Best:
        """Nothing was tried yet."""
        return Best(np.zeros((problem.actions.size, len(problem.low))), -np.inf, seed)

    def plan(self, state: Best, s1: Any, lam: float) -> rf.Plan:
        """Weights near the best ones."""
        noise = np.random.default_rng([state.seed, state.k]).normal(size=state.weight.shape)
        return rf.Plan(Steer(state.weight + noise), 0.0, 0.0)

    def update(self, state: Best, round: rf.Round) -> Best:
        """Keep what earned more than all before."""
        gain = round.episode.total_reward - round.lam * round.episode.reset
        if gain > state.gain:
            state.gain, state.weight = gain, round.plan.policy.weight
        state.k += 1
        return state
