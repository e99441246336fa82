"""Whether the recorded statements about players and problem agree with those made from them again."""

from __future__ import annotations

import math
from typing import Any, Literal

from resetfree.core.certificate import Certificate
from resetfree.game.contract import depends_on_length
from resetfree.theory.certificates.record import Record

ROLES: tuple[Literal["primal"], Literal["dual"]] = ("primal", "dual")
COMPARED = ("covered", "constants", "most_resets")  # `why` is wording, which a later version may improve
SIZES = ("horizon", "n_states", "persistent")  # properties of the problem that a spec repeats
CLAIM = "what the record says of its players and its problem is what they say (entries that differ)"
UNKNOWN = "the player cannot be made again to state what is proved of it: "
ROUNDING = 1e-9  # relative, between the machines that a run was made and is certified on


def known_player(run: Record, role: Literal["primal", "dual"]) -> Any:
    """A player of the run, made again; None if its statement is unknown."""
    return None if run.statements[role]["why"].startswith(UNKNOWN) else run.player_again(role)


def past_plan(run: Record, role: Literal["primal", "dual"]) -> str:
    """Why what is proved of a player ends with the episodes that were planned; empty if it does not, or all are."""
    planned, player = run.spec["episodes"], known_player(run, role)
    if len(run) <= planned or player is None:
        return ""
    if not depends_on_length(player, run.problem_again(), planned, len(run)):
        return ""
    return (
        f"the constants of '{run.spec[role]['name']}' are those for the {planned} episodes that were planned, and "
        f"tuned from episode {planned + 1} on"
    )


def began_with(run: Record) -> str:
    """Why nothing is proved of what the primal player learned from data before the first round; empty without data."""
    about = run.spec.get("data")
    if about is None:
        return ""
    return f"it began with {about['episodes']} episodes of data, which no theorem covers"


def as_played(run: Record, role: Literal["primal", "dual"]) -> tuple[bool, str]:
    """Whether a theorem covers a player in every round of the run, and why: its statement is about what was planned."""
    said, primal = run.statements[role], role == "primal"
    outside = next((one.k for one in run.notes if one.tuned), None) if primal else None
    lost = [began_with(run) if primal else "", past_plan(run, role)]
    lost += [] if outside is None else [f"the theorem is for rewards in [0, 1], which episode {outside} left"]
    if not said["covered"] or not any(lost):
        return said["covered"], said["why"]
    return False, f"{'; '.join(filter(None, lost))}. Otherwise: {said['why']}"


def unknown_cap(run: Record, claim: str) -> list[Certificate]:
    """A claim about `most_resets` that cannot be checked: the file has such a number, and the player is unknown."""
    why, named = run.statements["primal"]["why"], run.spec["statements"]["primal"].get("most_resets")
    return [Certificate.not_applicable(claim, why)] if named is not None and why.startswith(UNKNOWN) else []


def as_recorded(run: Record) -> Certificate:
    """Whether recorded and remade statements agree; if not, the file was edited or written by another version."""
    differ: list[str] = []
    for role in ROLES:
        stated, read = run.statements[role], run.spec["statements"][role]
        if stated["why"].startswith(UNKNOWN):
            return Certificate.not_applicable(CLAIM, stated["why"])
        for entry in COMPARED:
            ours, theirs = stated[entry], read.get(entry)
            if not isinstance(ours, dict) or not isinstance(theirs, dict):
                differ += [] if _same(ours, theirs) else [f"{role}.{entry}"]
                continue
            keys = [key for key in {**ours, **theirs} if key not in ours or key not in theirs]
            keys += [key for key in ours if key in theirs and not _same(ours[key], theirs[key])]
            differ += [f"{role}.{entry}.{key}" for key in keys]
    problem = run.problem_again()
    differ += [size for size in SIZES if run.spec[size] != getattr(problem, size)]
    differ += ["n_actions"] if run.spec["n_actions"] != problem.actions.n else []  # None for a box
    bounds = [getattr(run.player_again(role), "B", None) for role in reversed(ROLES)]
    differ += [] if run.spec["B"] == next((B for B in bounds if B is not None), None) else ["B"]
    why = "what is proved is taken from the players" + (
        "; the file was edited, or written by another version of resetfree" if differ else ""
    )
    where = ", ".join(differ[:3]) or None
    detail = {"differ": differ}
    return Certificate(CLAIM, len(differ), 0.0, 0.0, "==", witness=where, detail=detail, status="checked", why=why)


def _same(one: Any, other: Any) -> bool:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other)):
        return math.isclose(one, other, rel_tol=ROUNDING)
    return type(one) is type(other) and bool(one == other)
