"""A command that refuses leaves the run file, and every file beside it, as it was: also those that are not ours."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.core.files import WriterLock, is_held
from resetfree.runs.file.ledger import Ledger, read

REST = b"the rest of a page" * 300
STRANGE = {  # endings, and what a strange file may begin with
    "-journal": (b"\0", b"SQLite format 3\0", b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"),
    "-wal": (b"x", b"\x37\x7f\x06\x82"),
    "-shm": (b"x",),
    ".lock": (b"x", b"\n12x"),
}
CASES = [(ending, begins) for ending, all_of in STRANGE.items() for begins in all_of]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "a.rfrun"
    rf.learn("grid-v0", "uniform", episodes=4, path=path)
    return path


@pytest.fixture
def file(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "a.rfrun"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, but for the memory that SQLite shares beside a log."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


@pytest.mark.parametrize(("ending", "begins"), CASES)
def test_a_refused_resume_changes_no_file(file: Path, ending: str, begins: bytes) -> None:
    beside = Path(f"{file}{ending}")
    beside.write_bytes(begins + REST)
    before = contents(file.parent)
    with pytest.raises(rf.RunError):
        rf.learn("grid-v0", "ucbvi", episodes=4, path=file, resume=True)
    assert contents(file.parent) == before
    assert beside.exists()


def killed(made: Path, file: Path) -> Path:
    """The file of a run that was killed: one round is in its log only."""
    with Ledger.reopen(Path(shutil.copy(made, file.parent / "b.rfrun"))) as ledger:
        ledger.certify([])
        for ending in ("", "-wal"):
            shutil.copy(f"{ledger.path}{ending}", f"{file}{ending}")
    (file.parent / "b.rfrun").unlink()
    assert Path(f"{file}-wal").stat().st_size
    return file


def test_the_log_of_a_killed_run_is_merged_by_a_run_that_goes_on_only(made: Path, file: Path) -> None:
    killed(made, file)
    before = contents(file.parent)
    with pytest.raises(rf.RunError):
        rf.learn("grid-v0", "ucbvi", episodes=4, path=file, resume=True)
    assert contents(file.parent) == before
    for _ in range(2):
        rf.learn("grid-v0", "uniform", episodes=4, path=file, resume=True)  # it has ended: there is nothing to play
        assert {path.name for path in file.parent.iterdir()} == {"a.rfrun"}
        Path(f"{file}-wal").touch()  # nor is a log in which there is nothing left there


def identity(path: Path) -> tuple[int, ...]:
    """Which file it is, and when it was last written."""
    about = path.lstat()
    return about.st_ino, about.st_size, about.st_mtime_ns


JOURNALS = ("hot", "pipe", "folder", "symlink")


def put(kind: str, journal: Path) -> None:
    if kind == "hot":
        journal.write_bytes(REST)
    elif kind == "pipe":
        os.mkfifo(journal)
    elif kind == "folder":
        journal.mkdir()
    else:
        journal.symlink_to("precious")


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_journal_of_another_program_is_named_and_neither_followed_nor_deleted(file: Path, kind: str) -> None:
    journal = Path(f"{file}-journal")
    put(kind, journal)
    before, about = file.read_bytes(), identity(journal)
    for use in (read, Ledger.reopen, lambda path: Ledger.create(path, {}, overwrite=True)):
        with pytest.raises(rf.RunError, match=r"lies 'a\.rfrun-journal', in which another program keeps changes"):
            use(file)
    assert file.read_bytes() == before
    file.unlink()
    with pytest.raises(rf.RunError, match=r"move the journal away"):  # it would be applied to the new file
        rf.learn("grid-v0", "uniform", episodes=4, path=file)
    assert identity(journal) == about
    assert [path.name for path in file.parent.iterdir()] == [journal.name]


def test_a_run_goes_on_beside_a_journal_that_is_done_with(file: Path) -> None:
    """Other programs leave some that begin with a zero; the change of mode must not take it for its own."""
    journal = Path(f"{file}-journal")
    journal.write_bytes(b"\0" + REST)
    assert len(rf.learn("grid-v0", "uniform", episodes=6, path=file, resume=True)) == 6
    assert journal.read_bytes() == b"\0" + REST
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


def test_a_foreign_file_in_the_place_of_the_lock_locks_and_stays(tmp_path: Path) -> None:
    sidecar = tmp_path / "a.lock"
    sidecar.write_text("Dear Sir or Madam")
    lock = WriterLock(tmp_path / "a").acquire()
    assert is_held(tmp_path / "a")
    with pytest.raises(rf.RunError, match="is being written by another process"):
        WriterLock(tmp_path / "a").acquire()
    lock.release()
    assert sidecar.read_text() == "Dear Sir or Madam"
    sidecar.rename(tmp_path / "precious")
    sidecar.symlink_to("precious")
    with pytest.raises(rf.RunError, match="cannot be written"):
        WriterLock(tmp_path / "a").acquire()
    sidecar.unlink()
    os.mkfifo(sidecar)
    WriterLock(tmp_path / "a").acquire().release()
    assert not is_held(tmp_path / "a")
    assert sidecar.is_fifo()
    assert (tmp_path / "precious").read_text() == "Dear Sir or Madam"
