"""Crafted arrays: those of a checkpoint and of an episode are spoiled; whatever reads them works or says a sentence.

A program of its own, because what it looks for would take the tests down with it.
`python -m tests.runs.crafted_checkpoints N CASE...` tries every N-th mutant of each case and prints what it does before
it does it; the last line before a signal is the culprit.
"""

import json
import resource
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tests.players.neural.small_networks import SMALL
from tests.runs.forging import rechain

import resetfree as rf
from resetfree.core.state import pack
from resetfree.players import discover
from resetfree.runs.file.recorded import EpisodeBuffer, unpacked
from resetfree.runs.file.runfile import connect, read_checkpoint
from resetfree.runs.recall import recall

FIRST, THEN = 12, 6  # episodes before the checkpoint, and after it
MEMORY = 3 * 2**30  # of the whole program, libraries included
FEATURES: dict[str, dict[str, Any]] = {
    "tile-coding": {"features.tilings": 2, "features.tiles": 1}, "polynomial": {}, "one-hot": {"features.capacity": 9},
    "aggregation": {"features.cells": 2}, "simplex": {"features.nodes": 2}, "radial-basis": {"features.d": 9},
    "fourier-basis": {"features.order": 1}, "random-fourier": {"features.d": 9}, "user": {},
}  # fmt: skip

UPRIGHT = {"horizon": 4, "reward_low": -17, "reward_high": 0, "reset_when": "reward<=-9.5"}
TEXTS = {
    "no text": "",
    "a word": "row",
    "a list": "[]",
    "nothing": "null",
    "no parts": '{"parts": [], "actions": []}',
    "many parts": json.dumps({"parts": [["row", "", True, []]] * 10_000, "actions": []}),
    "parts that are numbers": '{"parts": [1, 2], "actions": ["up"]}',
    "names that are lists": '{"parts": [[[], {}, 3, 4], [[], {}, 3, 4]], "actions": [[], {}, 5]}',
    "actions that are a number": '{"parts": [["row", "", true, []], ["column", "", true, []]], "actions": 5}',
    "unordered": '{"parts": [["row", "", false, []], ["column", "", false, []]], "actions": []}',
    "words": json.dumps({"parts": [["row", "", True, ["\x1b[2J"] * 9], ["", "", True, []]], "actions": ["<b>"] * 99}),
    "a million": json.dumps({"parts": [["r" * 10**6, "", True, []], ["c", "", True, []]], "actions": []}),
    "deep": "[" * 100_000,
    "a number without end": '{"parts": ' + "9" * 5_000 + ', "actions": []}',
    "halves of letters": '{"parts": [["\\ud800", "", true, []], ["c", "", true, []]], "actions": ["\\udfff"]}',
}
Edit = tuple[str, tuple[Any, ...]]  # a statement and its values


class Enough(Exception):
    """Ends a run in the middle."""


def cases() -> dict[str, dict[str, Any]]:
    """What to learn, by name: every discovered player, large problems, vector states with every kind of features."""
    found: dict[str, dict[str, Any]] = {}
    vectors = {name for name, cls in discover("primal").items() if getattr(cls, "vectors_only", False)}
    for name in discover("primal"):
        found[name] = {"problem": "continuous-linear-v0" if name in vectors else "grid-v0", "primal": name}
    for name, networks in SMALL.items():
        found[name] = {
            "problem": "gym:Pendulum-v1",
            "primal": name,
            "settings": {"primal": networks, "problem": UPRIGHT},
        }
    few = {"population": 6, "rounds": 1, "planning": 10}
    found["model-search"]["settings"] = {"primal": few}
    upright = {"horizon": 10, "reward_low": -17, "reward_high": 0, "reset_when": "reward<=-9.5"}
    found["model-search-box"] = {
        "problem": "gym:Pendulum-v1", "primal": "model-search", "settings": {"problem": upright, "primal": few},
    }  # fmt: skip
    for name in discover("dual"):
        found[name] = {"problem": "grid-v0", "primal": "uniform", "dual": name}
    found["xi"] = {"problem": "random-linear-v0", "primal": "ucbvi"}
    found["rare"] = {"problem": "grid-v0", "primal": "greedy-composite", "settings": {"primal": {"switching": "rare"}}}
    large = {"problem": "pits-v0", "settings": {"problem": {"n": 120, "horizon": 20}}}
    for name in ("ucbvi", "support-elimination", "linear-ucb"):
        found[f"large-{name}"] = {**large, "primal": name}
    for name, few in FEATURES.items():
        told = {"horizon": 10, "features": name, "reward_low": 0, "reward_high": 1, **few}
        found[f"features-{name}"] = {
            "problem": "gym:CartPole-v1", "primal": "stored-linear", "dual": "constant-penalty",
            "settings": {"problem": told, "dual": {"C": 3.0}, "primal": {"refit": 32}},
        }  # fmt: skip
    return found


def make(path: Path, asked: dict[str, Any]) -> None:
    """A run that was ended in the middle."""

    def end(game: Any, this: Any) -> None:
        if this.k == FIRST:
            raise Enough

    try:
        rf.learn(**asked, path=path, episodes=FIRST + THEN, progress=end)
    except Enough:
        return
    except rf.ResetFreeError:  # it needs a bound on the multipliers
        make(path, {**asked, "B": 5.0})


def spoiled(array: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """An array that is none of the player's, in many ways."""
    if array.dtype.kind in "iu":
        top = np.iinfo(array.dtype).max
        for name, value in (("2^31-1", min(2**31 - 1, top)), ("-1", -1), ("-2^31", -(2**31)), ("most", top)):
            yield name, np.full_like(array, value)
            if array.ndim:
                one = array.copy()
                one.flat[: one.size // 2 : 7] = value
                yield f"some {name}", one
    if array.dtype.kind == "f":
        for number in (np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0):
            yield str(number), np.full_like(array, number)
    if array.dtype.kind == "b":
        yield "inverted", ~array
    if array.dtype.kind == "U":
        for name, text in TEXTS.items():
            yield name, np.full_like(array, text, dtype=f"U{max(len(text), 1)}")
    yield "transposed", array.T.copy() if array.ndim > 1 else array[None]
    yield "empty", array.ravel()[:0]
    if array.ndim:
        yield "longer", np.concatenate([array, array])
        yield "shorter", array[: len(array) // 2].copy()
        yield "nothing", array[:0].copy()
        yield "last axis", np.repeat(array, 2, axis=-1)
    for kind in ("<i8", "<f8", "|b1", "<U3", "<f4", "<i4"):
        if array.dtype != np.dtype(kind):
            yield kind, np.zeros(array.shape, kind) if array.dtype.kind == "U" else array.astype(kind)


def spoiled_episodes(file: Path) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Words, a statement and its values, for one episode of the run that is none of its problem's."""
    with sqlite3.connect(file) as connection:
        form, data = connection.execute("SELECT form, data FROM transitions WHERE k = 5").fetchone()
    parts = unpacked(form, data)
    for i, array in enumerate(parts):
        for how, other in spoiled(array):
            waiting = EpisodeBuffer()
            waiting.add(rf.Episode(*parts[:i], other, *parts[i + 1 :], False, None))  # type: ignore[arg-type, call-arg]
            ((form, data),) = zip(*waiting.take(), strict=True)
            yield f"episode part {i} {how}", "UPDATE transitions SET form = ?, data = ? WHERE k = 5", (form, data)
    yield "no episode", "DELETE FROM transitions WHERE k = ?", (5,)
    for start in (-1, 2**40, 0.5, None):
        yield f"start {start}", "UPDATE rounds SET s1 = ?, next_start = ? WHERE k = 5", (start, start)


def attempt(path: Path, asked: dict[str, Any]) -> list[str]:
    """Everything that reads a checkpoint; what did not end well."""
    wrong = []
    problem = asked["problem"]

    def file_alone() -> Any:
        run = rf.load(path)
        object.__setattr__(run, "problem", None)
        vectors = problem.startswith("gym:")
        return recall(run).predict(np.zeros(3 if "Pendulum" in problem else 4) if vectors else 0)

    def with_problem() -> Any:
        return rf.load(path, problem).policy.evaluate(problem if ":" in problem else None, episodes=2)

    def resume() -> Any:
        return rf.learn(**asked, path=path, episodes=FIRST + THEN, resume=True)

    for use in (file_alone, with_problem, resume):
        try:
            use()
        except rf.ResetFreeError as error:
            if "\n" in str(error):
                wrong.append(f"{use.__name__}: {error}")
        except Exception as error:  # what a user would see as a traceback
            wrong.append(f"{use.__name__}: {error!r}")
    return wrong


def mutants(file: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> Iterator[tuple[str, list[Edit]]]:
    """Words, and the statements with their values that spoil a run."""
    for key, array in arrays.items():
        for how, other in spoiled(array):
            yield f"{key} {how}", [("UPDATE checkpoints SET arrays = ?", (pack({**arrays, key: other}),))]
    for words, statement, values in spoiled_episodes(file):
        yield f"{words}, with a checkpoint", [(statement, values)]
        afresh: Edit = ("DELETE FROM checkpoints", ())  # then every round is fed again
        yield f"{words}, without a checkpoint", [(statement, values), afresh]


def main(every: int, names: list[str]) -> int:
    """How many mutants did not end well."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    wrong = 0
    for name in names:
        asked, folder = cases()[name], Path(tempfile.mkdtemp())
        whole, part = folder / "whole.rfrun", folder / "part.rfrun"
        make(whole, asked)
        spec = rf.load(whole).spec
        asked = {**asked, "dual": spec["dual"]["name"], "feedback": spec["feedback"]}
        if spec["B_source"] == "given" and spec["B"] == 5.0:
            asked["B"] = 5.0
        connection = connect(whole, "ro")
        checkpoint = read_checkpoint(connection, whole)
        connection.close()
        assert checkpoint is not None
        assert checkpoint.k == FIRST
        n = 0
        as_it_is: tuple[str, list[Edit]] = ("as it is", [])
        for words, edits in (as_it_is, *islice(mutants(whole, checkpoint.arrays), 0, None, every)):
            print(f"{name}: {words}", flush=True)
            shutil.copy(whole, part)
            if edits:
                with sqlite3.connect(part) as edit:
                    for statement, values in edits:
                        edit.execute(statement, values)
                    rechain(edit)
                edit.close()
                n += 1
            for complaint in attempt(part, asked):
                print(f"WRONG {name}: {words}: {complaint}", flush=True)
                wrong += 1
        print(f"DONE {name}: {n} mutants", flush=True)
        shutil.rmtree(folder)
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(int(sys.argv[1]), sys.argv[2:]), 100))
