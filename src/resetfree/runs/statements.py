"""The statements of a run's players about themselves, recomputed by the players and never read from a file.

A file is untrusted: `covered = true` is one edit away. So both players are made again from their names and settings, on
the problem of the run, and their statements are computed again; those of the file are only compared with them. Only
registered players and problems are made (or those that are given), and nothing that a file names is imported. That the
settings in the file are those that were played is checked by `--replay`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from resetfree.core.arguments import shown, words
from resetfree.core.errors import NotCertifiable, ResetFreeError, RunError
from resetfree.game.contract import Statement
from resetfree.players import Role, discover, player_class
from resetfree.problems.blueprint import number
from resetfree.problems.contract import Problem
from resetfree.problems.fingerprint import describe, fingerprint
from resetfree.problems.finite.mdp import FiniteMDP
from resetfree.problems.registry import problems
from resetfree.problems.world import find_world
from resetfree.runs.followed import followed
from resetfree.runs.setup import player_from
from resetfree.theory.certificates.asked import UNKNOWN

Spec: TypeAlias = dict[str, Any]
Statements: TypeAlias = dict[str, dict[str, Any]]  # by role: constants, covered, why, most_resets; as in a spec
ROLES: tuple[Role, Role] = ("primal", "dual")
# What code may raise that is given untrusted settings or arrays.
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError, RecursionError)


def problem_of(spec: Spec, mdp: FiniteMDP | None, given: Problem | None) -> Problem:
    """The problem of a run: the given one, that of its model, or a registered one; otherwise raises NotCertifiable.

    The given one comes first: an environment with a table has a model too, and is another problem than that.
    """
    name = spec["problem"]
    if given is not None:
        problem = given
    elif mdp is not None:
        problem = mdp.problem()
    elif name in problems():
        problem = find_world(name, followed(spec)).problem
    else:
        raise NotCertifiable(f"The problem '{name}' of this run is neither given nor registered.")
    if fingerprint(problem) != spec.get("fingerprint", fingerprint(problem)):
        raise NotCertifiable(f"The problem '{name}' is not what it was when the run was made.")
    return problem


def classes_of(spec: Spec, given: Mapping[Role, Any], file: Path) -> dict[Role, type]:
    """The classes that a user gives for the players of a run file, by role; raises RunError for those of another."""
    found: dict[Role, type] = {}
    for role, player in given.items():
        if player is None:
            continue
        name = spec[role]["name"]
        found[role] = player if isinstance(player, type) else player_class(role, words(player, f"'{role}' of load"))
        if getattr(found[role], "name", None) != name:
            raise RunError(f"The run file '{file}' is of the {role} player '{name}'. Got {shown(player)} instead.")
    return found


def player_of(spec: Spec, role: Role, given: Any) -> Any:
    """A player of a run, made again from its name and settings, of the given class if there is one.

    given: also the player itself, which is returned if its class is not the registered one of its name.
    """
    name, settings = spec[role]["name"], spec[role]["settings"]
    own = isinstance(given, type)
    if given is not None and not own and given.name == name and type(given) is not discover(role).get(name):
        return given
    return player_from(role, given if own else name, {role: {key: number(value) for key, value in settings.items()}})


def recomputed(spec: Spec, problem: Callable[[], Problem], player: Callable[[Role], Any]) -> Statements:
    """The statements of both players. One that cannot be computed is not covered, and its `why` begins with UNKNOWN.

    problem, player: make these again.
    """
    try:
        made = problem()
    except (ResetFreeError, *BROKEN) as error:
        return unknown(str(error))
    return {role: _plain(_statement(spec, role, made, player)) for role in ROLES}


def unknown(why: str) -> Statements:
    """The statements of players that cannot be made again: nothing is covered."""
    return {role: _plain(Statement({}, False, UNKNOWN + why)) for role in ROLES}


def _statement(spec: Spec, role: Role, problem: Problem, player: Callable[[Role], Any]) -> Statement:
    try:
        said: Statement = player(role).statement(problem, spec["episodes"])
        return said
    except (ResetFreeError, *BROKEN) as error:
        return Statement({}, False, UNKNOWN + str(error))


def _plain(said: Statement) -> dict[str, Any]:
    result: dict[str, Any] = describe(dataclasses.asdict(said))
    return result
