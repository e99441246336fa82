"""The digest in a run file: what was changed after it was written shows, and where."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit, select
from tests.runs.forging import forge

import resetfree as rf
from resetfree.problems import Intervention
from resetfree.runs.file import digest
from resetfree.runs.file.ledger import Ledger, read
from resetfree.runs.file.runfile import Checkpoint
from resetfree.show.cli import main
from resetfree.theory.certificates.record import DIGEST

ROUNDS = 300
PERFORMED = '{"k": 1, "why": "", "detail": "", "who": "", "asked": "", "answered": "", "seconds": 1.0}'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in several commits, with certificates in its file."""
    path = tmp_path_factory.mktemp("digest") / "run.rfrun"
    rf.learn("grid-v0", "uniform", episodes=ROUNDS, path=path, checkpoint_every=0.001)
    assert main(["certify", str(path)]) == 0
    return path


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "run.rfrun"))


def claim(path: Path) -> Any:
    return next(c for c in rf.load(path).certificates() if c.claim == DIGEST)


def test_what_was_written_fits(file: Path) -> None:
    contents = read(file)
    assert contents.fit.whole
    assert len(contents.certificates) > 3
    found = claim(file)
    assert found.holds
    assert found.status == "checked"
    assert "not forgery" in found.why
    ((commits,),) = select(file, "SELECT count(*) FROM digests")
    assert commits > 3


@pytest.mark.parametrize(
    ("statement", "wrong", "where"),
    [
        ("UPDATE rounds SET lam = lam + 1e-9 WHERE k = 17", 1, "round 17"),
        ("UPDATE rounds SET reset = 1 - reset WHERE k IN (40, 200)", 2, "round 40"),
        ("UPDATE rounds SET v_r = NULL WHERE k = 300", 1, "round 300"),
        ("DELETE FROM rounds WHERE k > 290", 10, "round 291"),
        ("INSERT INTO rounds SELECT 301, s1, lam, v_r_hat, v_c_hat, upper, cost_signal, reward, reset, steps, "
         "next_start, v_r, v_c, original_return FROM rounds WHERE k = 300", 1, "round 301"),
        ("UPDATE spec SET json = replace(json, '\"covered\": false', '\"covered\": true')", 1, "the spec"),
        ("UPDATE checkpoints SET seconds = seconds + 1", 1, "its checkpoint"),
        ("UPDATE meta SET json = replace(json, 'time', 'Time')", 1, "its meta"),
        ("UPDATE certificates SET json = replace(json, 'proved', 'tuned')", 1, "its certificates"),
        (f"INSERT INTO interventions VALUES ('{PERFORMED}')", 1, "its interventions"),
        ("UPDATE transitions SET data = zeroblob(length(data)) WHERE k = 17", 1, "round 17"),
        ("UPDATE transitions SET form = replace(form, 'u1', 'i1') WHERE k IN (40, 200)", 2, "round 40"),
        ("DELETE FROM transitions WHERE k = 299", 1, "round 299"),
        ("UPDATE digests SET transitions = zeroblob(32) WHERE rowid = 3", 1, None),
        ("INSERT INTO problem VALUES (0, x'00')", 1, "its problem"),
        ("DELETE FROM digests WHERE rowid = 2", None, None),
        ("DELETE FROM digests WHERE rowid > 2", None, None),
        ("UPDATE digests SET digest = zeroblob(32) WHERE rowid = 2", 1, None),
    ],
)  # fmt: skip
def test_an_edit_shows_and_is_named(file: Path, statement: str, wrong: int | None, where: str | None) -> None:
    kept = ["UPDATE checkpoints SET k = 290"] if "> 290" in statement else []
    edit(file, statement, *kept)
    found = claim(file)
    assert not found.holds
    assert found.status == "checked"
    if wrong is not None:
        assert found.lhs == wrong
    if where is not None:
        assert found.witness == where
    with pytest.raises(rf.RunError, match=r"damaged or edited after it was written: .* does not fit its digest"):
        rf.load(file).policy  # noqa: B018
    with Ledger.reopen(file) as ledger, pytest.raises(rf.RunError, match="does not fit its digest"):
        ledger.newest()


def test_every_command_says_so(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(file, "UPDATE rounds SET reward = reward + 0.25 WHERE k = 5")
    for words in (["evaluate", str(file)], ["export", str(file), "-o", str(tmp_path / "p.npz")]):
        assert main(words) == 2
        assert "round 5 does not fit its digest" in capsys.readouterr().err
    assert not (tmp_path / "p.npz").exists()
    page = tmp_path / "r.html"
    assert main(["report", str(file), "-o", str(page)]) == 0
    assert "round 5 does not fit its digest" in page.read_text()
    capsys.readouterr()
    assert main(["certify", str(file), "--strict", "--json"]) == 1
    found = [c for c in json.loads(capsys.readouterr().out)["certificates"] if c["claim"] == DIGEST]
    assert [c["witness"] for c in found] == ["round 5"]
    # The certificates that this wrote into the file do not make it whole.
    assert claim(file).witness == "round 5"


def test_a_forger_with_our_code_passes_and_only_a_replay_shows_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge(file, lambda connection: connection.execute("UPDATE rounds SET reward = reward + 0.25 WHERE k = 5"))
    assert claim(file).holds
    assert main(["certify", str(file), "--replay", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["certificates"][0]
    assert first["witness"] == "round 5"
    assert not first["holds"]


def test_resume_goes_on_after_the_last_round(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    spec = read_spec(tmp_path)
    rows = [(k, 3, 0.1, 1.0, 0.5, None, 0.5, 2.0, 0, 8, 3, None, None, float("nan")) for k in range(1, 31)]
    with Ledger.create(path, spec) as ledger:
        for row in rows[:10]:
            ledger.append(row, episode())
        ledger.commit(checkpoint(10))
        for row in rows[10:20]:
            ledger.append(row, episode())
        ledger.intervened([one_intervention()])
        ledger.commit()
    with Ledger.reopen(path) as ledger:
        ledger.newest()
        ledger.resume(checkpoint(20))
        for row in rows[20:]:
            ledger.append(row, episode())
        ledger.commit(checkpoint(30))
    contents = read(path)
    assert contents.fit.whole
    assert (len(contents.columns["k"]), len(contents.interventions)) == (30, 1)


@pytest.mark.parametrize("kind", ["INTEGER", "REAL", "TEXT"])
def test_the_bytes_of_a_round_survive_sqlite(kind: str, tmp_path: Path) -> None:
    """Every value that a round may have, -0.0 and subnormal numbers included, and starts of each kind."""
    odd = [0.0, -0.0, 5e-324, -1e308, float("inf"), float("-inf"), float("nan"), 1 / 3, 2.0**53, 1e-17, None]
    start = {"INTEGER": 7, "REAL": -0.0, "TEXT": '{"dtype": "<f8", "shape": [1], "values": [0.1]}'}[kind]
    rows = [
        (k, start, x, 1.0, x, x, 0.5, x, k % 2, 8, None if kind != "TEXT" else "null", x, x, x)
        for k, x in enumerate(odd, 1)
    ]
    path = tmp_path / "a.rfrun"
    with Ledger.create(path, read_spec(tmp_path), starts=kind) as ledger:
        for row in rows:
            ledger.append(row)
        ledger.commit()
    back = select(path, "SELECT * FROM rounds ORDER BY k")
    text = kind == "TEXT"
    assert list(map(bytes, digest.canonical(rows, text))) == list(map(bytes, digest.canonical(back, text)))


def test_an_older_format_is_refused_with_a_sentence(file: Path) -> None:
    edit(file, "PRAGMA user_version = 2")
    with pytest.raises(
        rf.RunError, match=r"has format 2, which holds no transitions.* reads format 3.* Make the run again"
    ):
        rf.load(file)


def damages(data: bytes) -> Iterator[bytes]:
    """240 of them: bits flipped, pages zeroed, the end cut off, and bytes of one place put into another."""
    rng = np.random.default_rng(7)
    for kind in range(240):
        at = int(rng.integers(len(data)))
        found = bytearray(data)
        if kind % 4 == 0:
            found[at] ^= 1 << int(rng.integers(8))
        elif kind % 4 == 1:
            page = at // 4096 * 4096
            found[page : page + 4096] = bytes(len(found[page : page + 4096]))
        elif kind % 4 == 2:
            del found[at:]
        else:
            other, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
            found[at : at + length] = data[other : other + length]
        yield bytes(found)


def tables(path: Path) -> Any:
    """All cells, None where SQLite cannot read them."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        names = ("meta", "spec", "rounds", "transitions", "problem", "checkpoints", "certificates", "interventions")
        return [connection.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in names]
    except (sqlite3.Error, UnicodeError):
        return None
    finally:
        connection.close()


def test_no_damaged_file_passes_as_whole(made: Path, tmp_path: Path) -> None:
    """Bytes that no table holds (free space on a page) may change; whatever passes holds the very same cells."""
    data, part, before = made.read_bytes(), tmp_path / "part.rfrun", tables(made)
    refused = unfit = 0
    for damaged in damages(data):
        part.write_bytes(damaged)
        with suppress(rf.RunError), Ledger.reopen(part) as ledger:
            ledger.newest()
        try:
            whole = read(part).fit.whole
        except rf.ResetFreeError:
            refused += 1
            continue
        unfit += not whole
        if whole:
            assert tables(part) == before
    assert refused + unfit > 150, (refused, unfit)


def read_spec(folder: Path) -> dict[str, Any]:
    path = folder / "spec.rfrun"
    return rf.learn("grid-v0", "uniform", episodes=100, path=path, max_resets=1).spec


def checkpoint(k: int) -> Checkpoint:
    return Checkpoint(k, 1.5, {"state": 2**100}, 4, {"primal.w": np.full(3, k / 7)})


def episode() -> rf.Episode:
    return rf.Episode(np.full(9, 3), np.zeros(8, dtype=np.int64), np.full(8, 0.25), False, 3)


def one_intervention() -> Intervention:
    return Intervention(20, "reset", "fell", "somebody", "2020-01-01T00:00:00", "2020-01-01T00:00:01", 1.0)
