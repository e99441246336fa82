"""Logs: tables with named columns, one row per step, as rollouts of a problem.

A column is matched by its name to a sensor of the machine, to its place among them (`observation_0`), or to what else a
row may say: the action, the reward, whether the machine was reset, and where an episode ends. A row without an action
holds where the last action led. Where next observations are not given, they are those of the next row.

Legend: n rows, D numbers in an observation, A in an action.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np

from resetfree.core import Bools, Floats, InvalidInput
from resetfree.problems import Box, Episode, Problem
from resetfree.problems.gym.flattening import names_of
from resetfree.runs.data.tables import (
    ACTION,
    CUT,
    EPISODE,
    LISTED,
    OBSERVATION,
    RESET,
    REWARD,
    STEP,
    TERMINATED,
    TIME,
    Log,
    has_own_reset_state,
    observation_from,
    plain,
    walk,
    whole_number,
)

NEAR = 0.45  # the least likeness of a name that a message suggests


@dataclass(frozen=True, eq=False)
class Matched:
    """What the rows of a log say, by the columns of the machine."""

    observations: Floats  # [n, D]
    after: Floats | None  # [n, D] next observations, nan where they are not known
    actions: Floats  # [n, A], nan in rows without one
    rewards: Floats  # [n]
    used: frozenset[str]  # plain names


def matched(log: Log, problem: Problem) -> Matched:
    """The columns of a log for a problem; raises InvalidInput with the name of what is missing."""
    used: list[str] = []
    sensors = sensors_of(problem)
    observations = _vectors(log, sensors, OBSERVATION, used)
    if observations is None:
        near = get_close_matches(plain(sensors[0]), log.columns, 1, NEAR)
        raise _no_column(log, problem, f"the sensor '{sensors[0]}'", sensors[0], f"{OBSERVATION[0]}_0", near=near)
    after = _vectors(log, sensors, OBSERVATION, used, ("next_{}", "{}_next"))
    names = actions_of(problem)
    actions = _vectors(log, names, ACTION, used, missing=True)
    if actions is None:
        raise _no_column(log, problem, "the action", names[0], ACTION[0] if len(names) == 1 else f"{ACTION[0]}_0")
    paid = log.first(REWARD)
    if paid is not None:
        rewards = log.numbers(paid, missing=True)
        used.append(paid)
    elif getattr(getattr(getattr(problem, "terms", None), "rewards", None), "own", None) is not None:
        rewards = np.zeros(log.n)
    else:
        raise InvalidInput(
            f"The data {log.called} have no column for the reward: name one 'reward', or state reward=f to from_gym, a "
            f"function of the observation. They have {log.have()}."
        )
    if rewards.shape != (log.n,):
        raise InvalidInput(f"The reward of the data {log.called} must be one number in each row.")
    return Matched(observations, after, actions, rewards, frozenset(used))


def sensors_of(problem: Problem) -> list[str]:
    """[D] the names of the numbers of an observation."""
    env = getattr(problem, "env", None)
    if env is not None:
        return names_of(env.observation_space)
    if problem.n_states is not None or problem.low is None:
        return [OBSERVATION[0]]
    return [f"{OBSERVATION[0]}[{i}]" for i in range(len(problem.low))]


def actions_of(problem: Problem) -> list[str]:
    """[A] the names of the numbers of an action."""
    space = problem.actions
    size = space.size if isinstance(space, Box) else int(np.size(space[0]))
    statement = getattr(getattr(getattr(problem, "env", None), "unwrapped", None), "statement", None)
    if statement is not None and len(statement.actions) == size:  # of a machine over a wire
        return [one.name for one in statement.actions]
    return [ACTION[0]] if size == 1 else [f"{ACTION[0]}[{i}]" for i in range(size)]


def _vectors(
    log: Log,
    names: Sequence[str],
    kind: Sequence[str],
    used: list[str],
    forms: Sequence[str] = ("{}",),
    *,
    missing: bool = False,
) -> Floats | None:
    """[n, D] the columns of D numbers: by name, by place, or one column of vectors; None if there is none of them."""
    missing = missing or forms[0] != "{}"
    matches = [
        log.first([form.format(one) for form in forms for one in (plain(name), *(f"{k}_{i}" for k in kind))])
        for i, name in enumerate(names)
    ]
    found = [name for name in matches if name is not None]
    whole = log.first([form.format(one) for form in forms for one in kind])
    if len(found) == len(names):
        used += found
        columns = [log.numbers(name, missing) for name in found]
        flat = all(column.ndim == 1 for column in columns)
        vectors, whole = np.stack(columns, axis=1) if flat else columns[0].reshape(log.n, -1), found[0]
    elif whole is not None:
        used.append(whole)
        vectors = log.numbers(whole, missing).reshape(log.n, -1)
    elif not found:
        return None
    else:
        lacking = forms[0].format(names[next(i for i, name in enumerate(matches) if name is None)])
        near = get_close_matches(plain(lacking), [name for name in log.columns if name not in found], 1, NEAR)
        raise InvalidInput(
            f"The data {log.called} have no column '{lacking}', and have one for '{log.names[found[0]]}': rename the "
            f"column that holds it{_perhaps(log, near)}. They have {log.have()}."
        )
    if vectors.shape[1] != len(names):
        raise InvalidInput(
            f"The column '{log.names[whole]}' of the data {log.called} must hold {len(names)} numbers in each row "
            f"({', '.join(names[:LISTED])}). Got {vectors.shape[1]} instead."
        )
    return vectors


def _perhaps(log: Log, near: Sequence[str]) -> str:
    return f" (perhaps '{log.names[near[0]]}')" if near else ""


def _no_column(log: Log, problem: Problem, what: str, name: str, place: str, near: Sequence[str] = ()) -> InvalidInput:
    either = f"'{place}'" if plain(name) == place else f"'{name}' or '{place}'"
    return InvalidInput(
        f"The data {log.called} have no column for {what} of '{problem.name}': name one {either}{_perhaps(log, near)}. "
        f"They have {log.have()}."
    )


def episodes_of(log: Log, rows: Matched, problem: Problem) -> Iterator[Episode]:
    """The episodes of a log, as the problem sees them; raises InvalidInput with the column or row that does not fit."""
    if "done" in log.columns and log.first((*TERMINATED, *RESET, *CUT)) is None:
        raise InvalidInput(
            f"The column '{log.names['done']}' of the data {log.called} does not say whether the machine fell or its "
            "time was up: name it 'terminated' or 'truncated'."
        )
    ends, fell, cut = log.flags(TERMINATED), log.flags(RESET), log.flags(CUT)
    acts = np.asarray(~np.isnan(rows.actions).any(axis=1), dtype=np.bool_)
    for first, last in _segments(log, rows, ends | fell | cut, acts):
        yield from _segment(log, rows, problem, (first, last), acts=acts, ends=ends, fell=fell)


def unused(log: Log, rows: Matched) -> list[str]:
    """The columns of which nothing is used, by their own names."""
    known = {*rows.used, *TERMINATED, *CUT, *EPISODE, *STEP, *RESET, *TIME, *REWARD, "done"}
    return [own for name, own in log.names.items() if name not in known]


def _segments(log: Log, rows: Matched, ended: Bools, acts: Bools) -> Iterator[tuple[int, int]]:
    """First and last rows of the parts in which each row follows the one before."""
    n = log.n
    joined = np.ones(n, dtype=np.bool_)  # whether a row follows the one before it in the same episode
    joined[0] = False
    if (name := log.first(EPISODE)) is not None:
        column = list(log.columns[name])
        joined[1:] &= np.array([a == b for a, b in pairwise(column)], dtype=np.bool_)
    if (name := log.first(STEP)) is not None:
        joined[1:] &= np.diff(log.numbers(name)) == 1.0
    joined[1:] &= acts[:-1]  # a row without an action is the last of its episode
    joined[1:] &= ~ended[:-1] | ~acts[1:]  # after an end there may be one row, that shows where the action led
    if rows.after is not None:
        given = ~np.isnan(rows.after[:-1]).any(axis=1)
        joined[1:] &= ~given | (rows.after[:-1] == rows.observations[1:]).all(axis=1)
    begins = np.flatnonzero(~joined)
    yield from zip(begins.tolist(), [*(begins[1:] - 1).tolist(), n - 1], strict=True)


def _segment(
    log: Log, rows: Matched, problem: Problem, where: tuple[int, int], *, acts: Bools, ends: Bools, fell: Bools
) -> Iterator[Episode]:
    """The episodes of rows that follow each other."""
    first, last = where
    seen = list(range(first, last + 1))
    flagged = bool(ends[last] or fell[last])
    until = last  # the last row with an action that counts
    observed = [observation_from(problem, rows.observations[i]) for i in seen]
    if not acts[last]:
        until = last - 1
        flagged = flagged or (until >= first and bool(ends[until] or fell[until]))
    elif flagged and has_own_reset_state(problem):
        pass  # it has a number, which is no observation
    elif rows.after is not None and not np.isnan(rows.after[last]).any():
        observed.append(observation_from(problem, rows.after[last]))
    elif fell[last] or (ends[last] and _is_reset(problem, observed[-1], True)):
        here, then = observed[-1], last + 1
        if _is_reset(problem, here):  # the row shows the machine where it fell
            until = last - 1
        elif then < log.n and _is_reset(problem, following := observation_from(problem, rows.observations[then])):
            observed.append(following)
        else:
            raise InvalidInput(
                f"Row {last + 1} of the data {log.called} is a reset, and they do not say what was observed then, "
                "which is where the danger is: add a row after it with that observation and no action, or columns "
                f"next_... (such as 'next_{plain(sensors_of(problem)[0])}')."
            )
    if len(observed) == until - first + 1 and not flagged:  # where the last action led is not known
        until -= 1
    while first < until and _is_reset(problem, observed[0]):  # it still lies where it fell
        first, observed = first + 1, observed[1:]
    if until < first:
        return
    part = slice(first, until + 1)
    if np.isnan(rows.rewards[part]).any():
        row = first + int(np.isnan(rows.rewards[part]).argmax()) + 1
        raise InvalidInput(f"The reward of the data {log.called} must be a number in each row. Got none in row {row}.")
    stops = ends[part].copy()
    stops[-1] = flagged
    actions = [_native(problem, one) for one in rows.actions[part]]
    forced = bool(fell[until] or fell[last])
    yield from walk(observed, actions, rows.rewards[part], stops, problem, fell=forced)


def _is_reset(problem: Problem, observation: Any, terminated: bool = False) -> bool:
    """Whether the problem sees by the observation, and a termination, that the machine has fallen."""
    return not has_own_reset_state(problem) and problem.recorded(observation, 0.0, terminated, {}).reset


def _native(problem: Problem, vector: Floats) -> Any:
    """An action in the form of the problem's environment, as one compares it with those to choose from."""
    if isinstance(problem.actions, Box):
        return vector
    one = problem.actions[0]
    return whole_number(vector[0]) if np.ndim(one) == 0 else vector.reshape(np.shape(one))
