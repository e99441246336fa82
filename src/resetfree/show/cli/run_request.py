"""What a run is to be, from the words of a command and the file that is resumed, and its problem, made once."""

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
    """What a run is to be, from the command line and from the file that is resumed; `opened` makes its problem."""

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
        """A name that tells runs apart."""
        players = "auto" if self.primal == self.dual == "auto" else f"{self.primal}-{self.dual}"
        words = f"{self.problem}-{players}-seed{self.seed}"
        return Path("runs") / (re.sub(r"[^\w.-]+", "-", words) + ".rfrun")


@contextmanager
def opened(request: RunRequest, pairs: Sequence[str]) -> Iterator[tuple[World, Settings]]:
    """The problem of a run, made once and closed at the end, and the settings of its players.

    pairs: KEY=VALUE of what the request does not hold yet. Which players `auto` stands for depends on the problem, and
    which bare keys are the problem's on the players: so a key that both may have must say whose it is.
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
        player_class("dual", request.dual)  # an unknown name is refused before anything is made
    own = _problem_s(pairs, names)
    with find_world(request.problem, before["problem"] | own) as world:
        found = choose(world.problem, discover("primal").own, bound_known=True)
        dual = found.dual if request.dual == "auto" else request.dual
        given = split_settings(pairs, names, found.primal, dual)
        for key in given["problem"].keys() - own.keys():
            ways = " or ".join(f"{group}.{key}" for group in GROUPS)
            raise InvalidInput(f"The setting '{key}' must say whose it is: {ways}. Got '{key}' instead.")
        yield world, {role: before[role] | given[role] for role in BASES}


def split_settings(pairs: Sequence[str], options: list[str] | None, primal: str, dual: str) -> Settings:
    """KEY=VALUE pairs by what they belong to: the problem, the primal or the dual player.

    options: those of the problem, None where any name will do.
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
            raise InvalidInput(f"The setting '{key}' must say whose it is: {ways}. Got '{key}' instead.")
        result[fits[0]][key] = value
    return result


def _problem_s(pairs: Sequence[str], names: list[str] | None) -> dict[str, Any]:
    """The pairs that are the problem's before the players are known: all that no player has, if any name will do."""
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
    """The request with what was not said again (`silent`: names of its fields) taken from the file."""
    spec = read_spec_of(file)
    if spec["problem"] != request.problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{request.problem}'.")
    stored = {**spec, "primal": spec["primal"]["name"], "dual": spec["dual"]["name"]}
    said = {key.removeprefix("problem."): value for key, value in parse_options(pairs).items()}
    own = followed(spec, said, file)
    settings: Settings = {"problem": {key: own[key] for key in spec["problem_options"]}}
    for role in BASES:
        # What is left out is either a default or told by the oracle, and comes out the same again.
        if role in silent:
            if stored[role] not in discover(role):
                raise InvalidInput(
                    f"The run file '{file}' is of a {role} player '{stored[role]}' that is not known here, and nothing "
                    f"is imported because a file names it: name its class again, --{role} module:Class."
                )
            defaults = defaults_of(discover(role)[stored[role]])
        else:
            said_again = getattr(request, role)
            defaults = {} if said_again == "auto" else defaults_of(player_class(role, said_again))
        skip = () if request.bound is None and spec["B_source"] == "given" else ("B",)
        settings[role] = {
            name: value
            for name, value in spec[role]["settings"].items()
            if name not in skip and isinstance(value, bool | int | float | str) and value != defaults.get(name)
        }
    return dataclasses.replace(request, **{name: stored[name] for name in silent}, settings=settings)


def check_nobody_is_left_out(request: RunRequest, file: Path) -> None:
    """A machine that a person was asked to reset must not reset itself because a word was forgotten."""
    if in_family(request.problem) and any(one.who != "environment" for one in read(file).interventions):
        raise InvalidInput(
            f"The run file '{file}' is of a run whose resets a person performed. "
            "Say '--operator' again (none: the environment resets itself)."
        )


def find_operator(reached: str, deadline: float | None, file: Path) -> OperatorReset | None:
    """Whom `--operator` means; a folder must be told from a word that is spelt wrong."""
    if reached == "none":
        if deadline is not None:
            raise InvalidInput("The '--operator-deadline' needs an '--operator' who is waited for. Got none instead.")
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
