"""All transitions of a run as columns: for analyses, for other programs, and as data for another run.

Rewards are those before scaling. Where the last action of an episode moves nothing (problems of H - 1 transitions), the
next state is unknown: -1 among numbers, nan in vectors.
"""

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from resetfree.core import InvalidInput, RunError, arguments, expect
from resetfree.problems import Episode, Problem
from resetfree.runs.file.recorded import unpacked
from resetfree.runs.file.runfile import damaged, read_columns, read_played, read_problem, read_spec, reading, unfit
from resetfree.runs.result import MOST_KEPT, Run

Columns: TypeAlias = dict[str, NDArray[Any]]
NAMES = ("round", "step", "state", "action", "reward", "reset", "next_state")
UNKNOWN = -1  # the next state, among numbers
ROUNDING = 1e-6  # relative, of returns that were summed in another order


def transitions(run: Run | str | Path) -> Columns:
    """The transitions of a run, one row each: round, step (from 1), state, action, reward, reset, next state.

    run: a run of this process, or one with a file, or its path.

    >>> import resetfree as rf, tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = rf.learn("grid-v0", episodes=3, path=Path(folder) / "a.rfrun")
    ...     found = rf.transitions(run)
    >>> {name: column[:4].tolist() for name, column in found.items() if name in ("round", "step", "state")}
    {'round': [1, 1, 1, 2], 'step': [1, 2, 3, 1], 'state': [11, 11, 10, 0]}
    """
    return columns_of_episodes(list(enumerate(unscaled_episodes(source_of(run)), 1)))


def source_of(run: Run | str | Path) -> Run | Path:
    """Where the transitions of a run are: its file, or the run itself if it has none."""
    if not isinstance(run, Run):
        return arguments.path(run, "'run' of transitions")
    if run.path is not None:
        return run.path
    if run.played is None:
        raise InvalidInput(
            f"A run without a file keeps its transitions up to {MOST_KEPT:,} steps, in the process that played it: "
            "give it a 'path' when it is made."
        )
    return run


def columns_of_episodes(rows: list[tuple[int, Episode]]) -> Columns:
    """Numbered episodes as columns."""
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in NAMES}
    for k, episode in rows:
        n, states = len(episode.actions), episode.states
        after = states[1:]
        if len(states) == n:  # nothing is known of where the last action led
            fill = UNKNOWN if states.dtype.kind in "iu" else math.nan
            after = np.concatenate([after, np.full_like(states[:1], fill)])
        values = (np.full(n, k), np.arange(1, n + 1), states[:n], episode.actions, episode.rewards)
        ends = (np.arange(1, n + 1) == n) & episode.reset
        for name, value in zip(NAMES, (*values, ends, after), strict=True):
            parts[name].append(np.asarray(value))
    if not rows:
        raise InvalidInput("There are no transitions: no round was played.")
    return {name: np.concatenate(values) for name, values in parts.items()}


def unscaled_episodes(source: Run | Path) -> Iterator[Episode]:
    """The episodes of a run or its file in order, with rewards before scaling; raises RunError for a damaged file."""
    if isinstance(source, Run):
        low, high = (None if source.problem is None else source.problem.units) or (0.0, 1.0)
        # Where a run was stopped by an error, the last rounds may not be part of it.
        for (form, data), reset in zip(source.played or (), source.columns["reset"].tolist(), strict=False):
            states, actions, rewards = unpacked(form, data)
            if len(actions):
                yield _unscaled(Episode(states, actions, rewards, bool(reset), None), low, high)
        return
    path = source
    with reading(path) as connection:
        spec = read_spec(connection, path)
        columns, fit = read_columns(connection, path)
        if not fit.whole:
            raise unfit(path, fit)
        low, high = units_of(connection, spec, columns, path)
        for played in read_played(connection, path, 1, len(columns["k"])):
            if len(played.episode.actions):
                yield _unscaled(played.episode, low, high)


def _unscaled(one: Episode, low: float, high: float) -> Episode:
    rewards = one.rewards if (low, high) == (0.0, 1.0) else low + one.rewards * (high - low)
    return Episode(one.states, one.actions, rewards, one.reset, one.next_start, goals=one.goals)


def episodes_for(run: Run | Path, problem: Problem) -> Iterator[Episode]:
    """The same for another problem, in which states may have other numbers (`Problem.renumbered`)."""
    source = source_of(run)
    if isinstance(source, Run):
        before, saved = source.spec["n_states"], {} if source.problem is None else source.problem.saved()
    else:
        with reading(source) as connection:
            before, saved = read_spec(connection, source)["n_states"], read_problem(connection, source)
    numbers = problem.renumbered(saved)
    for one in unscaled_episodes(source):
        yield one if numbers is None else replace(one, states=_states(one.states, numbers, before, problem))


def _states(states: NDArray[Any], numbers: NDArray[np.int64], before: Any, problem: Problem) -> NDArray[np.int64]:
    """The states of an episode by their new numbers; the last one of all is the reset state in both."""
    if states.ndim != 1 or states.dtype.kind not in "iu" or not isinstance(before, int) or not len(numbers):
        raise InvalidInput(f"The data do not fit '{problem.name}': their states are no numbers.")
    ends = states == before - 1
    inner = np.where(ends, 0, states)
    if inner.min(initial=0) < 0 or inner.max(initial=0) >= len(numbers):
        raise InvalidInput(f"The data do not fit '{problem.name}': a state in them was never observed.")
    assert problem.n_states is not None
    return np.where(ends, problem.n_states - 1, numbers[inner])


def units_of(connection: sqlite3.Connection, spec: dict[str, Any], columns: Columns, path: Path) -> tuple[float, float]:
    """The rewards that became 0 and 1 in a run file: as they were learned or stated, else from its returns."""
    found = read_problem(connection, path).get("units", spec.get("units"))
    if found is not None:
        low, high = _pair(found, path)
        return low, high
    own = columns["original_return"]
    if np.array_equal(own, columns["reward"]):
        return 0.0, 1.0  # rewards were never scaled
    # return = low steps + (high - low) (sum of scaled rewards), in every round
    sums = np.stack([columns["steps"].astype(np.float64), columns["reward"]], axis=1)
    (low, width), _, rank, _ = np.linalg.lstsq(sums, own, rcond=None)
    if rank < 2 or not np.allclose(sums @ [low, width], own, rtol=ROUNDING, atol=ROUNDING):
        raise RunError(
            f"The run file '{path}' does not say how its rewards were scaled: state reward_range in its run."
        )
    return float(low), float(low + width)


def _pair(found: Any, path: Path) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in found)
        if not -math.inf < low < high < math.inf:
            raise ValueError(f"its rewards are scaled from {low:g} to {high:g}")
    except (TypeError, ValueError) as error:
        raise damaged(path, error) from error
    return low, high


def about_file(path: Path) -> dict[str, Any]:
    """What a file of transitions says of itself beside the columns."""
    with reading(path) as connection:
        spec = read_spec(connection, path)
    return {key: spec[key] for key in ("problem", "horizon", "seed")} | {"run": path.name}


def described(about: dict[str, Any]) -> str:
    """The same as text, for a file."""
    expect(isinstance(about, dict), "'about' of transitions", "be a dictionary", about)
    return json.dumps(about, allow_nan=False)
