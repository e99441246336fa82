"""The statements of a run's players about themselves, recomputed by the players and never read from a file.

A file is untrusted: `covered = true` is one edit away. So both players are made again from their names and settings, on
the problem of the run, and their statements are computed again; those of the file are only compared with them. Only
registered players and problems are made (or those that are given), and nothing that a file names is imported. That the
settings in the file are those that were played is checked by `--replay`.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from resetfree.core.arguments import shown, words
from resetfree.core.errors import ResetFreeError, RunError
from resetfree.game.contract import Statement
from resetfree.players import Role, player_class
from resetfree.problems.blueprint import describe
from resetfree.problems.contract import Problem
from resetfree.theory.certificates.record import UNKNOWN, Record

Spec: TypeAlias = dict[str, Any]
Statements: TypeAlias = dict[str, dict[str, Any]]  # by role: constants, covered, why, most_resets; as in a spec
ROLES: tuple[Role, Role] = ("primal", "dual")
# What code may raise that is given untrusted settings or arrays.
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError, RecursionError)


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


def recomputed(run: Record) -> Statements:
    """The statements of both players. One that cannot be computed is not covered, and its `why` begins with UNKNOWN."""
    try:
        problem = run.problem_again()
    except (ResetFreeError, *BROKEN) as error:
        return unknown(str(error))
    return {role: _plain(_statement(run, role, problem)) for role in ROLES}


def unknown(why: str) -> Statements:
    """The statements of players that cannot be made again: nothing is covered."""
    return {role: _plain(Statement({}, False, UNKNOWN + why)) for role in ROLES}


def _statement(run: Record, role: Role, problem: Problem) -> Statement:
    try:
        said: Statement = run.player_again(role).statement(problem, run.spec["episodes"])
        return said
    except (ResetFreeError, *BROKEN) as error:
        return Statement({}, False, UNKNOWN + str(error))


def _plain(said: Statement) -> dict[str, Any]:
    result: dict[str, Any] = describe(dataclasses.asdict(said))
    return result
