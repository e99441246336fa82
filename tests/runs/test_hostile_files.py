"""Small hostile files: sizes are checked before anything is allocated, and every damage is one sentence."""

import io
import json
import shutil
import sqlite3
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs import crafted_checkpoints
from tests.runs.forging import forge

import resetfree as rf
from resetfree.core.state import pack, unpack
from resetfree.runs.file.runfile import decode_start
from resetfree.use import read_policy

MEMORY = 2 * 2**30
# One process for some files and all that reads them: little memory, little time, and nothing but sentences.
USE = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
from resetfree.show.cli import main
for path, problem in zip(sys.argv[1::2], sys.argv[2::2]):
    for words in (
        ["certify", path], ["report", path, "-o", path + ".html"], ["evaluate", path, "--episodes", "2"],
        ["export", path, "-o", path + ".npz"], ["certify", path, "--problem", problem],
        ["run", problem, "--resume", "--out", path],
    ):
        signal.alarm(300)
        status = main(words)
        assert status in (0, 2), (words, status)
"""


def header(descr: str, shape: str, fortran: str = "False", tail: bytes = b"") -> bytes:
    words = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words + tail


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def overlapping() -> bytes:
    """Ten thousand names for the bytes of one array."""
    one = archive(a=header("'<f8'", "(1000,)", tail=bytes(8000)))
    at = one.index(b"PK\x01\x02")
    entry, end = one[at : one.index(b"PK\x05\x06")], one[one.index(b"PK\x05\x06") :]
    n = 10_000
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n, n, len(entry) * n, at, 0)
    assert len(end) == len(tail)
    return one[:at] + entry * n + tail


ARRAYS = {
    "a huge shape": archive(a=header("'<f8'", "(1000000000000,)", tail=bytes(80))),
    "a shape that overflows": archive(a=header("'<f8'", "(9223372036854775807, 9223372036854775807)")),
    "many axes": archive(a=header("'<f8'", f"({'1, ' * 40})", tail=bytes(8))),
    "a negative shape": archive(a=header("'<f8'", "(-1,)", tail=bytes(8))),
    "text of two gigabytes": archive(a=header("'|S2000000000'", "(0,)")),
    "objects": archive(a=header("'|O'", "(1,)", tail=bytes(8))),
    "fields": archive(a=header("[('x', '<f8')]", "(1,)", tail=bytes(8))),
    "a header that is no literal": archive(a=header("'<f8'", "(((((")),
    "a header that goes on": archive(a=header("'''", "()")),
    "a call": archive(a=header("__import__('os').getcwd()", "()")),
    "nested deep": archive(a=header("'<f8'", "(" * 5000)),
    "no header": archive(a=b"\x93NUMPY\x01\x00\xff\xff"),
    "no magic": archive(a=b"hello"),
    "a version of tomorrow": archive(a=b"\x93NUMPY\x09\x00" + bytes(100)),
    "booleans of 255": archive(a=header("'|b1'", "(4,)", tail=b"\xff\x00\x01\x02")),
    "too few bytes": archive(a=header("'<f8'", "(10,)", tail=bytes(79))),
    "too many bytes": archive(a=header("'<f8'", "(10,)", tail=bytes(81))),
    "names for one place": overlapping(),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_are_none_are_a_value_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"array|itself"):
        unpack(ARRAYS[name])
    path = tmp_path / "policy.npz"
    path.write_bytes(ARRAYS[name])
    with pytest.raises(rf.RunError, match="is not a policy file of resetfree, or is damaged"):
        read_policy(path)


def test_every_array_that_can_be_saved_comes_back() -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "f": rng.random((2, 3, 4)), "F": np.asfortranarray(rng.random((3, 4))), "i": np.arange(5, dtype=np.int32),
        "b": np.array([True, False]), "u": np.array(["ab", "c"]), "0": np.array(7), "text": np.array("abc"),
        "none": np.empty((0, 3)), "z": np.array([1 + 2j]),
        "f4": np.array([1.5], dtype=np.float32), "s": np.array([b"xy"]),
    }  # fmt: skip
    back = unpack(pack(arrays))
    assert list(back) == list(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert np.array_equal(back[name], array)


@pytest.mark.parametrize(
    "start",
    [
        {"dtype": "|S2000000000", "shape": [1], "values": ["a"]},
        {"dtype": "<U999999999", "shape": [1], "values": ["a"]},
        {"dtype": "<f8", "shape": [10**9, 0], "values": []}, {"dtype": "<f8", "shape": [2], "values": [[1, 2], [3, 4]]},
        {"dtype": "<f8", "shape": 3, "values": [1]}, {"dtype": "<f8", "shape": [-1], "values": [1]},
        {"dtype": "O", "shape": [1], "values": [1]}, {"dtype": "<i8", "shape": [1], "values": [10**30]},
        {"dtype": ["<f8"], "shape": [1], "values": [1]}, {"dtype": "<f8", "shape": [1], "values": "a"},
        {"dtype": "M8[s]", "shape": [1], "values": [1]},
    ],
)  # fmt: skip
def test_starts_that_are_none_are_refused_before_they_are_made(start: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        decode_start(json.dumps(start))


def changes() -> Iterator[tuple[str, str, str, tuple[Any, ...]]]:
    """Name, problem, statement and values."""
    spec = "UPDATE spec SET json = json_set(json, ?, json(?))"
    for key, value in (
        ("$.problem_options.n", "3000"), ("$.problem_options.n", "100000000"),
        ("$.problem_options.horizon", "1000000000"),
        ("$.problem_options.n", "1" + "0" * 400), ("$.episodes", "1" + "0" * 400), ("$.episodes", "9007199254740993"),
        ("$.horizon", "1000000000"), ("$.n_states", "1000000000"), ("$.blueprint.n_states", "16000000"),
        ("$.blueprint.horizon", "16000000"), ("$.blueprint.n_actions", "16000000"), ("$.B", "1" + "0" * 400),
        ("$.seed", "1" + "0" * 400), ("$.seed", "-1"), ("$.blueprint.actions.dtype", '"|S2000000000"'),
        ("$.blueprint.actions.shape", "[1000000000, 1000000000]"), ("$.primal.settings.scale", "1" + "0" * 400),
        ("$.statements.primal.constants", '{"B": "x"}'), ("$.blueprint", "[" * 900 + "]" * 900),
    ):  # fmt: skip
        yield f"{key} {value[:12]}", "pits-v0", spec, (key, value)
    yield "no-multiplier", "no-multiplier-v0", spec, ("$.problem_options.bins", "1000000")
    yield "deep", "pits-v0", "UPDATE spec SET json = ?", ("[" * 100_000,)
    yield "seconds", "pits-v0", "UPDATE checkpoints SET seconds = 9e999", ()
    yield "rng", "pits-v0", "UPDATE checkpoints SET rng = ?", ('{"bit_generator": "PCG64", "state": 1e999}',)
    yield "rng number", "pits-v0", "UPDATE checkpoints SET rng = '7'", ()
    yield (
        "s1",
        "pits-v0",
        "UPDATE checkpoints SET s1 = ?",
        (json.dumps({"dtype": "|S2000000000", "shape": [1], "values": [""]}),),
    )
    yield "s1 far", "pits-v0", "UPDATE checkpoints SET s1 = '2147483647'", ()
    yield "s1 before", "pits-v0", "UPDATE checkpoints SET s1 = '-5'", ()
    yield "starts far", "pits-v0", "UPDATE rounds SET s1 = 2147483647, next_start = 2147483647", ()
    yield "starts before", "pits-v0", "UPDATE rounds SET s1 = -7, next_start = -9", ()
    yield "starts farther", "pits-v0", "UPDATE rounds SET s1 = 9223372036854775807", ()
    yield "steps", "pits-v0", "UPDATE rounds SET steps = -9223372036854775807", ()
    yield "multipliers", "pits-v0", "UPDATE rounds SET lam = 9e999", ()
    yield "values", "pits-v0", "UPDATE rounds SET v_r = -1e308, v_c = 1e308, upper = 9e999, reward = 1e308", ()
    yield "a blob for a number", "pits-v0", "UPDATE rounds SET lam = x'31'", ()
    for name, data in ARRAYS.items():
        yield name, "pits-v0", "UPDATE checkpoints SET arrays = ?", (data,)


CHANGES = {name: (problem, statement, values) for name, problem, statement, values in changes()}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hostile")
    found = {}
    for problem in ("pits-v0", "no-multiplier-v0"):
        found[problem] = folder / f"{problem}.rfrun"
        options = {"problem": {"n": 4} if problem == "pits-v0" else {"bins": 5}}
        rf.learn(problem, "ucbvi", episodes=60, path=found[problem], max_resets=1, settings=options)
    return found


def _execute(statement: str, values: tuple[Any, ...], connection: sqlite3.Connection) -> None:
    connection.execute(statement, values)


def read_all(names: Iterable[str], files: dict[str, Path], folder: Path) -> None:
    """Make the changes of these names, each in a file of its own, and read those."""
    command = [sys.executable, "-c", USE.format(memory=MEMORY)]
    for i, name in enumerate(names):
        problem, statement, values = CHANGES[name]
        path = Path(shutil.copy(files[problem], folder / f"{i}.rfrun"))
        forge(path, partial(_execute, statement, values))
        command += [str(path), problem]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_small_hostile_files_are_one_sentence_each(files: dict[str, Path], tmp_path: Path) -> None:
    read_all(["$.problem_options.n 3000", "s1 far", "no-multiplier"], files, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_every_hostile_file_is_one_sentence(name: str, files: dict[str, Path], tmp_path: Path) -> None:
    read_all([name], files, tmp_path)


def run_mutants(*names: str, every: int = 1) -> None:
    command = [sys.executable, "-m", "tests.runs.crafted_checkpoints", str(every), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong = [line for line in done.stdout.splitlines() if line.startswith("WRONG")]
    assert done.returncode == 0, (done.returncode, wrong[:5] or done.stdout[-300:], done.stderr[-1000:])
    assert done.stdout.count("DONE") == len(names)


def test_crafted_arrays_never_reach_compiled_code() -> None:
    """Counts, a player that eliminates, vector states: the kinds of state that compiled code indexes with."""
    run_mutants("ucbvi", "mdp-exp2", "model-search", every=5)


@pytest.mark.slow
@pytest.mark.parametrize("name", crafted_checkpoints.cases())
def test_crafted_arrays_of_every_player(name: str) -> None:
    run_mutants(name)
