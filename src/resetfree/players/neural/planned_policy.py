"""Policies while networks learn: smooth noise around the middle of the box, and a plan at each step. Extra `neural`.

Both are values, made of arrays. What is exported is the actor's feedback alone, see `skip_policy`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from resetfree.core.arrays import Floats
from resetfree.players.neural.actor_critic import Objective, PlanSizes
from resetfree.players.neural.networks import FAR
from resetfree.players.neural.planning import next_action
from resetfree.players.neural.world_model import Normaliser
from resetfree.problems.action_spaces import from_unit
from resetfree.problems.contract import Policy, State


@dataclass
class NoisePolicy(Policy):
    """The middle of the box and some noise, which was drawn beforehand."""

    noise: Floats  # [H, A] on [-1, 1]
    low: Floats  # [A] the box
    high: Floats  # [A]

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the noise of step h."""
        return from_unit(self.noise[(h - 1) % len(self.noise)], self.low, self.high)

    def mode(self, h: int, s: State) -> Floats:
        """[A] the middle of the box."""
        return from_unit(np.zeros(len(self.low)), self.low, self.high)


@dataclass
class PlannedPolicy(Policy):
    """The actor's action and the first of the offsets that a plan finds, with a little noise.

    A plan begins with the one of the step before, if that was made by this policy in this episode, and else from
    nothing. So an episode follows from its states; an action alone follows from the state and the plans before it.
    """

    networks: dict[str, Any]  # model, actor and critics
    scales: dict[str, Any]
    aim: dict[str, Any]
    sizes: tuple[int, ...]
    noise: Floats  # [H, A]
    low: Floats  # [A] the box
    high: Floats  # [A]
    seed: int = 0

    @cached_property
    def _tree(self) -> Any:
        """The networks where JAX computes."""
        import jax

        return jax.device_put({**self.networks, "scales": Normaliser(**self.scales)})

    @cached_property
    def _plans(self) -> dict[int, Any]:
        """The plan of each step."""
        return {}

    def _planned(self, h: int, s: State) -> Floats:
        scales, sizes = Normaliser(**self.scales), PlanSizes(*self.sizes)
        s = np.atleast_1d(np.asarray(s, dtype=np.float64))
        z = np.clip((s - scales.centre) / scales.scale, -FAR, FAR).astype(np.float32)
        before = self._plans.get(h - 1) if h > 1 else None
        if before is None:
            before = np.zeros((sizes.steps, len(self.low)), np.float32)
        seed, step = np.uint32(self.seed), np.uint32(h)
        action, self._plans[h] = next_action(self._tree, z, before, seed, step, Objective(**self.aim), sizes=sizes)
        return np.asarray(action, dtype=np.float64)

    def act(self, h: int, s: State, u: Any) -> Floats:
        """[A] the planned action and the noise of step h."""
        noisy = self._planned(h, s) + self.noise[(h - 1) % len(self.noise)]
        return from_unit(np.clip(noisy, -1.0, 1.0), self.low, self.high)

    def mode(self, h: int, s: State) -> Floats:
        """[A] the planned action."""
        return from_unit(self._planned(h, s), self.low, self.high)
