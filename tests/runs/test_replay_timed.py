"""A timed run is played again from its file, also on an environment that keeps its own state; forgers are found out."""

import itertools
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.killing import run_driver
from tests.runs.forging import forge
from tests.runs.kill_driver import CASES
from tests.runs.test_timed import DRIVER

import resetfree as rf
from resetfree.game.delayed import HeldPlan
from resetfree.runs.resuming import ACTIONS, CHECKPOINT, ROUNDS, SPEC, whole_run

PLACES: dict[str, tuple[str, dict[str, Any]]] = {
    "grid": ("grid-v0", {"primal": "support-elimination", "dual": "projected-gradient"}),
    "by hand": ("drawn-by-hand-v0", {"primal": "ucbvi", "dual": "constant-penalty"}),
    "a search": (
        "gym:CartPole-v1",
        {k: v for k, v in CASES["a search with delay"].items() if k not in ("problem", "delay")},
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run with delay in each place, played once."""
    folder = tmp_path_factory.mktemp("timed")
    for name, (problem, asked) in PLACES.items():
        rf.learn(problem, **asked, episodes=40, seed=5, delay=3, path=folder / f"{name}.rfrun")
    return {name: folder / f"{name}.rfrun" for name in PLACES}


def replayed(path: Path, place: str) -> dict[str, rf.Certificate]:
    problem, asked = PLACES[place]
    options = asked.get("settings", {}).get("problem")
    return {one.claim: one for one in whole_run(rf.load(path, problem, options))}


@pytest.mark.parametrize("place", PLACES)
def test_an_honest_run_is_played_again_from_its_file(place: str, files: dict[str, Path]) -> None:
    found = replayed(files[place], place)
    assert list(found) == [ROUNDS, ACTIONS, CHECKPOINT, SPEC]
    for one in found.values():
        assert one.holds, f"{one.claim}: {one.witness} {one.detail}"
    assert found[ACTIONS].detail == {"compared": 40, "left_out": 0}


def test_what_the_file_says_of_an_environment_suffices(files: dict[str, Path], tmp_path: Path) -> None:
    again = {one.claim: one for one in whole_run(rf.load(files["a search"]))}
    assert all(again[claim].holds for claim in (ROUNDS, ACTIONS, CHECKPOINT))
    assert "the problem is not given" in again[SPEC].why
    forged = tmp_path / "forged.rfrun"
    shutil.copy(files["a search"], forged)
    forge(forged, flip_action)
    assert not {one.claim: one for one in whole_run(rf.load(forged))}[ACTIONS].holds


def test_a_run_that_was_killed_and_resumed_is_played_again_from_its_file(tmp_path: Path) -> None:
    path, case = tmp_path / "killed.rfrun", "a search with delay"
    assert run_driver(DRIVER, path, 60, 4, 3, case) == "4"
    assert sum(one.why == "resume" for one in rf.load(path).interventions) >= 1
    for one in replayed(path, "a search").values():
        assert one.holds, f"{one.claim}: {one.witness} {one.detail}"


def flip_action(connection: sqlite3.Connection, k: int = 12) -> None:
    """The first action of a round becomes another one."""
    form, data = connection.execute("SELECT form, data FROM transitions WHERE k = ?", (k,)).fetchone()
    kind, shape = form.split(";")[0].split(" ", 1)
    width = {"i8:u1": 1, "i8": 8, "f8": 8}[kind]
    at, changed = int(np.prod([int(n) for n in shape.split()])) * width, bytearray(data)
    changed[at] ^= 1
    connection.execute("UPDATE transitions SET data = ? WHERE k = ?", (bytes(changed), k))


def other_based_on(connection: sqlite3.Connection) -> None:
    """A round rests on a newer plan than it did, which is possible."""
    rows = connection.execute("SELECT k, based_on FROM rounds ORDER BY k").fetchall()
    pairs = itertools.pairwise(rows)
    k, j = next((k, min(after, k - 1)) for (k, j), (_, after) in pairs if j < min(after, k - 1))
    connection.execute("UPDATE rounds SET based_on = ? WHERE k = ?", (j, k))


def other_digest(connection: sqlite3.Connection) -> None:
    data = HeldPlan.of(7, 0.5, rf.Plan(np.zeros(2), 0.0, 0.0)).digest
    connection.execute("UPDATE rounds SET plan = ? WHERE k = 17", (data,))


def other_seed(connection: sqlite3.Connection) -> None:
    spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
    connection.execute("UPDATE spec SET json = ?", (json.dumps({**spec, "seed": 6}),))


def other_multiplier(connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE rounds SET lam = lam + 0.125 WHERE k = 9")


MUTANTS = {
    "a flipped action": (flip_action, ACTIONS),
    "another based_on": (other_based_on, ROUNDS),
    "another plan": (other_digest, ROUNDS),
    "another seed": (other_seed, ACTIONS),
    "another multiplier": (other_multiplier, ROUNDS),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_forged_run_is_not_played_again(place: str, mutant: str, files: dict[str, Path], tmp_path: Path) -> None:
    path, (change, claim) = tmp_path / "forged.rfrun", MUTANTS[mutant]
    shutil.copy(files[place], path)
    forge(path, change)
    run = rf.load(path)
    assert run.fit is not None
    assert run.fit.whole  # the chain of digests fits: only the replay finds it
    found = replayed(path, place)
    assert found[claim].applies
    assert not found[claim].holds


def test_rounds_with_a_missed_deadline_are_counted_and_left_out(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "late.rfrun"
    shutil.copy(files["a search"], path)

    def change(connection: sqlite3.Connection) -> None:
        """A run at a rate, in whose round 12 an action was held."""
        spec = json.loads(connection.execute("SELECT json FROM spec").fetchone()[0])
        connection.execute("UPDATE spec SET json = ?", (json.dumps({**spec, "timing": {"rate": 50.0}}),))
        connection.execute("UPDATE rounds SET lateness = 0.001")
        connection.execute("UPDATE rounds SET missed = 1, lateness = 0.03 WHERE k = 12")
        connection.execute("DELETE FROM checkpoints")

    forge(path, change)
    found = replayed(path, "a search")
    assert found[ROUNDS].holds
    assert found[ACTIONS].holds
    assert found[ACTIONS].detail == {"compared": 39, "left_out": 1}
