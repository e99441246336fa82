"""From recorded observations, actions and rewards to episodes of a problem, which sees itself where a reset was."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from resetfree.core import arguments
from resetfree.core.arguments import shown
from resetfree.core.arrays import Floats
from resetfree.core.errors import InvalidInput
from resetfree.core.settings import expect
from resetfree.problems.action_spaces import Box
from resetfree.problems.contract import Episode, Problem

# What a rollout may call its arrays, ours first.
KEYS = {
    "observations": ("observations", "observation", "obs"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminated": ("terminated", "terminations", "terminals"),
}
ROUNDING = 1e-3  # of the width of the box, by which an action may lie outside
ROLLOUT = "a list of (observation, action, reward, terminated, truncated, next_observation), or arrays by name"


def by_name(steps: Sequence[Any]) -> dict[str, Any]:
    """A list of steps by name: observations are those before the action, and the last one after it, if it is there."""
    if not isinstance(steps, Sequence) or not all(isinstance(step, tuple) and len(step) in (5, 6) for step in steps):
        raise InvalidInput(f"An episode of the data must be {ROLLOUT}.")
    after = [step[5] for step in steps[-1:] if len(step) == 6]
    names = ("observations", "actions", "rewards", "terminated")
    found = {name: [step[i] for step in steps] for i, name in enumerate(names)}
    return {**found, "observations": [*found["observations"], *after]}


def part_of(arrays: Mapping[str, Any], name: str) -> Any:
    """The array of a rollout that is called so, None if there is none."""
    return next((arrays[key] for key in KEYS[name] if key in arrays), None)


def rollout(arrays: Mapping[str, Any], problem: Problem) -> Iterator[Episode]:
    """Episodes of the problem from one rollout: it is cut where the problem sees a reset."""
    parts = {name: part_of(arrays, name) for name in KEYS}
    missing = [name for name, part in parts.items() if part is None]
    if missing:
        raise InvalidInput(f"An episode of the data must have {', '.join(KEYS)}. Got none of '{missing[0]}' instead.")
    observations, n = parts["observations"], _count(parts["actions"])
    length = _length(observations)
    if n == 0 or {_count(parts["rewards"]), _count(parts["terminated"])} != {n} or length - n not in (0, 1):
        raise InvalidInput(
            "An episode of the data must have one reward and one end per action, and one more observation."
        )
    given, ends = (arguments.array(parts[name], f"{name} of the data") for name in ("rewards", "terminated"))
    expect(given.shape == (n,), "rewards of the data", "be one number per action", parts["rewards"])
    expect(
        ends.shape == (n,) and np.isin(ends, (0, 1)).all(),
        "'terminated' of the data",
        "be True or False for each action",
        parts["terminated"],
    )
    if length == n and ends[-1] and problem.n_states is None:
        raise InvalidInput(
            "The last observation of an episode that terminated must be there: it is where the danger is. "
            "Give it as the sixth entry of its last step, or n + 1 observations."
        )
    yield from walk(observations, parts["actions"], given, ends, problem)


def walk(
    observations: Any, actions: Any, rewards: Floats, ends: NDArray[Any], problem: Problem, *, fell: bool = False
) -> Iterator[Episode]:
    """The episodes of one rollout of n actions, cut where the problem sees a reset.

    observations: n + 1, or n where it is not known where the last action led.  ends: [n] terminations.
    fell: whether the last action led to a reset, whatever the problem sees.
    """
    n, known = len(rewards), _length(observations)
    own, n_states = has_own_reset_state(problem), problem.n_states or 0
    states, taken, paid = [problem.recorded(_at(observations, 0), None, False, {}).state], [], []
    in_reset = False  # whether the machine still lies where it fell: what it does there is no part of an episode
    for h in range(n):
        last, seen = h == n - 1, _at(observations, min(h + 1, known - 1))
        step = problem.recorded(seen, float(rewards[h]), bool(ends[h]), {})
        reset, action = step.reset or (fell and last), as_action(actions[h], problem)
        if not in_reset:
            taken.append(action)
            paid.append(step.reward)
            states.append(n_states - 1 if reset and own else step.state)
        if reset:
            if not in_reset:
                yield _made(states, taken, paid, True, problem)
            in_reset, taken, paid = not ends[h], [], []
            states = [] if in_reset or last else [problem.recorded(seen, None, False, {}).state]
        elif in_reset:
            in_reset, states = False, [step.state]
    if known == n:  # where the last action led is not known
        states, taken, paid = states[:-1], taken[:-1], paid[:-1]
    if taken:
        yield _made(states, taken, paid, False, problem)


def has_own_reset_state(problem: Problem) -> bool:
    """Whether the reset state is the last number, and none of those of observations: so in counted environments."""
    return problem.n_states is not None and getattr(problem, "env", None) is not None


def _made(states: list[Any], actions: list[Any], rewards: list[float], reset: bool, problem: Problem) -> Episode:
    dtype: Any = np.int64 if problem.n_states is not None else np.float64
    seen = arguments.array(states, "observations of the data", dtype)
    return Episode(seen, problem.actions.stack(actions), np.array(rewards), reset, None)


def _at(observations: Any, i: int) -> Any:
    """Observation i, where dictionaries and tuples hold arrays of all of them."""
    if isinstance(observations, Mapping):
        return {key: _at(part, i) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(_at(part, i) for part in observations)
    return observations[i]


def _length(observations: Any) -> int:
    if isinstance(observations, Mapping):
        return min(map(_length, observations.values()), default=0)
    return min(map(_length, observations), default=0) if isinstance(observations, tuple) else _count(observations)


def _count(part: Any) -> int:
    """The length of a list, an array or what else has one; raises InvalidInput."""
    try:
        return len(part)
    except TypeError as error:
        raise InvalidInput(f"An episode of the data must be {ROLLOUT}. Got {shown(part)} in it instead.") from error


def as_action(native: Any, problem: Problem) -> Any:
    """The action of the problem for one as the environment takes it."""
    space = problem.actions
    if isinstance(space, Box):
        vector, (low, high) = arguments.array(native, "actions of the data").ravel(), space.ends
        if vector.shape != (space.size,) or not np.isfinite(vector).all():
            raise InvalidInput(f"An action of the data must be {space}. Got {str(native)[:40]} instead.")
        if (np.abs(vector - space.clip(vector)) > ROUNDING * (high - low)).any():
            raise InvalidInput(
                f"An action of the data must be {space}, as '{problem.name}' takes it. Got {shown(vector.tolist())} "
                "instead: if it is in other units, convert it."
            )
        return space.clip(vector)
    for i, own in enumerate(space):
        if np.array_equal(own, native):
            return i
    raise InvalidInput(f"An action of the data must be {space}, as '{problem.name}' has them. Got {native!r} instead.")
