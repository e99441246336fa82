"""What tests of many rooms need: games, runs that stop, rounds that are compared bit for bit, files that are edited."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import resetfree as rf
from resetfree.game.loop import Game, begin, play
from resetfree.theory.oracle import Evaluator


def learn(
    problem: Any,
    primal: Any = "linear-ucb",
    dual: Any = "projected-gradient",
    feedback: Any = "optimistic",
    **more: Any,
) -> rf.Run:
    """A run of the paper's players unless others are named: for tests that are not about who plays."""
    return rf.learn(problem, primal, dual, feedback=feedback, **more)


def game_of(
    mdp: rf.FiniteMDP, primal: Any, dual: Any, episodes: int, seed: int = 0, feedback: Any = "realised"
) -> tuple[Game, Iterator[rf.Round]]:
    """A game on a finite problem, and its rounds with exact values."""
    problem = mdp.problem()
    game = begin(problem, primal, dual, episodes=episodes, seed=seed)
    return game, play(problem, primal, dual, game, episodes=episodes, feedback=feedback, oracle=Evaluator(mdp))


def stop_at(*rounds: int, error: Any = KeyboardInterrupt) -> Callable[[Any, Any], None]:
    """What `learn` calls after every round: it raises this in these rounds. Ctrl-C by default, and any other fails."""

    def progress(game: Any, this: Any) -> None:
        if this.k in rounds:
            raise error()

    return progress


def same_rounds(one: rf.Run, other: rf.Run, names: Any = None) -> None:
    """All columns, or these, are equal bit for bit."""
    assert names is not None or one.columns.keys() == other.columns.keys()
    for name in one.columns if names is None else names:
        np.testing.assert_equal(list(one.columns[name]), list(other.columns[name]), err_msg=name)


def edit(path: Path | str, *statements: str, values: tuple[Any, ...] = ()) -> None:
    """Change a run file as anyone can who has SQLite: its digests do not fit any more."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement, values)
        connection.commit()


def select(path: Path | str, query: str) -> list[Any]:
    """What a run file answers."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def rows(path: Path | str, *tables: str) -> str:
    """Every bit of these tables of a run file."""
    return repr([select(path, f"SELECT * FROM {table} ORDER BY rowid") for table in tables or ("rounds",)])
