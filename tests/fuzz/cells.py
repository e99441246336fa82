"""Edits to the cells of a run file with SQLite itself: the file is whole, and what it says is not."""

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

from tests.fuzz.nasty import NUMBERS, TEXTS
from tests.fuzz.worker import EVIL
from tests.runs.forging import rechain

NAMED = (f"{EVIL}:f", f"{EVIL}:F", f"gym:{EVIL}:Thing-v0", EVIL, f"{EVIL}.f")  # code, as options and names write it
CELLS: tuple[Any, ...] = (
    None, 0, -1, 1, 2**31 - 1, 2**62, -(2**63), 2**63 - 1, 0.5, 1e308, -1e308, float("inf"), "", "x", "a\0b", b"",
    b"\x00\xff" * 10, "x" * 1_000_000, "NaN", "null", "true", "[]", "{}", '"text"', "[" * 100_000, '{"a":' * 50_000,
    "1e999", "9" * 5000, '{"dtype": "S2000000000", "shape": [1], "values": ["x"]}',
    '{"dtype": "float64", "shape": [1000000000, 1000000000], "values": []}', '{"dtype": "O", "shape": [], "values": 1}',
    '{"dtype": "a,b", "shape": [1], "values": [1]}', '{"dtype": [["a"]], "shape": {}, "values": null}', "\udcff",
)  # fmt: skip
SCHEMA = (
    "CREATE VIEW v AS SELECT * FROM spec", "CREATE TABLE more (a)", "CREATE INDEX i ON rounds (k)", "DROP TABLE meta",
    "DROP TABLE rounds", "DROP TABLE checkpoints", "ALTER TABLE spec RENAME TO others", "PRAGMA user_version = 0",
    "CREATE TRIGGER t AFTER INSERT ON certificates BEGIN DELETE FROM rounds; END", "PRAGMA user_version = 99",
    "PRAGMA application_id = 5", "PRAGMA user_version = -3", "ALTER TABLE rounds ADD COLUMN more TEXT",
    "PRAGMA journal_mode = WAL", "DELETE FROM spec", "DELETE FROM checkpoints", "DELETE FROM rounds",
    "DELETE FROM meta",
    "DELETE FROM interventions", "INSERT INTO spec SELECT * FROM spec", "INSERT INTO meta SELECT * FROM meta",
    "INSERT INTO interventions VALUES ('{}')", "INSERT INTO interventions VALUES (NULL)",
    "INSERT INTO certificates VALUES ('claim', 'x')", "UPDATE rounds SET k = k + 1", "UPDATE rounds SET k = -k",
    "DELETE FROM rounds WHERE k = 3", "DELETE FROM rounds WHERE k > 2", "UPDATE checkpoints SET k = k + 5",
    "UPDATE checkpoints SET part = 7", "INSERT INTO checkpoints SELECT * FROM checkpoints",
    "DROP TABLE transitions", "DELETE FROM transitions", "DELETE FROM transitions WHERE k = 3",
    "UPDATE transitions SET k = -k", "UPDATE transitions SET form = 'f8 9;f8 8;f8 8', data = zeroblob(200)",
    "UPDATE transitions SET data = zeroblob(length(data))", "INSERT INTO problem VALUES (0, zeroblob(30))",
    "UPDATE rounds SET s1 = next_start", "UPDATE rounds SET reset = 1 - reset", "UPDATE rounds SET lam = -lam",
)  # fmt: skip


FORGED = 0.8  # of the edited files carry digests that fit: the others are refused before anything in them is looked at


def forged(file: Path, rng: random.Random) -> list[str]:
    """Give an edited file digests that fit what it now says, as whoever has our code can; not always."""
    if rng.random() > FORGED:
        return []
    connection = sqlite3.connect(file)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        rechain(connection)
        connection.commit()
    except Exception as error:  # what cannot be digested any more is left as it is
        return [f"without digests that fit ({type(error).__name__})"]
    finally:
        connection.close()
    return ["digests made to fit"]


def edit(file: Path, rng: random.Random) -> list[str]:
    """One to three edits, and words for them."""
    words = []
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")  # nobody minds if an edit is lost in a power cut
    try:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            way = rng.choice((_cell, _cell, _json, _json, _json, _option, _option, _statement, _swap))
            try:
                words.append(way(connection, rng))
            except (sqlite3.Error, UnicodeError, OverflowError) as error:  # a constraint, or an edit before this one
                words.append(f"not taken: {error}")
    finally:
        connection.close()
    return [*words, *forged(file, rng)]


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [name for (name,) in rows if connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]]


def _place(connection: sqlite3.Connection, rng: random.Random) -> tuple[str, str, int]:
    """A table, a column, and the row id of one of its rows."""
    tables = _tables(connection)
    if not tables:
        raise sqlite3.Error("nothing is left")
    table = rng.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
    return table, rng.choice(columns), rng.choice(rows)


def _cell(connection: sqlite3.Connection, rng: random.Random) -> str:
    table, column, row = _place(connection, rng)
    value = rng.choice(CELLS)
    everywhere = rng.random() < 0.2 and not (table == "rounds" and column == "k")
    where = "" if everywhere else f" WHERE rowid = {row}"
    connection.execute(f"UPDATE {table} SET {column} = ?{where}", (value,))
    return f"UPDATE {table} SET {column} = {str(value)[:60]!r}{where}"


def _swap(connection: sqlite3.Connection, rng: random.Random) -> str:
    table, column, row = _place(connection, rng)
    rows = [one[0] for one in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
    other = rng.choice(rows)
    connection.execute(
        f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE rowid = {other}) WHERE rowid = {row}"
    )
    return f"{table}.{column} of row {other} copied to row {row}"


def _statement(connection: sqlite3.Connection, rng: random.Random) -> str:
    sql = rng.choice(SCHEMA)
    connection.execute(sql)
    return sql


def _texts(connection: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """Every cell that holds a JSON object or array."""
    found = []
    for table in _tables(connection):
        for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
            rows = connection.execute(f"SELECT rowid, {column} FROM {table} ORDER BY rowid LIMIT 40").fetchall()
            found += [(table, column, row) for row, text in rows if isinstance(text, str) and text[:1] in "[{"]
    return found


def _json(connection: sqlite3.Connection, rng: random.Random) -> str:
    places = _texts(connection)
    specs = [place for place in places if place[0] == "spec"]
    if not places:
        raise sqlite3.Error("no JSON is left")
    table, column, row = rng.choice(specs if specs and rng.random() < 0.6 else places)
    (text,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = {row}").fetchone()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise sqlite3.Error("no JSON any more") from None
    data, words = edit_json(data, rng)
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = {row}", (dump(data),))
    return f"{table}.{column} row {row}: {words}"


def _option(connection: sqlite3.Connection, rng: random.Random) -> str:
    """Options and names that would be followed to code, and sizes that would fill the memory."""
    from resetfree.problems.gym import NAMES

    try:
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        options = spec["problem_options"]
        key = rng.choice([*NAMES, "n", "rows", "features.function", "xi.function", "make.entry_point", *options])
        value: Any = rng.choice((*NAMED, *NAMED, *NAMED, 3000, 10**6, 2**31, 10**12, "x", None, [], {}))
        if rng.random() < 0.7:
            options[key] = value
            words = f"problem_options[{key!r}] = {value!r}"
        else:
            where, name = rng.choice((("primal", "name"), ("dual", "name"), ("problem", ""), ("feedback", "")))
            value = rng.choice(NAMED)
            if name:
                spec[where][name] = value
            else:
                spec[where] = value
            words = f"{where} = {value!r}"
    except (TypeError, KeyError, ValueError, RecursionError, AttributeError):
        raise sqlite3.Error("no spec any more") from None
    connection.execute("UPDATE spec SET json = ?", (dump(spec),))
    return f"spec: {words}"


def edit_json(data: Any, rng: random.Random) -> tuple[Any, str]:
    """One change somewhere in plain data: a key gone, a type changed, a number out of range, code named."""
    spots = list(_spots(data, ()))
    path = rng.choice(spots)
    holder: Any = data
    for step in path[:-1]:
        holder = holder[step]
    way = rng.random()
    if path and way < 0.2:
        if isinstance(holder, list):
            holder.pop(path[-1])
        else:
            del holder[path[-1]]
        return data, f"{path} removed"
    value = _value(rng)
    if path:
        old = holder[path[-1]]
        if way < 0.35 and isinstance(old, list):
            value = rng.choice((old * 2, old[:-1], [old], [*old, value], old[::-1]))
        elif way < 0.35 and isinstance(old, dict):
            value = {**old, rng.choice(("more", "function", "", "name")): value}
        elif way < 0.5 and isinstance(old, int | float):
            value = rng.choice((-old, old + 1, old * 1000, float(old), str(old), old * 10**6))
        holder[path[-1]] = value
    else:
        data = value
    return data, f"{path} = {str(value)[:60]!r}"


def _value(rng: random.Random) -> Any:
    pick = rng.random()
    if pick < 0.35:
        return rng.choice(NUMBERS)
    if pick < 0.55:
        return rng.choice([one for one in TEXTS if "\udcff" not in one])
    if pick < 0.75:
        return rng.choice(NAMED)
    nested: Any = 1
    for _ in range(rng.choice((10, 200, 900))):
        nested = [nested] if rng.random() < 0.5 else {"a": nested}
    return rng.choice((None, [], {}, [None], {"a": 1}, [1] * 1000, [[0.5]], nested, list(range(100_000))))


def _spots(data: Any, path: tuple[Any, ...]) -> Any:
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data[:20]) if isinstance(data, list) else ()
    if len(path) < 8:
        for key, value in items:
            yield from _spots(value, (*path, key))


def dump(data: Any) -> str:
    """As JSON with the words that Python's reader also takes, nan and infinities."""
    return json.dumps(data)
