"""More episodes than planned: the number that a run was extended to is part of its record, and the plan stays.

The players keep the constants of the number that was planned, so that a run that is extended plays the same rounds
whenever that is decided, and can be replayed; from there on those that depend on the number are tuned.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from resetfree.core.errors import RunError
from resetfree.game.contract import MOST_EPISODES
from resetfree.game.planned import depends_on_length
from resetfree.problems.contract import Note
from resetfree.runs.file.runfile import BROKEN, MOST_TEXT, damaged
from resetfree.runs.setup import Setup

KEY = "extended"  # of a row of the table meta: one for each extension, the last one counts


def read_episodes(connection: sqlite3.Connection, spec: dict[str, Any], path: Path | None) -> int:
    """How many episodes the run has in the end: those that were planned, or what it was extended to."""
    row = connection.execute("SELECT json FROM meta WHERE key = ? ORDER BY rowid DESC LIMIT 1", (KEY,)).fetchone()
    planned: int = spec["episodes"]
    if row is None:
        return planned
    try:
        found = json.loads(row[0])["episodes"] if isinstance(row[0], str) and len(row[0]) <= MOST_TEXT else None
        if type(found) is not int or not planned < found <= MOST_EPISODES:
            raise ValueError(f"it is extended to {str(found)[:20]} episodes, and was planned for {planned}")
    except (*BROKEN, KeyError) as error:
        raise damaged(path, error) from error
    return found


def check_more(path: Path, planned: int, played: int, wanted: int) -> None:
    """Refuse to resume a run for fewer episodes than it has."""
    if wanted < planned:
        raise RunError(
            f"The run file '{path}' has {planned} episodes, of which {played} are played: it can be resumed for "
            f"{planned} or more, not for {wanted}."
        )


def extension_note(setup: Setup, wanted: int) -> Note:
    """What an extension means for the players' claims; raises InvalidInput for a number that a player cannot have."""
    planned, problem = setup.spec["episodes"], setup.world.problem
    players: list[Any] = [setup.primal, setup.dual]
    for player in players:
        player.init(problem, wanted, setup.spec["seed"])  # raises where it would not fit into memory
    tuned = [one.name for one in players if depends_on_length(one, problem, planned, wanted)]
    what = f"planned for {planned} episodes, extended to {wanted}: "
    if tuned:
        names = " and ".join(f"'{name}'" for name in tuned)
        what += f"the constants of {names} depend on that number and are tuned from episode {planned + 1} on"
    else:
        what += "no constant of its players depends on that number"
    return Note(0, what)
