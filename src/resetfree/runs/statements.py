"""What the players of a run say about themselves, asked of the players and never read from a file.

A file says what it likes: `covered = true` is one edit away. So both players are made again from their names and
settings, on the problem of the run, and asked once more; what the file says is compared with that, and used for nothing
else. Only registered players and problems are made (or those that are at hand), and nothing that a file names is
imported. The settings themselves are the file's word: that they are the ones that were played is for `--replay`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from resetfree.core.errors import NotCertifiable, ResetFreeError
from resetfree.game.contract import PrimalPlayer, Statement
from resetfree.players import Role, discover
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
Said: TypeAlias = dict[str, dict[str, Any]]  # by role: constants, covered, why, most_resets; as a spec has them
ROLES: tuple[Role, Role] = ("primal", "dual")
# What code that is handed a stranger's settings may raise.
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError)


def problem_of(spec: Spec, mdp: FiniteMDP | None, at_hand: Problem | None) -> Problem:
    """The problem of a run: its model's, the one at hand, or a registered one; raises NotCertifiable without any."""
    name = spec["problem"]
    if mdp is not None:
        problem: Problem = mdp.problem()
    elif at_hand is not None:
        problem = at_hand
    elif name in problems():
        problem = find_world(name, followed(spec)).problem
    else:
        raise NotCertifiable(f"The problem '{name}' of this run is neither given nor registered.")
    if fingerprint(problem) != spec.get("fingerprint", fingerprint(problem)):
        raise NotCertifiable(f"The problem '{name}' is not what it was when the run was made.")
    return problem


def player_of(spec: Spec, role: Role, at_hand: PrimalPlayer[Any] | None) -> Any:
    """A player of a run, made again from its name and settings; the primal player itself where it is at hand.

    Somebody's own player may go by the name of a registered one: at hand it speaks for itself.
    """
    name, settings = spec[role]["name"], spec[role]["settings"]
    known = None if role == "dual" else at_hand
    if known is not None and known.name == name and type(known) is not discover(role).get(name):
        return known
    return player_from(role, name, {role: {key: number(value) for key, value in settings.items()}})


def recomputed(spec: Spec, problem: Callable[[], Problem], player: Callable[[Role], Any]) -> Said:
    """What the players say of this run. One that cannot be asked is not covered, and `why` begins with UNKNOWN.

    problem, player: how these are made again.
    """
    try:
        made = problem()
    except (ResetFreeError, *BROKEN) as error:
        return unknown(str(error))
    return {role: _plain(_asked(spec, role, made, player)) for role in ROLES}


def unknown(why: str) -> Said:
    """What is known of players that cannot be asked: nothing."""
    return {role: _plain(Statement({}, False, UNKNOWN + why)) for role in ROLES}


def _asked(spec: Spec, role: Role, problem: Problem, player: Callable[[Role], Any]) -> Statement:
    try:
        said: Statement = player(role).statement(problem, spec["episodes"])
        return said
    except (ResetFreeError, *BROKEN) as error:
        return Statement({}, False, UNKNOWN + str(error))


def _plain(said: Statement) -> dict[str, Any]:
    result: dict[str, Any] = describe(dataclasses.asdict(said))
    return result
