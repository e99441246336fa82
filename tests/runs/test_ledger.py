"""The run file: what is committed stays, one writer, many readers, and nothing but data in it."""

import io
import json
import os
import pickle
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bank import edit
from tests.runs.forging import forge

import resetfree as rf
from resetfree.core import state
from resetfree.runs.file import ledger, runfile
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.file.runfile import Checkpoint

SPEC: dict[str, Any] = {
    "problem": "grid-v0", "problem_options": {}, "feedback": "optimistic", "episodes": 100, "seed": 0, "B": None,
    "B_source": None, "fingerprint": "0", "horizon": 8, "n_states": 12, "n_actions": 5, "chosen": None,
    "persistent": False,
    **{role: {"name": "x", "settings": {}} for role in ("primal", "dual")},
    "statements": {role: {"constants": {}, "covered": False, "why": ""} for role in ("primal", "dual")},
}  # fmt: skip


def row(k: int) -> tuple[Any, ...]:
    return (k, 3, 0.1 * k, 1 / k, 0.5, float("nan"), 0.5, float("inf"), k % 2, 8, 4, None, None, None)


def episode(k: int) -> rf.Episode:
    states = np.array([3, 300 * k, 4])
    return rf.Episode(states, np.array([k, 1]), np.array([0.5, -0.0]), bool(k % 2), 4)


def checkpoint(k: int) -> Checkpoint:
    return Checkpoint(k, 1.5, {"state": 2**100}, 4, {"primal.w": np.full(3, k / 7), "dual.n": np.asarray(k)})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with ten rounds and their checkpoint."""
    path = tmp_path / "a.rfrun"
    with Ledger.create(path, SPEC) as writer:
        for k in range(1, 11):
            writer.append(row(k))
        writer.commit(checkpoint(10))
    return path


def test_what_was_committed_comes_back(file: Path) -> None:
    contents = ledger.read(file)
    assert contents.spec == SPEC
    assert (contents.k, contents.seconds, contents.finished) == (10, 1.5, False)
    assert contents.columns["k"].tolist() == list(range(1, 11))
    assert contents.columns["reset"].dtype == np.bool_
    assert contents.columns["s1"].dtype == np.int64
    assert contents.columns["lam"].tolist() == [0.1 * k for k in range(1, 11)]
    assert np.isnan(contents.columns["upper"]).all()
    assert np.isnan(contents.columns["v_r"]).all()
    assert np.isposinf(contents.columns["reward"]).all()
    assert contents.meta["versions"]["numpy"] == np.__version__
    with Ledger.reopen(file) as writer:
        found, problem = writer.newest()
    assert found is not None
    assert problem == {}
    assert (found.k, found.rng, found.s1) == (10, {"state": 2**100}, 4)
    assert found.arrays["primal.w"].tobytes() == np.full(3, 10 / 7).tobytes()


def test_a_clean_end_leaves_one_file_and_no_names_of_machines(file: Path) -> None:
    assert [path.name for path in file.parent.iterdir()] == ["a.rfrun"]
    data = file.read_bytes()
    assert os.uname().nodename.encode() not in data
    assert str(file.parent).encode() not in data


def test_what_was_not_committed_is_gone_and_the_rest_is_intact(file: Path) -> None:
    with Ledger.reopen(file) as writer:
        for k in range(11, 11 + 2 * ledger.BATCH):  # more than memory holds: they wait in the open transaction
            writer.append(row(k))
    assert len(ledger.read(file).columns["k"]) == 10


def test_rounds_after_the_checkpoint_are_kept_with_their_episodes(file: Path) -> None:
    with Ledger.reopen(file) as writer:
        for k in (11, 12):
            writer.append(row(k), episode(k))
        writer.commit()
    with Ledger.reopen(file) as writer:
        found, _ = writer.newest()
        assert found is not None
        assert (found.k, writer.last) == (10, 12)
        played = list(writer.played(found.k + 1, writer.last))
        assert [(one.k, one.s1, one.episode.reset, one.episode.next_start) for one in played] == [
            (11, 3, True, 4),
            (12, 3, False, 4),
        ]
        for k, one in zip((11, 12), played, strict=True):
            for name in ("states", "actions", "rewards"):
                then, now = getattr(episode(k), name), getattr(one.episode, name)
                assert (now.dtype, now.shape, now.tobytes()) == (then.dtype, then.shape, then.tobytes())
        writer.resume(checkpoint(12))
        assert writer.saved()[0] == 12
    assert len(ledger.read(file).columns["k"]) == 12
    assert ledger.read(file).fit.whole


def test_what_the_problem_knows_is_kept_with_the_rounds_and_written_when_it_changes(file: Path) -> None:
    written: list[str] = []
    with Ledger.reopen(file) as writer:
        writer.certify([])  # the first write opens the file for writing
        writer._connection.set_trace_callback(written.append)
        known = {"seen": np.arange(6, dtype=np.uint8)}
        for k in (11, 12, 13):
            writer.append(row(k), episode(k))
            if k == 13:
                known["seen"][0] = 9  # the same array, with something else in it
            writer.commit(problem=known)
    assert sum(text.startswith("INSERT INTO problem") for text in written) == 2
    assert not any("INTO checkpoints" in text for text in written)
    with Ledger.reopen(file) as writer:
        found, problem = writer.newest()
    assert found is not None
    assert found.k == 10
    assert problem["seen"].tolist() == [9, 1, 2, 3, 4, 5]
    edit(file, "DELETE FROM problem")
    assert ledger.read(file).fit.what == "its problem"


def test_only_the_newest_checkpoint_is_kept_in_as_many_parts_as_it_takes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runfile, "PART", 100)
    big = {"primal.w": np.arange(1000.0)}
    with Ledger.reopen(file) as writer:
        writer.append(row(11))
        writer.commit(Checkpoint(11, 2.0, {}, 4, big))
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT min(k), max(k), count(*) > 50 FROM checkpoints").fetchone() == (11, 11, 1)
    connection.close()
    with Ledger.reopen(file) as writer:
        found, _ = writer.newest()
    assert found is not None
    assert found.arrays["primal.w"].tobytes() == big["primal.w"].tobytes()


def test_readers_read_while_it_is_written(file: Path) -> None:
    with Ledger.reopen(file) as writer:
        writer.append(row(11))
        assert len(ledger.read(file).columns["k"]) == 10
        writer.commit(checkpoint(11))
        assert len(ledger.read(file).columns["k"]) == 11
        for k in range(12, 12 + ledger.BATCH):
            writer.append(row(k))
        assert len(ledger.read(file).columns["k"]) == 11
    assert len(ledger.read(file).columns["k"]) == 11


def test_a_reader_that_stays_does_not_stop_a_clean_end(file: Path) -> None:
    with Ledger.reopen(file) as writer:
        reader = sqlite3.connect(file)
        assert reader.execute("SELECT count(*) FROM rounds").fetchone() == (10,)
        writer.append(row(11))
        writer.commit(checkpoint(11))
    assert reader.execute("SELECT count(*) FROM rounds").fetchone() == (11,)
    reader.close()
    assert len(ledger.read(file).columns["k"]) == 11


def test_a_second_writer_is_refused_until_the_first_is_gone(file: Path, tmp_path: Path) -> None:
    other_name = tmp_path / "link.rfrun"
    other_name.symlink_to(file)
    with Ledger.reopen(file):
        for path in (file, other_name):
            with pytest.raises(rf.RunError, match=r"is being written by another process \(\d+\)\. Wait"):
                Ledger.reopen(path)
            with pytest.raises(rf.RunError, match="is being written by another process"):
                Ledger.create(path, SPEC, overwrite=True)
    Ledger.reopen(file).close()
    (tmp_path / "a.rfrun.lock").touch()  # left by a killed process: it locks nothing
    Ledger.reopen(other_name).close()
    assert not (tmp_path / "a.rfrun.lock").exists()


def test_an_existing_file_is_only_replaced_when_asked(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    with pytest.raises(rf.RunError, match=r"\(resume=True\), replace it \(overwrite=True\) or name another"):
        Ledger.create(file, SPEC)
    assert file.read_bytes() == before
    Path(f"{file}-wal").write_bytes(b"a log of the old file")
    Ledger.create(file, SPEC, overwrite=True).close()
    assert len(ledger.read(file).columns["k"]) == 0
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear Sir or Madam, " * 20)
    with pytest.raises(rf.RunError, match="is not a run file"):
        Ledger.create(letter, SPEC, overwrite=True)
    assert letter.read_text().startswith("Dear")
    with pytest.raises(rf.RunError, match="Got the folder"):
        Ledger.create(tmp_path, SPEC, overwrite=True)
    with pytest.raises(rf.RunError, match="must lie in a folder"):
        Ledger.create(letter / "a.rfrun", SPEC)


def test_a_crash_while_it_is_created_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    for leftover in ("a.rfrun.new", "a.rfrun.new-journal", "a.rfrun-wal"):
        (tmp_path / leftover).write_bytes(b"half")
    (tmp_path / "a.rfrun.lock").write_bytes(b"\n12345")
    Ledger.create(path, SPEC).close()
    assert ledger.read(path).spec == SPEC
    assert [p.name for p in tmp_path.iterdir()] == ["a.rfrun"]


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.rfrun"
    with pytest.raises(rf.RunError, match="There is no run file"):
        ledger.read(path)
    for data in (b"", b"x", b"\x89PNG" + bytes(200)):
        path.write_bytes(data)
        with pytest.raises(rf.RunError, match="is not a run file of resetfree"):
            ledger.read(path)
    path.unlink()
    edit(path, "CREATE TABLE rounds (k)")
    with pytest.raises(rf.RunError, match="is a SQLite database, but not a run file"):
        ledger.read(path)
    with pytest.raises(rf.RunError, match="but not a run file"):
        Ledger.reopen(path)
    assert not Path(f"{path}.lock").exists()
    with pytest.raises(rf.RunError, match="cannot be read"):
        ledger.read(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON rounds BEGIN DELETE FROM rounds; END",
        "CREATE VIEW v AS SELECT * FROM rounds",
        "ALTER TABLE rounds ADD COLUMN more",
        "DROP TABLE certificates",
    ],
)
def test_a_file_with_other_tables_is_refused(file: Path, statement: str) -> None:
    edit(file, statement)
    for use in (ledger.read, Ledger.reopen):
        with pytest.raises(rf.RunError, match="it has other tables"):
            use(file)


def test_a_newer_format_is_refused(file: Path) -> None:
    edit(file, "PRAGMA user_version = 4")
    for use in (ledger.read, Ledger.reopen, ledger.read_spec_of):
        with pytest.raises(rf.RunError, match=r"has format 4, .* reads format 3\. Install a newer one\."):
            use(file)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"episodes": "many"}, "the 'episodes' of its spec must be int, and is str"),
        ({"episodes": True}, "the 'episodes' of its spec must be int, and is bool"),
        ({"episodes": 0}, "its 'episodes' must be positive, and is 0"),
        ({"primal": {"name": "x"}}, "its primal has no 'settings'"),
        ({"statements": {}}, "its statement of the primal player must be an object"),
        ({"B": float("inf")}, "its 'B' must be finite"),
    ],
)
def test_a_stranger_s_spec_is_checked(file: Path, change: dict[str, Any], sentence: str) -> None:
    edit(file, "UPDATE spec SET json = ?", values=(json.dumps(SPEC | change),))
    with pytest.raises(rf.RunError, match=sentence):
        ledger.read(file)
    with pytest.raises(rf.RunError, match=sentence):
        Ledger.reopen(file)
    Ledger.create(file, SPEC, overwrite=True).close()  # the lock is free again


@pytest.mark.parametrize("text", ["", "[" * 100_000, "7", "null", "{", '{"problem": 1}'])
def test_a_spec_that_is_none_is_one_sentence(file: Path, text: str) -> None:
    edit(file, "UPDATE spec SET json = ?", values=(text,))
    with pytest.raises(rf.RunError, match="is damaged or was not written by resetfree"):
        ledger.read(file)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM rounds WHERE k = 5",
        "UPDATE rounds SET lam = 'a lot' WHERE k = 5",
        "UPDATE rounds SET s1 = NULL WHERE k = 5",
        "DELETE FROM spec",
        "UPDATE certificates SET json = '7'",
        "UPDATE checkpoints SET seconds = 'long'",
    ],
)
def test_rounds_that_cannot_be_are_one_sentence(file: Path, statement: str) -> None:
    edit(file, "INSERT INTO certificates VALUES ('a', '{}')", statement)
    with pytest.raises(rf.RunError, match="is damaged"):
        ledger.read(file)


def test_a_file_cut_short_is_refused_or_read_whole(file: Path, tmp_path: Path) -> None:
    data, part = file.read_bytes(), tmp_path / "part.rfrun"
    refused = 0
    for size in (1, 50, 99, 100, 2000, 4096, 5000, len(data) // 2, len(data) - 4096, len(data) - 1):
        part.write_bytes(data[:size])
        for use in (ledger.read, Ledger.reopen):
            try:
                found = use(part)
            except rf.RunError:
                refused += 1
                continue
            if isinstance(found, Ledger):
                found.close()
            assert len(ledger.read(part).columns["k"]) == 10
    assert refused >= 16


class Bomb:
    """What must never go off."""

    def __init__(self, crater: Path) -> None:
        self.crater = str(crater)

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.crater,))


def bombs(crater: Path) -> Iterator[bytes]:
    buffer = io.BytesIO()
    np.savez(buffer, w=np.array([Bomb(crater)], dtype=object))
    yield buffer.getvalue()
    yield pickle.dumps(Bomb(crater))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, w=np.zeros(10**6))  # a thousand times larger in memory
    yield buffer.getvalue()
    yield b""


def plant(bomb: bytes, connection: sqlite3.Connection) -> object:
    return connection.execute("UPDATE checkpoints SET arrays = ?", (bomb,))


def test_arrays_that_are_more_than_arrays_are_refused(file: Path, tmp_path: Path) -> None:
    crater = tmp_path / "crater"
    for bomb in bombs(crater):
        forge(file, partial(plant, bomb))
        with Ledger.reopen(file) as writer, pytest.raises(rf.RunError, match="is damaged"):
            writer.newest()
    assert not crater.exists()
    with pytest.raises(rf.InvalidInput, match=r"Got object in 'w' instead\."):
        state.check_arrays(state.dump({"w": np.array([Bomb(crater)], dtype=object)}))


def test_a_full_disk_is_one_sentence_and_what_was_there_stays(file: Path) -> None:
    with Ledger.reopen(file) as writer:
        writer.certify([])  # the first write opens the file for writing
        writer._connection.execute("PRAGMA max_page_count = 30")
        for k in range(11, 10 + ledger.BATCH):
            writer.append(row(k))
        with pytest.raises(rf.RunError, match=r"the disk is full\. What was saved before is intact; free some space"):
            writer.append(row(10 + ledger.BATCH))
        assert writer.broken
        with pytest.raises(rf.RunError, match="is not tried again"):
            writer.commit(checkpoint(11))
    assert ledger.read(file).k == 10
    assert len(ledger.read(file).columns["k"]) == 10
    with Ledger.reopen(file) as writer:
        writer.certify([])  # the first write opens the file for writing
        writer._connection.execute("PRAGMA max_page_count = 30")
        writer.append(row(11))
        with pytest.raises(rf.RunError, match="the disk is full"):
            writer.commit(Checkpoint(11, 2.0, {}, 4, {"primal.w": np.zeros(10**5)}))
    assert (ledger.read(file).k, len(ledger.read(file).columns["k"])) == (10, 10)


@pytest.fixture
def read_only_folder() -> Iterator[Path]:
    """A folder in which this process may not write, even if it started as root."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    path = folder / "a.rfrun"
    with Ledger.create(path, SPEC) as writer:
        writer.append(row(1))
        writer.commit(checkpoint(1))
    waiting = folder / "waiting.rfrun"  # as a copy of the file alone, from a run that is still going on
    waiting.write_bytes(path.read_bytes())
    edit(waiting, "PRAGMA journal_mode = WAL")
    for entry in (path, waiting):
        entry.chmod(0o444)
    folder.chmod(0o555)
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o755)
    for entry in folder.iterdir():
        entry.unlink()
    folder.rmdir()


def test_a_read_only_folder_is_one_sentence_and_can_be_read(read_only_folder: Path) -> None:
    with pytest.raises(rf.RunError, match=r"new\.rfrun' cannot be written: Permission denied in its folder"):
        Ledger.create(read_only_folder / "new.rfrun", SPEC)
    with pytest.raises(rf.RunError, match="cannot be written: Permission denied in its folder"):
        Ledger.reopen(read_only_folder / "a.rfrun")
    with pytest.raises(rf.RunError, match="cannot be made: Permission denied"):
        Ledger.create(read_only_folder / "sub" / "new.rfrun", SPEC)
    assert len(ledger.read(read_only_folder / "a.rfrun").columns["k"]) == 1
    assert len(ledger.read(read_only_folder / "waiting.rfrun").columns["k"]) == 1


@pytest.mark.parametrize("start", [3, -0.0, 0.1, "left", np.array([0.1, np.nan]), np.array([[1, 2]], dtype=np.int8)])
def test_starts_of_any_kind_come_back_bit_for_bit(start: Any) -> None:
    back = runfile.decode_start(runfile.encode_start(start))
    assert type(back) is type(start)
    assert np.asarray(back).tobytes() == np.asarray(start).tobytes()
    assert np.asarray(back).dtype == np.asarray(start).dtype


def test_starts_that_are_no_data_are_refused() -> None:
    with pytest.raises(rf.InvalidInput, match="Got object instead"):
        runfile.encode_start(object())
    for text in ('{"a": 1}', "[1]", '{"dtype": "O", "shape": [1], "values": [1]}'):
        with pytest.raises(ValueError, match=r"a start|has the type 'O'"):
            runfile.decode_start(text)


def test_certificates_are_kept_and_replaced(file: Path) -> None:
    ledger.write_certificates(file, [rf.Certificate("old", 1.0, 2.0)])
    claims = [rf.Certificate("bounded", 1.0, 2.0), rf.Certificate("equal", 1.0, float("inf"), kind="==")]
    ledger.write_certificates(file, claims)
    assert ledger.read(file).certificates == [claim.to_dict() for claim in claims]
    assert len(ledger.read(file).columns["k"]) == 10
