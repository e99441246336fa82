"""What the players of a run say about themselves, asked of the players and never read from a file.

A file says what it likes: `covered = true` is one edit away. So both players are made again from their names and
settings, on the problem of the run, and asked once more; what the file says is compared with that, and used for nothing
else. Only registered players and problems are made (or those that are at hand), and nothing that a file names is
imported. The settings themselves are the file's word: that they are the ones that were played is for `--replay`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeAlias

from resetfree.certificate import Certificate
from resetfree.errors import NotCertifiable, ResetFreeError
from resetfree.game import Statement
from resetfree.players import Role, discover
from resetfree.problem import Problem
from resetfree.registry import make, problems
from resetfree.runs.blueprint import number
from resetfree.runs.fingerprint import describe, fingerprint
from resetfree.runs.followed import followed
from resetfree.runs.preparing import _player
from resetfree.runs.run import Run

Said: TypeAlias = dict[str, dict[str, Any]]  # by role: constants, covered, why, most_resets; as a spec has them
ROLES: tuple[Role, Role] = ("primal", "dual")
COMPARED = ("covered", "constants", "most_resets")  # `why` is wording, which a later version may improve
SIZES = ("horizon", "n_states", "n_actions", "persistent")  # that a spec repeats of its problem
CLAIM = "what the record says of its players and its problem is what they say (entries that differ)"
UNKNOWN = "the player cannot be asked what is proved of it: "
ROUNDING = 1e-9  # relative, between the machines that a run was made and is certified on
# What code that is handed a stranger's settings may raise.
BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, MemoryError)


def problem_of(run: Run) -> Problem:
    """The problem of a run: its model's, the one at hand, or a registered one; raises NotCertifiable without any."""
    name = run.spec["problem"]
    if run.mdp is not None:
        problem: Problem = run.mdp.problem()
    elif run.problem is not None:
        problem = run.problem
    elif name in problems():
        problem = make(name, **followed(run.spec)).problem()
    else:
        raise NotCertifiable(f"The problem '{name}' of this run is neither given nor registered.")
    if fingerprint(problem) != run.spec.get("fingerprint", fingerprint(problem)):
        raise NotCertifiable(f"The problem '{name}' is not what it was when the run was made.")
    return problem


def player_of(run: Run, role: Role) -> Any:
    """A player of a run, made again from its name and settings; the primal player itself where it is at hand.

    Somebody's own player may go by the name of a registered one: at hand it speaks for itself.
    """
    name, settings = run.spec[role]["name"], run.spec[role]["settings"]
    known = None if role == "dual" or run.learned is None else run.learned.player
    if known is not None and known.name == name and type(known) is not discover(role).get(name):
        return known
    return _player(role, name, {role: {key: number(value) for key, value in settings.items()}})


def recomputed(run: Run) -> Said:
    """What the players say of this run. One that cannot be asked is not covered, and `why` begins with UNKNOWN."""
    try:
        problem = problem_of(run)
    except (ResetFreeError, *BROKEN) as error:
        return unknown(str(error))
    return {role: _plain(_asked(run, role, problem)) for role in ROLES}


def unknown(why: str) -> Said:
    """What is known of players that cannot be asked: nothing."""
    return {role: _plain(Statement({}, False, UNKNOWN + why)) for role in ROLES}


def _asked(run: Run, role: Role, problem: Problem) -> Statement:
    try:
        said: Statement = player_of(run, role).statement(problem, run.spec["episodes"])
        return said
    except (ResetFreeError, *BROKEN) as error:
        return Statement({}, False, UNKNOWN + str(error))


def _plain(said: Statement) -> dict[str, Any]:
    result: dict[str, Any] = describe(dataclasses.asdict(said))
    return result


def unasked(run: Run, claim: str) -> list[Certificate]:
    """A claim about `most_resets` where the file names such a number and the player cannot be asked for it."""
    why, named = run.statements["primal"]["why"], run.spec["statements"]["primal"].get("most_resets")
    return [Certificate.not_applicable(claim, why)] if named is not None and why.startswith(UNKNOWN) else []


def as_recorded(run: Run) -> Certificate:
    """Whether the record says of its players and its problem what these say; if not, an edit or another version did."""
    differ: list[str] = []
    for role in ROLES:
        said, read = run.statements[role], run.spec["statements"][role]
        if said["why"].startswith(UNKNOWN):
            return Certificate.not_applicable(CLAIM, said["why"])
        for entry in COMPARED:
            ours, theirs = said[entry], read.get(entry)
            if not isinstance(ours, dict) or not isinstance(theirs, dict):
                differ += [] if _same(ours, theirs) else [f"{role}.{entry}"]
                continue
            keys = [key for key in {**ours, **theirs} if key not in ours or key not in theirs]
            keys += [key for key in ours if key in theirs and not _same(ours[key], theirs[key])]
            differ += [f"{role}.{entry}.{key}" for key in keys]
    problem = problem_of(run)
    differ += [size for size in SIZES if run.spec[size] != getattr(problem, size)]
    bounds = [getattr(player_of(run, role), "B", None) for role in ("dual", "primal")]
    differ += [] if run.spec["B"] == next((B for B in bounds if B is not None), None) else ["B"]
    why = "what is proved is taken from the players" + (
        "; the file was edited, or written by another version of resetfree" if differ else ""
    )
    where = ", ".join(differ[:3]) or None
    return Certificate(CLAIM, len(differ), 0.0, 0.0, "==", where, {"differ": differ}, why=why)


def _same(one: Any, other: Any) -> bool:
    numbers = (int, float)
    if (
        isinstance(one, bool)
        or isinstance(other, bool)
        or not (isinstance(one, numbers) and isinstance(other, numbers))
    ):
        return type(one) is type(other) and bool(one == other)
    return math.isclose(one, other, rel_tol=ROUNDING)
