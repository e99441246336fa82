"""From a TOML file to trials: problems x players x settings x seeds.

A list means "each of these", for names, options and settings alike; a value that is itself a list is therefore written
as a list in a list: `walls = [[1, 2]]` is the one value [1, 2].
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, ResetFreeError, UnknownName
from resetfree.game.loop import FEEDBACK
from resetfree.problems.world import World
from resetfree.studies.folder import read_text
from resetfree.studies.trial import NamedPlayers, NamedTrial, Trial

MOST = 1_000_000  # trials
LONGEST = 100  # characters of a value that are quoted
LARGEST = 2**63 - 1  # the largest integer of run files and columnar files
TABLES = ("sweep", "problem", "players", "trial")
SWEEP = ("episodes", "seeds", "time_limit")
PROBLEM = ("id", "options", "episodes")
PLAYERS = ("primal", "dual", "feedback", "bound", "settings")
TRIAL = ("problem", "options", "episodes", "seed", *PLAYERS)
ROLES = ("primal", "dual")
DEEP = "A sweep file must be tables and lists. Got some that are nested too deep."
DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++\s*\.\s*){100}""")  # a.b.c. and so on; ours have three parts


@dataclass(frozen=True)
class SweepPlan:
    """The trials of a sweep: configurations, and the seeds of each; duplicates are removed."""

    trials: tuple[NamedTrial, ...]  # grouped by configuration, in the order of their seeds
    repeated: int = 0  # duplicates that were removed
    time_limit: float | None = None  # seconds that a trial may take, each time it is started; None: no limit

    @property
    def configurations(self) -> list[NamedTrial]:
        """The first trial of each configuration."""
        return [next(group) for _, group in itertools.groupby(self.trials, lambda trial: trial.configuration)]


def read_plan(path: Path) -> tuple[SweepPlan, str]:
    """The plan in a TOML file, and its text."""
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise InvalidInput(f"There is no sweep file '{path}'.") from error
    except OSError as error:
        raise InvalidInput(f"The sweep file '{path}' cannot be read: {error.strerror}.") from error
    except UnicodeError as error:
        raise InvalidInput(f"The sweep file '{path}' must be text in UTF-8. Got something else instead.") from error
    return parse_plan(text), text


def parse_plan(text: str) -> SweepPlan:
    """The plan that a TOML text states.

    >>> plan = parse_plan('''
    ... [sweep]
    ... episodes = 100
    ... seeds = 3
    ... [[problem]]
    ... id = "pits-v0"
    ... options.slip = [0.0, 0.1]
    ... [[players]]
    ... primal = "auto"
    ... ''')
    >>> len(plan.trials), len(plan.configurations), str(plan.trials[4])
    (6, 2, 'pits-v0 slip=0.1, auto, against auto, 100 episodes, seed 1')
    """
    if DEEP_KEY.search(text):  # the parser would take minutes
        raise InvalidInput(DEEP)
    try:
        try:
            data = tomllib.loads(text)
        except ValueError as error:  # also for an integer with more digits than Python reads
            raise InvalidInput(f"A sweep file must be TOML. It is not: {error}.") from error
        return _parsed(data)
    except RecursionError as error:
        raise InvalidInput(DEEP) from error


def _parsed(data: dict[str, Any]) -> SweepPlan:
    _known("table of a sweep file", data, TABLES)
    sweep = _table(data.get("sweep", {}), "[sweep]")
    _known("key of [sweep]", sweep, SWEEP)
    episodes = None if "episodes" not in sweep else _count(sweep["episodes"], "'episodes' of [sweep]")
    seeds = _seeds(sweep.get("seeds", 1), "'seeds' of [sweep]")
    limit = None if "time_limit" not in sweep else check_limit(sweep["time_limit"], "'time_limit' of [sweep]")
    problems = _tables(data, "problem")
    players = _tables(data, "players") or ([{}] if problems else [])
    explicit = _tables(data, "trial")
    if "players" in data and not problems:
        raise InvalidInput("A sweep file with [[players]] must have at least one [[problem]]. Got none instead.")
    total = sum(map(_size, problems)) * sum(map(_size, players)) * len(seeds)
    total += sum(_size(table) * (1 if "seed" in table else len(seeds)) for table in explicit)
    if total > MOST:  # checked before they are made
        raise InvalidInput(
            f"A sweep must have at most {MOST:,} trials. Got {f'{total:,}' if total <= LARGEST else 'more'} instead."
        )
    worlds = [world for table in problems for world in _problems(table, episodes)]
    sides = [side for table in players for side in _players(table, "[[players]]", PLAYERS)]
    trials: list[NamedTrial] = []
    for (problem, options, k), side in itertools.product(worlds, sides):
        trials += Trial(problem, options, players=side, episodes=k, seed=seeds[0]).with_seeds(seeds)
    for table in explicit:
        trials += _explicit(table, episodes, seeds)
    if not trials:
        raise InvalidInput("A sweep must have at least one trial: a [[problem]] or a [[trial]]. Got none instead.")
    unique = {trial.id: trial for trial in trials}
    together: dict[str, list[NamedTrial]] = {}
    for trial in unique.values():
        together.setdefault(trial.configuration, []).append(trial)
    ordered = tuple(trial for group in together.values() for trial in group)
    return SweepPlan(ordered, len(trials) - len(unique), limit)


def check_plan(plan: SweepPlan) -> None:
    """Make every problem and every player once, to raise InvalidInput for a mistake before any trial is played."""
    worlds: dict[str, World] = {}
    earlier: dict[str, Mapping[str, Any]] = {}  # by problem, a spec with the bound B of the oracle
    try:
        for trial in plan.configurations:
            try:
                setup = trial.prepared(worlds, earlier.get(trial.place))
            except ResetFreeError as error:
                raise InvalidInput(f"{error} (In the trial '{trial}'.)") from error
            if setup.spec["B_source"] == "oracle":
                earlier[trial.place] = setup.spec
    finally:
        for world in worlds.values():
            world.close()


def _problems(table: Mapping[str, Any], episodes: int | None) -> Iterator[tuple[str, dict[str, Any], int]]:
    _known("key of [[problem]]", table, PROBLEM)
    if "id" not in table:
        raise InvalidInput("A [[problem]] must have an 'id', as \"pits-v0\". Got none instead.")
    k = table.get("episodes", episodes)
    if k is None:
        raise InvalidInput(f"The problem '{table['id']}' must have 'episodes', its own or those of [sweep]. Got none.")
    k = _count(k, "'episodes' of [[problem]]")
    options = _table(table.get("options", {}), "the options of [[problem]]")
    for name in _names(table["id"], "'id' of [[problem]]"):
        for chosen in _product(options, "options of [[problem]]"):
            yield name, chosen, k


def _players(table: Mapping[str, Any], where: str, keys: tuple[str, ...]) -> Iterator[NamedPlayers]:
    """Every combination of the values in a table of players."""
    _known(f"key of {where}", table, keys)
    names = [_names(table.get(key, "auto"), f"'{key}' of {where}") for key in ("primal", "dual", "feedback")]
    for feedback in names[2]:
        if feedback not in ("auto", *FEEDBACK):
            raise UnknownName("feedback", feedback, ["auto", *FEEDBACK])
    bounds = _each(table.get("bound"), f"'bound' of {where}")
    for bound in bounds:
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float) or bound > LARGEST):
            raise InvalidInput(f"The 'bound' of {where} must be a number. Got {_shown(bound)} instead.")
    settings = _table(table.get("settings", {}), f"the settings of {where}")
    _known(f"group of settings of {where}", settings, ROLES)
    grids = [
        list(_product(_table(settings.get(role, {}), f"settings.{role}"), f"settings.{role} of {where}"))
        for role in ROLES
    ]
    for primal, dual, feedback, bound, first, second in itertools.product(*names, bounds, *grids):
        chosen = {role: own for role, own in zip(ROLES, (first, second), strict=True) if own}
        yield NamedPlayers(primal, dual, feedback, None if bound is None else float(bound), chosen)


def _explicit(table: Mapping[str, Any], episodes: int | None, seeds: Sequence[int]) -> Iterator[NamedTrial]:
    """A [[trial]] of its own: the same keys, with 'problem' for the id and perhaps its own seed."""
    if not isinstance(table.get("problem"), str):
        raise InvalidInput(
            f"A [[trial]] must have a 'problem', as \"pits-v0\". Got {_shown(table.get('problem'))} instead."
        )
    own = {"id": table["problem"], **{key: table[key] for key in ("options", "episodes") if key in table}}
    numbers = _seeds([table["seed"]], "'seed' of [[trial]]") if "seed" in table else seeds
    for problem, options, k in _problems(own, episodes):
        for side in _players(table, "[[trial]]", TRIAL):
            yield from Trial(problem, options, players=side, episodes=k, seed=numbers[0]).with_seeds(numbers)


def _size(table: Mapping[str, Any]) -> int:
    """The number of combinations of a table, without its seeds."""
    own = [_table(table.get("options", {}), "the options")]
    settings = _table(table.get("settings", {}), "the settings")
    own += [_table(settings.get(role, {}), f"settings.{role}") for role in ROLES]
    values = [value for grid in own for value in grid.values()]
    values += [table.get(key) for key in ("id", "primal", "dual", "feedback", "bound")]
    return math.prod(len(value) for value in values if isinstance(value, list))


def _product(grid: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Every combination of one value per key."""
    values = [_each(value, f"'{key}' in the {where}") for key, value in grid.items()]
    for chosen in itertools.product(*values):
        yield dict(zip(grid, chosen, strict=True))


def _each(value: Any, what: str) -> list[Any]:
    """The values of a key: those of a list, or a single one."""
    if isinstance(value, list) and not value:
        raise InvalidInput(f"The {what} must have at least one value. Got an empty list instead.")
    values = value if isinstance(value, list) else [value]
    for one in values:
        _check_plain(one, what)
    return values


def _check_plain(value: Any, what: str) -> None:
    if isinstance(value, list):
        for one in value:
            _check_plain(one, what)
    elif value is not None and not isinstance(value, bool | int | float | str):
        raise InvalidInput(f"The {what} must be numbers, text or lists of them. Got {type(value).__name__} instead.")


def _names(value: Any, what: str) -> list[str]:
    names = _each(value, what)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(f"The {what} must be a name or a list of names. Got {_shown(name)} instead.")
    return names


def _seeds(value: Any, what: str) -> Sequence[int]:
    """A number of seeds from 0, a list of them, or {first, count}."""
    if isinstance(value, Mapping):
        _known(f"key of {what}", value, ("first", "count"))
        first, n = value.get("first", 0), _count(value.get("count"), f"'count' in {what}")
        _seeds([first], what)
        _small(first + n, what)
        return range(first, first + n)
    if isinstance(value, list):
        for seed in value:
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                raise InvalidInput(f"The {what} must be integers from 0. Got {_shown(seed)} instead.")
            _small(seed, what)
        if not value:
            raise InvalidInput(f"The {what} must name at least one seed. Got an empty list instead.")
        return value
    return range(_count(value, what))


def _count(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInput(f"The {what} must be a positive integer. Got {_shown(value)} instead.")
    return _small(value, what)


def _small(value: int, what: str) -> int:
    if value > LARGEST:
        raise InvalidInput(f"The {what} must be below 2^63. Got {_shown(value)} instead.")
    return value


def check_limit(value: Any, what: str) -> float:
    """A time limit in seconds, checked."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise InvalidInput(f"The {what} must be a positive number of seconds. Got {_shown(value)} instead.")
    return float(value)


def _shown(value: Any) -> str:
    """A value as text for a message, shortened."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "more digits"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _table(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{what[0].upper()}{what[1:]} must be a table. Got {_shown(value)} instead.")
    return value


def _tables(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = data.get(name, [])
    if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
        raise InvalidInput(f"A '{name}' must be written [[{name}]], with two brackets. Got {_shown(value)} instead.")
    return value


def _known(kind: str, table: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in table:
        if key not in keys:
            raise UnknownName(kind, key, keys)
