"""The request of `resetfree run`, from the command line and the resumed file, and its problem, made once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from resetfree.core.errors import InvalidInput, RunError, UnknownName
from resetfree.game.auto import choose
from resetfree.players import BASES, discover, player_class
from resetfree.players import settings as defaults_of
from resetfree.players.pairing import partner_of
from resetfree.problems.operators import CHANNELS, OperatorReset
from resetfree.problems.resolve import in_family, is_machine, option_names, parse_options
from resetfree.problems.world import World, find_world
from resetfree.runs.file.ledger import read, read_episodes_of, read_spec_of
from resetfree.runs.followed import followed
from resetfree.runs.live.places import Place, RayLearner, is_on_ray
from resetfree.runs.setup import GROUPS
from resetfree.studies.trial import NamedTrial, stored_settings

PLAYERS = ("primal", "dual", "feedback")  # fields of the players that a resumed run takes from its file
LEARNER = "learner."  # what the settings of the learner begin with
FIELDS = (*PLAYERS, "episodes", "seed")
Settings = dict[str, dict[str, Any]]


def default_file(request: NamedTrial) -> Path:
    """The default run file, named after problem, players and seed."""
    primal, dual = request.players.primal, request.players.dual
    players = "auto" if primal == dual == "auto" else f"{primal}-{dual}"
    return Path("runs") / (re.sub(r"[^\w.-]+", "-", f"{request.problem}-{players}-seed{request.seed}") + ".rfrun")


@contextmanager
def opened(request: NamedTrial, pairs: Sequence[str]) -> Iterator[tuple[World, Settings]]:
    """The problem of a run, made once and closed at the end, and the settings of its players.

    pairs: KEY=VALUE settings that the request does not hold yet. The choice of `auto` depends on the problem, and the
    owner of a bare key on the players: a key that both may have must be qualified, as problem.KEY.
    """
    names, players = option_names(request.problem), request.players
    before = {role: players.settings.get(role, {}) for role in BASES}
    if players.primal != "auto":
        primal = player_class("primal", players.primal)
        dual = partner_of(primal).dual if players.dual == "auto" else players.dual
        given = split_settings(pairs, names, players.primal, dual)
        with find_world(request.problem, request.options | given["problem"]) as world:
            yield world, {role: before[role] | given[role] for role in BASES}
        return
    if players.dual != "auto":
        player_class("dual", players.dual)  # an unknown name is refused before the problem is made
    own = _options_of_problem(pairs, names)
    with find_world(request.problem, request.options | own) as world:
        found = choose(world.problem, discover("primal").own, bound_known=True)
        dual = found.dual if players.dual == "auto" else players.dual
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


def resumed(request: NamedTrial, file: Path, pairs: Sequence[str], silent: Sequence[str]) -> NamedTrial:
    """The request with the fields that were not given (`silent`) taken from the file."""
    spec = read_spec_of(file)
    if spec["problem"] != request.problem:
        raise RunError(f"The run file '{file}' holds a run of '{spec['problem']}', not of '{request.problem}'.")
    stored = {
        **spec,
        "episodes": read_episodes_of(file),
        "primal": spec["primal"]["name"],
        "dual": spec["dual"]["name"],
    }
    given = {key.removeprefix("problem."): value for key, value in parse_options(pairs).items()}
    own, players = followed(spec, given, file), request.players
    settings: Settings = {}
    for role in BASES:
        if role in silent:
            if stored[role] not in discover(role):
                raise InvalidInput(
                    f"The run file '{file}' is of a {role} player '{stored[role]}' that is not registered, and a "
                    f"file never makes code run: name its class again, --{role} module:Class."
                )
            defaults = defaults_of(discover(role)[stored[role]])
        else:
            named = getattr(players, role)
            defaults = {} if named == "auto" else defaults_of(player_class(role, named))
        settings[role] = stored_settings(spec, role, defaults, bound=players.bound is None)
    kept = {name: stored[name] for name in silent}
    return replace(
        request,
        options={key: value for key, value in own.items() if key in spec["problem_options"] or key not in given},
        players=replace(players, settings=settings, **{key: kept.pop(key) for key in PLAYERS if key in kept}),
        **kept,
    )


def hertz(rate: str | None) -> float | str | None:
    """The argument of `--rate`: a number, or "own"."""
    if rate is None or rate == "own":
        return rate
    try:
        return float(rate)
    except ValueError:
        raise InvalidInput(
            f"The '--rate' must be a number of steps per second, or own. Got '{rate}' instead."
        ) from None


def place_of(learner: str, pairs: Sequence[str]) -> tuple[Place, list[str]]:
    """Where `--learner` says that it learns, with its own settings (learner.KEY=VALUE), and the other pairs."""
    own = {key: value for key, value in parse_options(pairs).items() if key.startswith(LEARNER)}
    others = [pair for pair in pairs if not pair.startswith(LEARNER)]
    if is_on_ray(learner):
        return RayLearner.parse(learner, {key.removeprefix(LEARNER): value for key, value in own.items()}), others
    if own:
        raise InvalidInput(f"The settings '{LEARNER}KEY' are of a learner on Ray. Got '--learner {learner}' instead.")
    return learner, others


def own_pairs(learner: RayLearner) -> list[str]:
    """The settings of a learner on Ray that are not usual, as words of a command."""
    usual = RayLearner(learner.address)
    changed = [one.name for one in fields(learner) if getattr(learner, one.name) != getattr(usual, one.name)]
    return [word for name in changed for word in ("--set", f"{LEARNER}{name}={getattr(learner, name)}")]


def require_operator(request: NamedTrial, file: Path) -> None:
    """Refuse to resume without --operator a run whose resets a person performed."""
    asks_itself = is_machine(request.problem)  # a person at this terminal
    if (
        in_family(request.problem)
        and not asks_itself
        and any(one.who != "environment" for one in read(file).interventions)
    ):
        raise InvalidInput(
            f"The run file '{file}' is of a run whose resets a person performed. "
            "Give '--operator' again (none: the environment resets itself)."
        )


def asked_by(world: World) -> OperatorReset | None:
    """The person whom the problem itself asks, None if it asks none."""
    own = getattr(world.problem, "operator", None)
    return own if isinstance(own, OperatorReset) else None


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
