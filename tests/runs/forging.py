"""What a forger can do who has our code: change a run file, and give it a chain of digests that fits."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from resetfree.runs.file import digest
from resetfree.runs.file.runfile import columns_in, start_type


def forge(path: Path, change: Callable[[sqlite3.Connection], object]) -> None:
    """Apply a change, and compute all digests anew."""
    connection = sqlite3.connect(path)
    change(connection)
    rechain(connection)
    connection.commit()
    connection.close()


def forge_spec(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Apply a change to the spec, and compute all digests anew."""

    def edit(connection: sqlite3.Connection) -> None:
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        change(spec)
        connection.execute("UPDATE spec SET json = ?", (json.dumps(spec),))

    forge(path, edit)


def rechain(connection: sqlite3.Connection) -> None:
    """Three commits: of nothing, of the rounds up to the checkpoint, and of everything that is there."""
    (spec,) = connection.execute("SELECT json FROM spec").fetchone()
    (k,) = connection.execute("SELECT coalesce(max(k), 0) FROM checkpoints").fetchone()
    connection.execute("DELETE FROM digests")
    chain = digest.Chain(start_type(connection) == "TEXT", digest.beginning(spec))
    chain.write(connection, "meta")
    rows = connection.execute(f"SELECT {', '.join(columns_in(connection))} FROM rounds ORDER BY k").fetchall()
    moves = {move[0]: [move] for move in connection.execute("SELECT k, form, data FROM transitions ORDER BY k")}
    for row in rows[:k]:
        chain.add([row], moves.get(row[0], []))
    chain.write(connection, "checkpoint", "problem")
    for row in rows[k:]:
        chain.add([row], moves.get(row[0], []))
    chain.intervened(text for (text,) in connection.execute("SELECT json FROM interventions ORDER BY rowid"))
    chain.write(connection, *digest.HELD)
