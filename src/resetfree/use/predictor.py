"""A fixed policy as a function from observations of the environment to its actions.

Legend: H actions per episode, S states, A actions; h = 1..H the step of the episode.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from resetfree.core import Floats, InvalidInput, as_array, expect, flag, shown, whole
from resetfree.problems import ActionSpace, Box, ChoicePolicy, Choices, Policy, Problem
from resetfree.problems.features import FeatureMap
from resetfree.problems.finite.tabular_policy import TabularPolicy
from resetfree.problems.gym.events import Unusable
from resetfree.problems.gym.observations import CountedObservations, Numbered

KINDS = ("number", "numbered", "scalar", "vector")
FUNCTION = "function-"  # a form that begins so needs the user's function first
DEEPEST = 16  # parts in parts


@dataclass(frozen=True, eq=False)
class Sensor:
    """Converts observations to states, and recognises batches of them."""

    kind: str  # number: an integer; numbered: numbered in order of first occurrence in the run; scalar; vector
    # {"shape": [...]} of an observation, or {"parts": [...]}, for a dictionary with the "names" of them; None: unknown
    space: dict[str, Any] | None = None
    first: int = 0  # the least integer observation
    count: int = 0  # number of observations, or the most there may be
    function: Callable[[Any], Any] | None = None  # the user's own preprocessing, of the raw observation
    seen: NDArray[np.uint8] | None = field(default=None, repr=False)  # [n, 16] digests of the numbered ones

    def batch(self, observation: Any) -> list[Any] | None:
        """The observations of a batch, None for a single observation; raises InvalidInput for another shape."""
        if self.space is not None and "parts" in self.space:
            if isinstance(observation, dict):
                return _several(self.space, observation)
            return observation if isinstance(observation, list) else None
        shape = self._shape
        if shape is None or isinstance(observation, tuple | dict):
            return None
        array = as_array(observation, "observation")
        if array.shape == shape:
            return None
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
            return list(array)
        raise InvalidInput(f"An observation must have shape {shape}, or [n] of them. Got shape {array.shape} instead.")

    def __call__(self, observation: Any) -> Any:
        """The state of one observation; raises InvalidInput."""
        if self.function is not None:
            observation = self.function(observation)
            if self.kind == "vector":
                return _finite(np.array(observation, dtype=np.float64).ravel())
            observation = np.array(observation, dtype=np.float64).ravel()
        if self.kind == "number":
            return self._counted(observation)
        if self.kind == "numbered":
            return self._numbered(observation)
        try:
            state = np.array(observation, dtype=np.float64) if self.kind == "scalar" else flat(self.space, observation)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"An observation must be numbers of the shape of the training: {error}.") from error
        if self.kind == "scalar":
            if state.ndim:
                raise InvalidInput(f"An observation must be one number. Got {state.size} of them instead.")
            return np.float64(_finite(state)[()])
        return _finite(state)

    def to_plain(self) -> dict[str, Any]:
        """As data for JSON; `seen` is saved as an array of its own."""
        if self.function is not None:
            raise InvalidInput("A policy behind a function of your own cannot be written to a file: it holds no code.")
        if self.kind == "number":
            return {"kind": self.kind, "first": self.first, "count": self.count}
        if self.kind == "numbered":
            return {"kind": self.kind, "count": self.count, "space": self.space}
        return {"kind": self.kind} if self.kind == "scalar" else {"kind": self.kind, "space": self.space}

    @property
    def _shape(self) -> tuple[int, ...] | None:
        if self.kind in ("number", "scalar"):
            return ()
        return tuple(self.space["shape"]) if self.space is not None and "shape" in self.space else None

    @property
    def dimension(self) -> int | None:
        """D of vector states, None if unknown."""
        if self.kind == "scalar":
            return 1
        return size(self.space) if self.kind == "vector" and self.function is None and self.space else None

    def _counted(self, observation: Any) -> int:
        try:
            return CountedObservations(self.first, self.count)(observation)
        except Unusable as error:
            ends = f"{self.first} to {self.first + self.count - 1}"
            raise InvalidInput(
                f"An observation must be a whole number from {ends}. Got {observation!r} instead."
            ) from error

    def _numbered(self, observation: Any) -> int:
        """Its number in the run; an observation that did not occur there gets the next number, which is untrained."""
        assert self.seen is not None
        numbers = Numbered(self.count)
        numbers.seen = self.seen
        try:
            return numbers(observation)
        except Unusable as error:
            raise InvalidInput(f"The observation cannot be compared with those of the run: it {error}.") from error


def sensor_from(plain: Any, seen: NDArray[Any] | None, function: Callable[[Any], Any] | None = None) -> Sensor:
    """The sensor of what `to_plain` or `Problem.description` returned; raises InvalidInput, as a file may be edited."""
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        raise InvalidInput("it does not say how observations are read")
    kind = plain["kind"].removeprefix(FUNCTION)
    if kind != plain["kind"] and function is None:
        raise InvalidInput("its observations go through a function of your own, which only the problem has")
    space, first, count = plain.get("space"), plain.get("first", 0), plain.get("count", 0)
    if kind not in KINDS or type(first) is not int or type(count) is not int:
        raise InvalidInput(f"observations of kind {kind!r} are unknown, or badly counted")
    if kind in ("number", "numbered") and count < 1:
        raise InvalidInput("it must have at least one observation")
    if space is not None and not _is_space(space, DEEPEST):
        raise InvalidInput("the shape of its observations cannot be read")
    if kind == "vector" and space is None and function is None:
        raise InvalidInput("it does not hold the shape of its observations")
    if kind == "numbered" and (
        seen is None or seen.ndim != 2 or seen.shape[1] != 16 or seen.dtype != np.uint8 or len(seen) > count
    ):
        raise InvalidInput("the observations that it has seen cannot be read")
    return Sensor(kind, space, first, count, function=function, seen=seen if kind == "numbered" else None)


def size(space: dict[str, Any]) -> int:
    """The number of entries of an observation of this space."""
    return sum(map(size, space["parts"])) if "parts" in space else math.prod(space["shape"])


def flat(space: dict[str, Any] | None, observation: Any) -> Floats:
    """All numbers of an observation, concatenated in a new vector; raises ValueError for another shape."""
    assert space is not None
    if "names" in space:
        if not isinstance(observation, dict) or not set(space["names"]) <= set(observation):
            raise ValueError(f"it must be a dictionary with {', '.join(space['names'])}")
        return flat({"parts": space["parts"]}, [observation[name] for name in space["names"]])
    if "parts" in space:
        if len(observation) != len(space["parts"]):
            raise ValueError(f"{len(observation)} parts in place of {len(space['parts'])}")
        return np.concatenate([flat(part, one) for part, one in zip(space["parts"], observation, strict=True)])
    array = np.array(observation, dtype=np.float64)
    if array.shape != tuple(space["shape"]):
        raise ValueError(f"shape {array.shape} in place of {tuple(space['shape'])}")
    return array.ravel()


def _several(space: dict[str, Any], observation: Any) -> list[Any] | None:
    """The observations that arrays with one more axis hold; None for one observation, or what is none.

    >>> goal = {"names": ["goal"], "parts": [{"shape": [2]}]}
    >>> _several(goal, {"goal": np.array([[0.0, 1.0], [2.0, 3.0]])})
    [{'goal': array([0., 1.])}, {'goal': array([2., 3.])}]
    >>> _several(goal, {"goal": np.array([0.0, 1.0])})
    """
    if "shape" in space:
        try:
            array = np.asarray(observation)
        except ValueError:  # rows of several lengths
            return None
        more = array.ndim == len(space["shape"]) + 1 and array.shape[1:] == tuple(space["shape"])
        return list(array) if more else None
    names, parts = space.get("names"), observation
    if names is not None:
        parts = [observation.get(name) for name in names] if isinstance(observation, dict) else None
    if not isinstance(parts, list | tuple) or len(parts) != len(space["parts"]):
        return None
    found = [_several(part, one) for part, one in zip(space["parts"], parts, strict=True)]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len(set(map(len, known))) != 1:
        return None
    rows = zip(*known, strict=True)
    return list(rows) if names is None else [dict(zip(names, row, strict=True)) for row in rows]


def _is_space(space: Any, deep: int) -> bool:
    if not isinstance(space, dict) or deep == 0:
        return False
    if set(space) == {"names", "parts"}:
        names, parts = space["names"], space["parts"]
        good = isinstance(names, list) and all(isinstance(name, str) for name in names) and isinstance(parts, list)
        return good and len(set(names)) == len(names) == len(parts) and _is_space({"parts": parts}, deep)
    if set(space) == {"parts"}:
        return isinstance(space["parts"], list) and all(_is_space(part, deep - 1) for part in space["parts"])
    return (
        set(space) == {"shape"}
        and isinstance(space["shape"], list)
        and len(space["shape"]) <= DEEPEST
        and all(type(n) is int and 0 <= n < 2**31 for n in space["shape"])
    )


def _finite(state: Floats) -> Floats:
    if not np.isfinite(state).all():
        raise InvalidInput("An observation must hold finite numbers. Got one that does not instead.")
    return state


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
        self, observation: Any, state: Steps | None = None, episode_start: Any = None, deterministic: bool = True
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
