"""Tables with named columns, of any kind, by the plain names of their columns; what columns are called.

Legend: n rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from resetfree.core.arguments import MOST_ENTRIES, shown
from resetfree.core.arrays import Bools, Floats
from resetfree.core.errors import InvalidInput
from resetfree.runs.data.rollouts import part_of

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
        sizes = {own: _length(columns[name], own, called) for name, own in names_of_columns.items()}
        n = max(sizes.values(), default=0)
        for name, size in sizes.items():
            if size != n:
                raise InvalidInput(
                    f"The data {called} must have columns of one length, {n}. Got {size} in '{name}' instead."
                )
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


def _length(column: Any, name: str, called: str) -> int:
    try:
        n = len(column)
    except TypeError as error:
        raise InvalidInput(
            f"The column '{name}' of the data {called} must be a list. Got {shown(column)} instead."
        ) from error
    if n > MOST_ENTRIES:
        raise InvalidInput(f"The data {called} must have at most {MOST_ENTRIES:,} rows. Got {n:,} instead.")
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
