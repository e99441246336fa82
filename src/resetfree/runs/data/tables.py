"""Recorded numbers as episodes of a problem, which sees itself where a reset was: rollouts and tables.

Tables have named columns, of any kind, by the plain names of their columns; what columns are called.

Legend: n rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from resetfree.core import Bools, Floats, InvalidInput, arguments, expect, shown
from resetfree.core.arguments import MOST_ENTRIES
from resetfree.problems import Box, Episode, Problem
from resetfree.problems.gym.flattening import ends_of, names_of

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
    yield from walk(_in_parts(observations, problem), parts["actions"], given, ends, problem)


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


def _in_parts(observations: Any, problem: Problem) -> Any:
    """Observations of several parts that are given as numbers in the order of `names_of`, by their parts."""
    space: Any = getattr(getattr(problem, "env", None), "observation_space", None)
    several = isinstance(space, spaces.Dict | spaces.Tuple)
    if not several or isinstance(observations, Mapping | tuple) or isinstance(_at(observations, 0), Mapping | tuple):
        return observations
    names, given = names_of(space), arguments.array(observations, "observations of the data")
    keys = f", or arrays by name ({', '.join(map(str, space.spaces))})" if isinstance(space, spaces.Dict) else ""
    must = f"be {len(names)} numbers each, {', '.join(names[:LISTED])}{keys}"
    expect(given.shape[1:] == (len(names),), "observations of the data", must, got=f"an array {list(given.shape)}")
    return [observation_from(problem, one) for one in given]


def observation_from(problem: Problem, vector: Floats) -> Any:
    """An observation in the form of the problem's environment."""
    env = getattr(problem, "env", None)
    if env is not None:
        return _shaped(env.observation_space, vector)[0]
    if problem.n_states is not None:
        return whole_number(vector[0])
    return vector if problem.low is not None else float(vector[0])


def _shaped(space: spaces.Space[Any], vector: Floats) -> tuple[Any, Floats]:
    """An observation of a space from the numbers of `names_of`, and those that are left."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = list(space.spaces.items()) if isinstance(space, spaces.Dict) else list(enumerate(space.spaces))
        made = {}
        for key, part in parts:
            made[key], vector = _shaped(part, vector)
        return (made if isinstance(space, spaces.Dict) else tuple(made.values())), vector
    if ends_of(space) is None:
        return None, vector
    shape = space.shape or ()
    size = math.prod(shape)
    own, rest = vector[:size], vector[size:]
    return (whole_number(own[0]) if isinstance(space, spaces.Discrete) else own.reshape(shape)), rest


def whole_number(number: float) -> Any:
    """A number as an integer, if it is one."""
    return int(number) if float(number).is_integer() else float(number)


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


OBSERVATION = ("observation", "observations", "obs", "state", "states")
ACTION = ("action", "actions", "act", "command", "u")
REWARD = ("reward", "rewards", "r")
TERMINATED = ("terminated", "terminations", "termination", "terminals", "terminal")
RESET = ("reset", "resets")
CUT = ("truncated", "truncations", "truncation", "timeouts", "timeout")
EPISODE = ("episode", "episodes", "episode_id", "round", "trajectory")
STEP = ("step", "steps")
TIME = ("t", "time", "timestamp", "seconds", "date", "datetime", "index", "unnamed_0")  # known, and not used
BREAKS = (*CUT, *EPISODE, *STEP, *RESET)  # columns that only a table of several episodes has
LISTED = 12  # names of columns in a message
TRUE, FALSE, MISSING = ("true", "yes", "t"), ("false", "no", "f"), ("", "nan", "null", "none", "na")


def plain(name: Any) -> str:
    """A name in lower case, its words joined by underscores.

    >>> plain("observation[0]"), plain("Arm.Angle 2"), plain("obs3")
    ('observation_0', 'arm_angle_2', 'obs_3')
    """
    text = re.sub(r"[^a-z0-9]+", "_", str(name).lower()).strip("_")
    found = re.fullmatch(rf"((?:next_)?(?:{'|'.join((*OBSERVATION, *ACTION))}))(\d+)", text)
    return f"{found[1]}_{found[2]}" if found else text


def is_log(source: Any) -> bool:
    """Whether it is a table with named columns, or a list of rows; arrays by name of one rollout are none."""
    if isinstance(source, Mapping):
        return _is_mapped_log(source)
    if isinstance(source, Sequence) and not isinstance(source, str):
        return bool(source) and isinstance(source[0], Mapping) and _is_row(source[0])
    return hasattr(source, "__getitem__") and (hasattr(source, "columns") or hasattr(source, "column_names"))


def _is_row(row: Mapping[Any, Any]) -> bool:
    """Whether it is one step: what a step has once is a number, and no list of them."""
    once = [value for name, value in row.items() if plain(name) in (*REWARD, *TERMINATED, *BREAKS)]
    return all(np.ndim(value) == 0 for value in once or row.values())


def _is_mapped_log(source: Mapping[Any, Any]) -> bool:
    observations, actions = part_of(source, "observations"), part_of(source, "actions")
    if observations is None:
        return True
    try:
        same = not isinstance(observations, Mapping | tuple) and len(observations) == len(actions)
    except TypeError:
        return False
    names = {plain(name) for name in source}
    several = bool(names & {*BREAKS, *(f"next_{name}" for name in OBSERVATION)})
    return same and (several or part_of(source, "terminated") is None)


@dataclass(frozen=True)
class Log:
    """A table by the plain names of its columns."""

    called: str  # what messages call it
    columns: Mapping[str, Any] = field(repr=False)  # by plain name, [n] or [n, ...] each
    names: Mapping[str, str]  # plain name -> its own
    n: int

    @classmethod
    def of(cls, source: Any, called: str) -> Log:
        """A table of any kind: a dictionary of columns, a list of rows, a DataFrame or an Arrow table."""
        if isinstance(source, Mapping):
            own = dict(source)
        elif isinstance(source, Sequence):
            own = {name: [_cell(row, name, i, called) for i, row in enumerate(source, 1)] for name in source[0]}
        else:
            names = source.column_names if hasattr(source, "column_names") else source.columns
            try:
                own = {name: source[name] for name in names}
            except Exception as error:
                raise InvalidInput(
                    f"The data must be a table whose columns can be read, such as a DataFrame. "
                    f"Got {type(source).__name__} instead (collect a lazy one first)."
                ) from error
        columns: dict[str, Any] = {}
        names_of_columns: dict[str, str] = {}
        for name, column in own.items():
            if plain(name) in columns:
                raise InvalidInput(
                    f"The data {called} have two columns that read alike, '{names_of_columns[plain(name)]}' and "
                    f"'{name}': remove one."
                )
            columns[plain(name)], names_of_columns[plain(name)] = column, str(name)
        sizes = {own: _column_length(columns[name], own, called) for name, own in names_of_columns.items()}
        n = max(sizes.values(), default=0)
        for name, size in sizes.items():
            expect(size == n, f"data {called}", f"have columns of one length, {n}", got=f"{size} in '{name}'")
        if n == 0:
            raise InvalidInput(f"The data {called} hold no rows.")
        return cls(called, columns, names_of_columns, n)

    def first(self, names: Sequence[str]) -> str | None:
        """The first of these names that a column has."""
        return next((name for name in names if name in self.columns), None)

    def numbers(self, name: str, missing: bool = False) -> Floats:
        """[n, ...] a column of numbers, Booleans or vectors of one length.  missing: whether entries may be nan."""
        column = self.columns[name]
        try:
            found = np.asarray(column)
            if found.dtype.kind not in "biuf":
                whole = found.tolist() if found.dtype.kind == "U" else list(column)
                found = np.array([_number(one) for one in whole], dtype=np.float64)
            found = found.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            bad = next((i for i, one in enumerate(column) if not _is_number(one)), 0)
            raise InvalidInput(
                f"The column '{self.names[name]}' of the data {self.called} must hold numbers, of one length in every "
                f"row. Got {shown(list(column)[bad])} in row {bad + 1} instead."
            ) from error
        bad_rows = np.isinf(found) if missing else ~np.isfinite(found)
        if bad_rows.any():
            row = int(np.argwhere(bad_rows)[0][0]) + 1
            raise InvalidInput(
                f"The column '{self.names[name]}' of the data {self.called} must hold a number in every row. Got none "
                f"in row {row} instead: fill it, or remove the row, with other numbers in a column 'episode' after it."
            )
        return found

    def flags(self, names: Sequence[str]) -> Bools:
        """[n] a column of True and False; all False if there is none."""
        name = self.first(names)
        if name is None:
            return np.zeros(self.n, dtype=np.bool_)
        found = self.numbers(name)
        if found.shape != (self.n,) or not np.isin(found, (0, 1)).all():
            raise InvalidInput(
                f"The column '{self.names[name]}' of the data {self.called} must be True or False in every row. "
                f"Got {shown(found.ravel()[~np.isin(found.ravel(), (0, 1))][:1].tolist())} instead."
            )
        return found.astype(np.bool_)

    def have(self) -> str:
        """The names of the columns, for a message."""
        own = list(self.names.values())
        return ", ".join(own[:LISTED]) + (f" and {len(own) - LISTED} more" if len(own) > LISTED else "")


def _cell(row: Any, name: Any, i: int, called: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        raise InvalidInput(f"Each row of the data {called} must have a '{name}', as the first one. Row {i} has none.")
    return row[name]


def _column_length(column: Any, name: str, called: str) -> int:
    try:
        n = len(column)
    except TypeError as error:
        raise InvalidInput(
            f"The column '{name}' of the data {called} must be a list. Got {shown(column)} instead."
        ) from error
    expect(n <= MOST_ENTRIES, f"data {called}", f"have at most {MOST_ENTRIES:,} rows", got=f"{n:,}")
    return n


def _number(one: Any) -> Any:
    """A cell as a number or a list of them; nan where it is empty."""
    if one is None:
        return math.nan
    if isinstance(one, str):
        text = one.strip().lower()
        if text in (*TRUE, *FALSE):
            return float(text in TRUE)
        return math.nan if text in MISSING else float(text)
    if np.ndim(one) == 0:
        return float(one)
    return np.asarray(one, dtype=np.float64)


def _is_number(one: Any) -> bool:
    try:
        _number(one)
    except (TypeError, ValueError, OverflowError):
        return False
    return True
