"""A fixed policy as a function from observations of the environment to its actions.

Legend: H actions per episode, S states, A actions; h = 1..H the step of the episode.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arguments import flag, shown, whole
from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect
from resetfree.problems.action_spaces import ActionSpace, Box, Choices
from resetfree.problems.contract import ChoicePolicy, Policy, Problem
from resetfree.problems.features import FeatureMap
from resetfree.problems.finite.tabular_policy import TabularPolicy
from resetfree.use.sensors import Sensor

Steps = tuple[NDArray[np.int64]]  # [n] steps taken in the episode of each of n environments


class FeatureSource(NamedTuple):
    """The map that features of vector states were made with, and the bounds of the states."""

    map: FeatureMap
    low: Floats  # [D]
    high: Floats  # [D]


@dataclass(frozen=True, eq=False)
class Predictor:
    """A learned policy as a function of observations: `predict` has the interface of Stable-Baselines3.

    The `state` that `predict` takes and returns carries the step of the episode, for policies that depend on it.
    Without it, the policy acts as at the first step, with the whole horizon ahead.

    >>> import resetfree as rf
    >>> policy = rf.learn("grid-v0", episodes=200, seed=1).policy
    >>> action, state = policy.predict(0)
    >>> int(action), state
    (3, (array([1]),))
    """

    rule: Policy = field(repr=False)
    sensor: Sensor = field(repr=False)
    actions: NDArray[Any] | list[Any] | Box = field(repr=False)  # [A, ...] the environment's own, or the box of them
    horizon: int
    about: dict[str, Any]  # where it comes from, as plain data
    features: FeatureSource | None = field(default=None, repr=False)
    problem: Problem | None = field(default=None, repr=False)  # where it was learned, if available
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    @property
    def space(self) -> ActionSpace:
        """The space of its actions."""
        return self.actions if isinstance(self.actions, Box) else Choices(len(self.actions), self.actions)

    @property
    def n_actions(self) -> int | None:
        """How many actions it chooses among; None for a box."""
        return self.space.n

    @property
    def stationary(self) -> bool:
        """Whether it does not depend on the step of the episode."""
        return self.rule.stationary

    def predict(
        self,
        observation: Any,
        state: Steps | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Steps | None]:
        """The action for an observation, or the actions for a batch of n, and the state for the next call.

        state: what the last call returned, None at first.
        episode_start: [n] Booleans, true where an episode begins with this action.
        deterministic: take the mode of the policy (the most probable action, the first of equals); otherwise draw one,
          see `set_random_seed`.

        Raises InvalidInput for an observation, a state or an `episode_start` of another shape or type.
        """
        deterministic = flag(deterministic, "'deterministic' of predict")
        several = self.sensor.batch(observation)
        observations = [observation] if several is None else several
        taken = self._steps(state, episode_start, len(observations))
        inputs = [(int(t) % self.horizon + 1, self.sensor(one)) for t, one in zip(taken, observations, strict=True)]
        if deterministic:
            chosen = [self.rule.mode(h, s) for h, s in inputs]
        else:
            chosen = [self.rule.act(h, s, self._uniforms()) for h, s in inputs]
        after = None if self.stationary else (taken + 1,)
        return (self.action(chosen[0]) if several is None else self._actions(chosen)), after

    def probabilities(self, observation: Any, h: int = 1) -> Floats:
        """[A] probabilities of the actions at step h of an episode; [n, A] for n observations."""
        rule = self.rule
        if not isinstance(rule, ChoicePolicy):
            raise InvalidInput(f"Only a policy that chooses among actions has probabilities. Got {self.space} instead.")
        h = whole(h, "step 'h'", 1, self.horizon)
        several = self.sensor.batch(observation)
        if several is None:
            return np.array(rule(h, self.sensor(observation)))
        rows = [rule(h, self.sensor(one)) for one in several]
        return np.array(rows).reshape(len(several), self.space.n or 0)

    def action(self, chosen: Any) -> Any:
        """The environment's own action for an action of the policy; raises InvalidInput outside of a box."""
        if isinstance(self.actions, Box) and not self.actions.holds(chosen):
            raise InvalidInput(
                f"This policy must give {self.actions}. Got {shown(np.asarray(chosen).tolist())} instead."
            )
        one = self.space.native(chosen)
        return one.copy() if isinstance(one, np.ndarray) else one

    def set_random_seed(self, seed: int) -> None:
        """Seed the random numbers of `predict(..., deterministic=False)`."""
        seed = whole(seed, "'seed' of a policy", 0)
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def played(self, deterministic: bool = True) -> Any:
        """The policy in the form that `Problem.rollout` takes."""
        rule = self.rule.modal() if deterministic else self.rule
        return np.asarray(rule) if isinstance(rule, TabularPolicy) else rule

    def _actions(self, chosen: list[Any]) -> Any:
        if isinstance(self.actions, np.ndarray):
            return self.actions[np.array(chosen, dtype=np.int64)]
        own = [self.action(one) for one in chosen]
        if isinstance(self.actions, Box):
            return np.stack(own) if own else np.empty((0, *self.actions.low.shape), dtype=self.actions.low.dtype)
        return own

    def _uniforms(self) -> Any:
        """The uniform random numbers that one action takes: one, or one per number of a box."""
        return self._rng.random(self.actions.size) if isinstance(self.actions, Box) else self._rng.random()

    def _steps(self, state: Any, episode_start: Any, n: int) -> NDArray[np.int64]:
        """[n] steps taken so far in the episode of each environment."""
        if state is None:
            return np.zeros(n, dtype=np.int64)
        try:
            (taken,) = state
            taken = np.array(taken)
        except (TypeError, ValueError, LookupError):
            taken = np.zeros((0, 0))
        good = taken.shape == (n,) and taken.dtype.kind in "iu" and not (taken < 0).any()
        expect(good, "'state'", f"be what the last call of predict returned for {n}", state)
        if episode_start is not None:
            begins = np.asarray(episode_start, dtype=np.bool_)
            expect(begins.shape in ((), (n,)), "'episode_start'", f"be {n} Booleans", got=f"shape {begins.shape}")
            taken = np.where(begins, 0, taken)
        return np.asarray(taken, dtype=np.int64)
