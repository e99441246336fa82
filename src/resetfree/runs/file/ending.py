"""The end of a run: the number of episodes that it was extended to, or what ended it before them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from resetfree.game.contract import MOST_EPISODES
from resetfree.runs.file.runfile import BROKEN, MOST_TEXT, damaged

Kind: TypeAlias = Literal["max_resets", "steps", "seconds", "callback", "stopped"]
STOPPED = "the user stopped it"  # by Ctrl-C or SIGTERM
LONGEST = 500  # characters of a reason that are kept
KEY = "extended"  # of a row of the table meta: one for each extension, the last one counts


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a run after round k, which may go on later: what ended it, and why in words."""

    k: int
    kind: Kind
    why: str


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
