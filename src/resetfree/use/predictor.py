"""A policy to be used: observations of the environment in, actions of the environment out, nothing is learned any more.

Legend: H actions per episode, S states, A actions; h = 1..H the step of the episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core.arguments import flag, whole
from resetfree.core.errors import InvalidInput
from resetfree.players.primal.model_search import LinearScores
from resetfree.players.primal.stored_linear import LinearValues
from resetfree.problems.contract import Problem, State, draw
from resetfree.problems.features import FeatureMap
from resetfree.problems.finite.transitions import Floats
from resetfree.use.sensors import Sensor

Steps = tuple[NDArray[np.int64]]  # [n] steps taken in the episode of each of n environments


@dataclass
class Table:
    """pi_h(a|s) as an array; one layer stands for all steps."""

    probabilities: Floats  # [1, S, A] or [H, S, A]

    @property
    def stationary(self) -> bool:
        """Whether the step of the episode makes no difference."""
        return len(self.probabilities) == 1

    def __call__(self, h: int, s: State) -> Floats:
        """Probabilities [A]."""
        return np.asarray(self.probabilities[(h - 1) % len(self.probabilities), s])


class Seen(NamedTuple):
    """What features of vector states were made from."""

    map: FeatureMap
    low: Floats  # [D]
    high: Floats  # [D]


@dataclass(frozen=True, eq=False)
class Predictor:
    """What was learned, as a function of observations: `predict` as Stable-Baselines3 users expect it.

    A policy that depends on the step of the episode is told the step by the state that `predict` gives and takes; asked
    without it, it acts as at the first step, with the whole horizon before it.

    >>> import resetfree as rf
    >>> policy = rf.learn("grid-v0", episodes=200, seed=1).policy
    >>> action, state = policy.predict(0)
    >>> int(action), state
    (3, (array([1]),))
    """

    rule: Callable[[int, State], Floats] = field(repr=False)  # (h, s) -> probabilities [A]
    sensor: Sensor = field(repr=False)
    actions: NDArray[Any] | list[Any] = field(repr=False)  # [A, ...] the environment's own
    horizon: int
    about: dict[str, Any]  # where it comes from, as plain data
    features: Seen | None = field(default=None, repr=False)
    problem: Problem | None = field(default=None, repr=False)  # where it was learned, if that is at hand
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)

    @property
    def n_actions(self) -> int:
        """How many actions it chooses among."""
        return len(self.actions)

    @property
    def stationary(self) -> bool:
        """Whether the step of the episode makes no difference to it."""
        if isinstance(self.rule, LinearValues):
            return len(self.rule.weight) == 1
        return isinstance(self.rule, LinearScores) or bool(getattr(self.rule, "stationary", False))

    def predict(
        self,
        observation: Any,
        state: Steps | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, Steps | None]:
        """The action for an observation, or those for n of them, and the state for the next call.

        state: what the last call gave, None at first.  episode_start: [n] where an episode begins with this action.
        deterministic: the most probable action (the first of equals); else one is drawn, see `set_random_seed`.
        """
        deterministic = flag(deterministic, "'deterministic' of predict")
        several = self.sensor.batch(observation)
        observations = [observation] if several is None else several
        taken = self._steps(state, episode_start, len(observations))
        rows = [
            self.rule(int(t) % self.horizon + 1, self.sensor(one)) for t, one in zip(taken, observations, strict=True)
        ]
        if deterministic:
            chosen = [int(np.argmax(row)) for row in rows]
        else:
            chosen = [draw(row.cumsum(), self._rng.random()) for row in rows]
        after = None if self.stationary else (taken + 1,)
        return (self.action(chosen[0]) if several is None else self._actions(chosen)), after

    def probabilities(self, observation: Any, h: int = 1) -> Floats:
        """[A] with which each action is taken at step h of an episode; [n, A] for n observations."""
        if isinstance(h, bool) or not isinstance(h, int | np.integer) or not 1 <= h <= self.horizon:
            raise InvalidInput(f"The step 'h' must be a whole number from 1 to {self.horizon}. Got {h!r} instead.")
        several = self.sensor.batch(observation)
        if several is None:
            return np.array(self.rule(int(h), self.sensor(observation)))
        rows = [self.rule(int(h), self.sensor(one)) for one in several]
        return np.array(rows).reshape(len(several), self.n_actions)

    def action(self, index: int) -> Any:
        """The environment's own action that an index stands for."""
        one = self.actions[index]
        return one.copy() if isinstance(one, np.ndarray) else one

    def set_random_seed(self, seed: int) -> None:
        """Where chance comes from in `predict(..., deterministic=False)`."""
        seed = whole(seed, "'seed' of a policy", 0)
        self._rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state

    def played(self, deterministic: bool = True) -> Any:
        """In the form that `Problem.rollout` takes."""
        rule = self.rule
        if isinstance(rule, Table):
            rows = np.eye(self.n_actions)[rule.probabilities.argmax(axis=2)] if deterministic else rule.probabilities
            return rows[0] if rule.stationary else rows
        if not deterministic:
            return rule
        one_of = np.eye(self.n_actions)
        return lambda h, s: one_of[int(np.argmax(rule(h, s)))]

    def _actions(self, chosen: list[int]) -> Any:
        if isinstance(self.actions, np.ndarray):
            return self.actions[np.array(chosen, dtype=np.int64)]
        return [self.actions[index] for index in chosen]

    def _steps(self, state: Any, episode_start: Any, n: int) -> NDArray[np.int64]:
        """[n] actions that were taken in each episode before this one."""
        if state is None:
            return np.zeros(n, dtype=np.int64)
        try:
            (taken,) = state
            taken = np.array(taken)
        except (TypeError, ValueError, LookupError):
            taken = np.zeros((0, 0))
        if taken.shape != (n,) or taken.dtype.kind not in "iu" or (taken < 0).any():
            raise InvalidInput(
                f"The 'state' must be what the last call of predict gave for {n}. Got {state!r} instead."
            )
        if episode_start is not None:
            begins = np.asarray(episode_start, dtype=np.bool_)
            if begins.shape not in ((), (n,)):
                raise InvalidInput(f"The 'episode_start' must be {n} Booleans. Got shape {begins.shape} instead.")
            taken = np.where(begins, 0, taken)
        return np.asarray(taken, dtype=np.int64)


def table(policy: Any, horizon: int, n_states: int, n_actions: int) -> Table:
    """Any array form of a policy (see `policy.as_policy`) as probabilities; layers that are all equal become one.

    >>> table(np.array([[0, 1], [0, 1]]), 2, 2, 2).probabilities.tolist()
    [[[1.0, 0.0], [0.0, 1.0]]]
    """
    array = np.asarray(policy)
    shape = (horizon, n_states, n_actions)
    if array.dtype.kind in "iu" and array.shape in (shape[:2], shape[1:2]):
        if array.size and not (array.min() >= 0 and array.max() < n_actions):
            raise InvalidInput(f"A policy's actions must lie in 0..{n_actions - 1}. Got others instead.")
        array = np.eye(n_actions)[array]
    if array.dtype.kind != "f" or array.shape not in (shape, shape[1:]):
        raise InvalidInput(
            f"A policy must be actions {shape[1:2]} or {shape[:2]}, or probabilities {shape[1:]} or {shape}. "
            f"Got {array.dtype} of shape {array.shape} instead."
        )
    rows = np.array(array if array.ndim == 3 else array[None], dtype=np.float64)
    if not ((rows >= 0).all() and (np.abs(rows.sum(axis=2) - 1.0) <= 1e-9).all()):
        raise InvalidInput("Each row of a policy must be a distribution. Got one that is none instead.")
    return Table(rows[:1] if (rows == rows[0]).all() else rows)
