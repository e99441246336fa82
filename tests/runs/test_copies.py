"""Copies of a run file that is being written, made at random moments with `cp`-like means, in every order of its files.

A copy either has every round that was safe when copying began, and goes on as the original did, bit for bit; or it is
refused in one sentence.
"""

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.copy_writer import CASES, Page
from tests.waiting import surroundings

import resetfree as rf
from resetfree.runs.file.ledger import read
from resetfree.runs.file.newfile import Contents, copy_run
from resetfree.runs.file.runfile import connect
from resetfree.show.cli import main

WRITER = Path(__file__).parent / "copy_writer.py"
ORDERS: dict[str, tuple[str, ...]] = {
    "file, log": ("", "-wal"),
    "log, file": ("-wal", ""),
    "file alone": ("",),
    "all, file first": ("", "-shm", "-wal", ".lock"),
    "all, file last": (".lock", "-wal", "-shm", ""),
    "resetfree copy": (),
}
AHEAD = 40  # rounds that a copy plays on


def copy(source: Path, target: Path, endings: tuple[str, ...], chance: random.Random) -> None:
    """Copy files one after the other, piece by piece, with pauses that let the writer work in between."""
    for ending in endings:
        try:
            with open(f"{source}{ending}", "rb") as held, open(f"{target}{ending}", "wb") as made:
                while piece := held.read(4096 * chance.choice((1, 4, 16, 64, 1024))):
                    made.write(piece)
                    time.sleep(chance.choice((0.0, 0.0, 0.0, 0.002, 0.01)))
        except FileNotFoundError:
            Path(f"{target}{ending}").unlink(missing_ok=True)
        time.sleep(chance.choice((0.0, 0.001, 0.02)))


def take_copies(folder: Path, case: str, episodes: int, copies: int, seed: int) -> tuple[Contents, list[Any]]:
    """The contents of a run, and its copies: order, file and how many rounds were safe before it was begun."""
    file, page, chance = folder / "run.rfrun", folder / "page", random.Random(seed)
    page.write_bytes(bytes(16))
    shared, made = Page(page), []
    words = [sys.executable, str(WRITER), str(file), str(episodes), str(page), case]
    with subprocess.Popen(words, env=surroundings()) as writer:
        while shared.safe == 0 and writer.poll() is None:
            time.sleep(0.01)
        for i in range(copies):
            time.sleep(chance.uniform(0.0, 0.04))
            order = list(ORDERS)[i % len(ORDERS)]
            target, safe = folder / f"copy{i}.rfrun", shared.safe
            if ORDERS[order]:
                copy(file, target, ORDERS[order], chance)
            else:
                copy_run(file, target)
            made.append((order, target, safe))
        shared.let_go()
    assert writer.returncode == 0
    return read(file), made


def recorded(file: Path, upto: int) -> list[Any]:
    """The rounds and transitions of a run as the file holds them."""
    with closing(connect(file, "ro")) as connection:
        tables = ("rounds", "transitions")
        return [
            connection.execute(f"SELECT * FROM {one} WHERE k <= ? ORDER BY k", (upto,)).fetchall() for one in tables
        ]


def judge(original: Contents, target: Path, safe: int, case: str, *, whole: bool) -> str:
    """Resume a copy: "resumed" or "refused", or what is wrong with it.  whole: play it to its end."""
    try:
        k = len(read(target).columns["k"])
        upto = original.episodes if whole else min(k + AHEAD, original.episodes)
        steps = int(original.columns["steps"][:upto].sum())
        more: dict[str, Any] = {"operator": rf.OperatorReset(lambda _: "")} if case == "an operator" else {}
        run = rf.learn(path=target, resume=True, episodes=original.episodes, steps=max(steps, 1), **more, **CASES[case])
    except rf.RunError as error:
        return "refused" if "\n" not in str(error) and len(str(error)) < 500 else f"refused at length: {error}"
    if k < safe:
        return f"lost: it has {k} of {safe} rounds"
    same = k if case == "an operator" else len(run)  # a machine goes on as it does
    if recorded(target, same) != recorded(target.with_name("run.rfrun"), same):
        return f"other rounds among the first {same}"
    return "resumed" if len(run) >= upto or case == "an operator" else f"ended after {len(run)} of {upto} rounds"


def check_copies(folder: Path, case: str, episodes: int, copies: int, seed: int, *, whole: bool = False) -> None:
    original, made = take_copies(folder, case, episodes, copies, seed)
    found = Counter((order, judge(original, target, safe, case, whole=whole)) for order, target, safe in made)
    print(*sorted(found.items()), sep="\n")
    assert {verdict for _, verdict in found} <= {"resumed", "refused"}
    assert ("resetfree copy", "refused") not in found
    assert ("file alone", "resumed") in found


@pytest.mark.parametrize("case", CASES)
def test_a_copy_of_a_run_that_is_written_goes_on_or_is_refused(case: str, tmp_path: Path) -> None:
    check_copies(tmp_path, case, 2000, 24, seed=2)


def test_a_log_older_than_its_file_is_refused(tmp_path: Path) -> None:
    """The log of one moment beside the file of a later one: SQLite reads the older rounds out of both, and no error."""
    file, copied = tmp_path / "run.rfrun", tmp_path / "copy.rfrun"

    def look(session: Any) -> None:
        if session.k in (60, 61):
            session.save()
            ending = "-wal" if session.k == 60 else ""
            shutil.copy(f"{file}{ending}", f"{copied}{ending}")

    rf.learn("grid-v0", "linear-ucb", episodes=100, path=file, callbacks=[look])
    with pytest.raises(rf.RunError, match=r"older log, 'copy\.rfrun-wal'.*resetfree copy"):
        rf.learn("grid-v0", "linear-ucb", episodes=100, path=copied, resume=True)
    with pytest.raises(rf.RunError, match="older log"):
        rf.load(copied)
    Path(f"{copied}-wal").unlink()
    assert len(rf.load(copied)) == 61


def test_the_command_copies_one_moment(tmp_path: Path) -> None:
    """Made while the run goes on: whole at once, never refused, and nothing is replaced."""
    file, found = tmp_path / "run.rfrun", []

    def look(session: Any) -> None:
        if session.k % 50 == 0:
            session.save()
            target = tmp_path / f"copy{session.k}.rfrun"
            assert main(["copy", str(file), str(target)]) == 0
            found.append((session.k, target))

    run = rf.learn("grid-v0", "linear-ucb", episodes=200, path=file, callbacks=[look])
    for k, target in found:
        assert len(rf.load(target)) == k
        assert [one.name for one in tmp_path.glob(f"{target.name}*")] == [target.name]
        again = rf.learn("grid-v0", "linear-ucb", episodes=200, path=target, resume=True)
        assert all(np.array_equal(again.columns[name], run.columns[name], equal_nan=True) for name in run.columns)
    before = target.read_bytes()
    assert main(["copy", str(file), str(target)]) == 2
    assert target.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_many_copies_of_a_run_that_is_written_go_on_or_are_refused(case: str, tmp_path: Path) -> None:
    check_copies(tmp_path, case, 8000, 300, seed=3, whole=True)
