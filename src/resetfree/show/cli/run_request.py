"""The request of `resetfree run`, from the command line and the resumed file, and its problem, made once."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, RunError, UnknownName
from resetfree.game.auto import choose
from resetfree.players import BASES, discover, player_class
from resetfree.players import settings as defaults_of
from resetfree.players.pairing import partner_of
from resetfree.problems.operators import CHANNELS, OperatorReset
from resetfree.problems.resolve import in_family, option_names, parse_options
from resetfree.problems.world import World, find_world
from resetfree.runs.followed import followed
from resetfree.runs.ledger import read, read_spec_of
from resetfree.runs.setup import GROUPS

Settings = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """A run to make or resume; `opened` makes its problem."""

    problem: str
    primal: str
    dual: str
    episodes: int
    seed: int
    feedback: str
    bound: float | None = None
    settings: Settings = dataclasses.field(default_factory=dict)

    @property
    def default_file(self) -> Path:
        """The default run file, named after problem, players and seed."""
        players = "auto" if self.primal == self.dual == "auto" else f"{self.primal}-{self.dual}"
        words = f"{self.problem}-{players}-seed{self.seed}"
        return Path("runs") / (re.sub(r"[^\w.-]+", "-", words) + ".rfrun")


@contextmanager
def opened(request: RunRequest, pairs: Sequence[str]) -> Iterator[tuple[World, Settings]]:
    """The problem of a run, made once and closed at the end, and the settings of its players.

    pairs: KEY=VALUE settings that the request does not hold yet. The choice of `auto` depends on the problem, and the
    owner of a bare key on the players: a key that both may have must be qualified, as problem.KEY.
    """
    names = option_names(request.problem)
    before = {group: request.settings.get(group, {}) for group in GROUPS}
    if request.primal != "auto":
        primal = player_class("primal", request.primal)
        dual = partner_of(primal).dual if request.dual == "auto" else request.dual
        given = split_settings(pairs, names, request.primal, dual)
        with find_world(request.problem, before["problem"] | given["problem"]) as world:
            yield world, {role: before[role] | given[role] for role in BASES}
        return
    if request.dual != "auto":
        player_class("dual", request.dual)  # an unknown name is refused before the problem is made
    own = _options_of_problem(pairs, names)
    with find_world(request.problem, before["problem"] | own) as world:
        found = choose(world.problem, discover("primal").own, bound_known=True)
        dual = found.dual if request.dual == "auto" else request.dual
        given = split_settings(pairs, names, found.primal, dual)
        for key in given["problem"].keys() - own.keys():
            ways = " or ".join(f"{group}.{key}" for group in GROUPS)
            raise InvalidInput(f"The setting '{key}' must name its owner: {ways}. Got '{key}' instead.")
        yield world, {role: before[role] | given[role] for role in BASES}


def split_settings(pairs: Sequence[str], options: list[str] | None, primal: str, dual: str) -> Settings:
    """KEY=VALUE pairs by their owner: the problem, the primal or the dual player.

    options: names of the problem's options, None if it takes any.
    """
    names: dict[str, list[str] | None] = {
        "problem": options,
        "primal": list(defaults_of(player_class("primal", primal))),
        "dual": list(defaults_of(player_class("dual", dual))),
    }
    result: Settings = {group: {} for group in GROUPS}
    for key, value in parse_options(pairs).items():
        group, dot, name = key.partition(".")
        if dot and group in GROUPS:
            result[group][name] = value
            continue
        fits = [group for group in GROUPS if key in (names[group] or ())]
        if not fits and names["problem"] is None:
            fits = ["problem"]
        if not fits:
            raise UnknownName("setting", key, sorted({name for group in GROUPS for name in names[group] or ()}))
        if len(fits) > 1:
            ways = " or ".join(f"{group}.{key}" for group in fits)
            raise InvalidInput(f"The setting '{key}' must name its owner: {ways}. Got '{key}' instead.")
        result[fits[0]][key] = value
    return result


def _options_of_problem(pairs: Sequence[str], names: list[str] | None) -> dict[str, Any]:
    """The pairs that belong to the problem before the players are known."""
    result = {}
    for key, value in parse_options(pairs).items():
        group, dot, name = key.partition(".")
        if dot and group == "problem":
            result[name] = value
        elif key in names if names is not None else group not in BASES and key not in _settings_of_players():
            result[key] = value
    return result


@cache
def _settings_of_players() -> set[str]:
    return {name for role in BASES for player in discover(role).values() for name in defaults_of(player)}


def resumed(request: RunRequest, file: Path, pairs: Sequence[str], silent: Sequence[str]) -> RunRequest:
    """The request with the fields that were not given (`silent`) taken from the file."""
    spec = read_spec_of(file)
    if spec["problem"] != request.problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{request.problem}'.")
    stored = {**spec, "primal": spec["primal"]["name"], "dual": spec["dual"]["name"]}
    given = {key.removeprefix("problem."): value for key, value in parse_options(pairs).items()}
    own = followed(spec, given, file)
    settings: Settings = {"problem": {key: own[key] for key in spec["problem_options"]}}
    for role in BASES:
        # What is left out is a default or comes from the oracle, and will be the same again.
        if role in silent:
            if stored[role] not in discover(role):
                raise InvalidInput(
                    f"The run file '{file}' is of a {role} player '{stored[role]}' that is not registered, and a "
                    f"file never makes code run: name its class again, --{role} module:Class."
                )
            defaults = defaults_of(discover(role)[stored[role]])
        else:
            named = getattr(request, role)
            defaults = {} if named == "auto" else defaults_of(player_class(role, named))
        skip = () if request.bound is None and spec["B_source"] == "given" else ("B",)
        settings[role] = {
            name: value
            for name, value in spec[role]["settings"].items()
            if name not in skip and isinstance(value, bool | int | float | str) and value != defaults.get(name)
        }
    return dataclasses.replace(request, **{name: stored[name] for name in silent}, settings=settings)


def require_operator(request: RunRequest, file: Path) -> None:
    """Refuse to resume without --operator a run whose resets a person performed."""
    if in_family(request.problem) and any(one.who != "environment" for one in read(file).interventions):
        raise InvalidInput(
            f"The run file '{file}' is of a run whose resets a person performed. "
            "Give '--operator' again (none: the environment resets itself)."
        )


def find_operator(reached: str, deadline: float | None, file: Path) -> OperatorReset | None:
    """The operator that `--operator` names; a folder must be distinguishable from a misspelt name."""
    if reached == "none":
        if deadline is not None:
            raise InvalidInput("The '--operator-deadline' needs an '--operator'. Got none instead.")
        return None
    name = reached.partition(":")[0]
    if CHANNELS.knows(name):
        address = file.with_name(f"{file.name}.operator.json") if CHANNELS.find(name).takes_address else None
        return OperatorReset(by=reached, deadline=deadline, address=address)
    if os.sep in reached or Path(reached).is_dir():
        return OperatorReset(by=Path(reached), deadline=deadline)
    if ":" in reached:
        return OperatorReset(by=reached, deadline=deadline)
    raise InvalidInput(
        "The '--operator' must be terminal, http, http:PORT, none or a folder (one that exists, or with a "
        f"'{os.sep}' in its name). Got '{reached}' instead."
    )
