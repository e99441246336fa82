"""From a TOML file to trials: problems x players x settings x seeds.

A list means "each of these", for names, options and settings alike; a value that is itself a list is therefore written
as a list in a list: `walls = [[1, 2]]` is the one value [1, 2].
"""

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

from resetfree.core import InvalidInput, ResetFreeError, Rule, check, check_names, expect, record
from resetfree.core.settings import declarations
from resetfree.game.loop import FEEDBACK
from resetfree.players import BASES
from resetfree.problems import registry
from resetfree.problems.registry import full_name
from resetfree.studies.trial import NamedPlayers, NamedTrial, Trial, read_text

T = TypeVar("T")
World: TypeAlias = tuple[str, dict[str, Any], int]  # a problem, its options, and its episodes
MOST = 1_000_000  # trials
LARGEST = 2**63 - 1  # the largest integer of run files and columnar files
DEEP = "A sweep file must be tables and lists. Got some that are nested too deep."
DEEP_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++\s*\.\s*){100}""")  # a.b.c. and so on; ours have three parts


def _is_plain(value: Any) -> bool:
    """Whether it is a number, text, or a list of such values."""
    return isinstance(value, bool | int | float | str) or (isinstance(value, list) and all(map(_is_plain, value)))


def _are_bounds(value: Any) -> bool:
    return value != [] and not any(bound > LARGEST for bound in _each(value))


Whole: TypeAlias = Annotated[int, Rule(lambda n: 0 < n <= LARGEST, "a positive integer below 2^63")]
Seed: TypeAlias = Annotated[int, Rule(lambda n: 0 <= n < LARGEST, "an integer from 0 and below 2^63")]
Seconds: TypeAlias = Annotated[float, Rule(lambda x: 0 < x <= LARGEST, "a positive number of seconds")]
Names: TypeAlias = Annotated[str | list[str], Rule(lambda names: names != [], "a name or a list of names")]
Bounds: TypeAlias = Annotated[float | list[float], Rule(_are_bounds, "a number or a list of numbers")]
Plain: TypeAlias = Annotated[
    Any, Rule(lambda x: x != [] and _is_plain(x), "a number, text, or a list of them, not empty")
]
Grid: TypeAlias = dict[str, Plain]
Tables: TypeAlias = Annotated[
    list[dict[str, Any]], Rule(lambda tables: True, "a list of tables, written with two brackets as [[problem]]")
]


@dataclass(frozen=True)
class SweepFile:
    """The tables of a sweep file."""

    sweep: dict[str, Any] = field(default_factory=dict)
    problem: Tables = field(default_factory=list)
    players: Tables = field(default_factory=list)
    trial: Tables = field(default_factory=list)


@dataclass(frozen=True)
class SweepTable:
    """[sweep]: what all trials share; 0 episodes if they are not given."""

    episodes: Whole = 0
    seeds: Any = 1  # a number of seeds from 0, a list of them, or a SeedRange
    time_limit: Seconds = 0.0  # if it is not given


@dataclass(frozen=True)
class SeedRange:
    """A table {first, count} of seeds."""

    count: Whole
    first: Seed = 0


@dataclass(frozen=True)
class ProblemTable:
    """[[problem]]: each of some problems, with each combination of options."""

    id: Names
    options: Grid = field(default_factory=dict)
    episodes: Whole = 0


@dataclass(frozen=True)
class PlayersTable:
    """[[players]]: each combination of players and settings."""

    primal: Names = "auto"
    dual: Names = "auto"
    feedback: Names = "auto"
    bound: Bounds = field(default_factory=list)  # empty if it is not given
    settings: dict[str, Grid] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialTable(PlayersTable):
    """[[trial]]: players on one problem, perhaps with a seed of their own."""

    problem: str = ""
    options: Grid = field(default_factory=dict)
    episodes: Whole = 0
    seed: Seed = -1  # if it is not given


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
    file = _read(SweepFile, data, "sweep file", "table of a sweep file")
    sweep = _read(SweepTable, file.sweep, "[sweep]")
    seeds = _seeds(sweep.seeds, "'seeds' of [sweep]")
    problems = [_read(ProblemTable, table, "[[problem]]") for table in file.problem]
    players = [_read(PlayersTable, table, "[[players]]") for table in file.players]
    explicit = [_read(TrialTable, table, "[[trial]]") for table in file.trial]
    if players and not problems:
        raise InvalidInput("A sweep file with [[players]] must have at least one [[problem]]. Got none instead.")
    players = players or [PlayersTable()]
    own_seeds = [[table.seed] if table.seed >= 0 else seeds for table in explicit]
    total = sum(map(_size, problems)) * sum(map(_size, players)) * len(seeds)
    total += sum(_size(table) * len(own) for table, own in zip(explicit, own_seeds, strict=True))
    if total > MOST:  # checked before they are made
        raise InvalidInput(
            f"A sweep must have at most {MOST:,} trials. Got {f'{total:,}' if total <= LARGEST else 'more'} instead."
        )
    worlds = [world for table in problems for world in _worlds(table, sweep.episodes)]
    trials = list(_trials(worlds, [side for table in players for side in _players(table)], seeds))
    for table, own in zip(explicit, own_seeds, strict=True):
        if not table.problem:
            raise InvalidInput("A [[trial]] must have a 'problem', as \"pits-v0\". Got none instead.")
        on = ProblemTable(table.problem, table.options, table.episodes)
        trials += _trials(_worlds(on, sweep.episodes), _players(table), own)
    if not trials:
        raise InvalidInput("A sweep must have at least one trial: a [[problem]] or a [[trial]]. Got none instead.")
    unique = {trial.id: trial for trial in trials}
    together: dict[str, list[NamedTrial]] = {}
    for trial in unique.values():
        together.setdefault(trial.configuration, []).append(trial)
    ordered = tuple(trial for group in together.values() for trial in group)
    return SweepPlan(ordered, len(trials) - len(unique), float(sweep.time_limit) or None)


def check_plan(plan: SweepPlan) -> None:
    """Make every problem and every player once, to raise InvalidInput for a mistake before any trial is played."""
    worlds: dict[str, registry.World] = {}
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
        for made in worlds.values():
            made.close()


def _trials(worlds: Sequence[World], sides: Sequence[NamedPlayers], seeds: Sequence[int]) -> Iterator[NamedTrial]:
    """Every problem with all players, seeds fastest."""
    for (problem, options, k), side in itertools.product(worlds, sides):
        yield from Trial(problem, options, side, episodes=k, seed=seeds[0]).with_seeds(seeds)


def _worlds(table: ProblemTable, episodes: int) -> list[World]:
    """Every problem of a table with its options, and its episodes, or those of [sweep]."""
    k = table.episodes or episodes
    if not k:
        raise InvalidInput(f"The problem '{table.id}' must have 'episodes', its own or those of [sweep]. Got none.")
    return [(full_name(name), options, k) for name in _each(table.id) for options in _product(table.options)]


def _players(table: PlayersTable) -> list[NamedPlayers]:
    """Every combination of the values in a table of players."""
    check_names(_each(table.feedback), ["auto", *FEEDBACK], "feedback")
    check_names(table.settings, BASES, "group of settings of [[players]]")
    grids = [_product(table.settings.get(role, {})) for role in BASES]
    settings = [{role: own for role, own in zip(BASES, pair, strict=True) if own} for pair in itertools.product(*grids)]
    bounds: list[float | None] = [float(bound) for bound in _each(table.bound)] or [None]
    names = map(_each, (table.primal, table.dual, table.feedback))
    return [NamedPlayers(*chosen) for chosen in itertools.product(*names, bounds, settings)]


def _size(table: ProblemTable | PlayersTable) -> int:
    """The number of combinations of a table, without its seeds."""
    grids = [vars(table), *(grid for grid in vars(table).values() if isinstance(grid, dict))]
    grids += list(getattr(table, "settings", {}).values())
    return math.prod(max(len(value), 1) for grid in grids for value in grid.values() if isinstance(value, list))


def _product(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of one value per key."""
    values = map(_each, grid.values())
    return [dict(zip(grid, chosen, strict=True)) for chosen in itertools.product(*values)]


def _each(value: Any) -> list[Any]:
    """The values of a key: those of a list, or a single one."""
    return value if isinstance(value, list) else [value]


def _seeds(value: Any, what: str) -> Sequence[int]:
    if isinstance(value, Mapping):
        given = record(SeedRange, value, what)
        check(given.first + given.count, Whole, f"last of the {what}")
        return range(given.first, given.first + given.count)
    if isinstance(value, list):
        expect(value, what, "name at least one seed", got="an empty list")
        for seed in value:
            check(seed, Seed, what)
        return value
    check(value, Whole, what)
    return range(value)


def _read(cls: type[T], table: dict[str, Any], where: str, kind: str = "") -> T:
    """A table as a record; an unknown key is refused with the nearest known one."""
    known: Any = cls
    check_names(table, declarations(known), kind or f"key of {where}")
    return record(cls, table, where)
