"""Files that appear whole or not at all, and messages that name them and not their drafts."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import resetfree as rf
from resetfree.core.files import WriterLock, drafted, is_held
from resetfree.show.cli import main


def test_an_error_about_a_draft_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "a.txt"
    with pytest.raises(FileNotFoundError, match="There is no folder") as caught, drafted(file) as draft:
        draft.write_text("x")
    assert caught.value.filename == str(file)
    folder = tmp_path / "folder.txt"
    folder.mkdir()
    with pytest.raises(IsADirectoryError) as moved, drafted(folder) as draft:
        draft.write_text("x")
    assert (moved.value.filename, moved.value.filename2) == (str(folder), None)
    with pytest.raises(OSError, match="other") as other, drafted(tmp_path / "a.txt") as draft:
        raise OSError(errno.EIO, "other", "another file")
    assert other.value.filename == "another file"
    assert [path.name for path in tmp_path.iterdir()] == ["folder.txt"]


def test_a_picture_replaces_pictures_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes"  # without an ending, the picture would be a PNG
    notes.write_text("My notes.")
    assert main(["solve", "grid-v0", "--picture", str(notes)]) == 2
    assert "exists and is no picture" in capsys.readouterr().err
    assert notes.read_text() == "My notes."
    for _ in range(2):
        assert main(["solve", "grid-v0", "--picture", str(tmp_path / "a.svg")]) == 0


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("runs") / "a.rfrun"
    rf.learn("grid-v0", "uniform", episodes=2, path=file)
    return file


INTO = ["transitions RUN -o OUT.npz", "transitions RUN -o OUT.parquet", "report RUN -o OUT.html"]
MAKING = [  # their folder, if it does not exist
    "export RUN -o OUT.npz",
    "run grid-v0 --episodes 2 --primal uniform --out OUT.rfrun",
    "sweep run PLAN --out OUT --engine local",
]
CASES = [*((words, "nowhere/x") for words in INTO), *((words, "text/x") for words in (*INTO, *MAKING))]


@pytest.mark.parametrize(("words", "place"), CASES)
def test_a_file_that_cannot_be_written_is_named_as_it_was_given(
    words: str,
    place: str,
    run_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("A file, not a folder.")
    Path("plan.toml").write_text("[sweep]\nepisodes = 2\nseeds = 1\n[[problem]]\nid = 'grid-v0'\n")
    argv = words.replace("RUN", str(run_file)).replace("PLAN", "plan.toml").replace("OUT", place).split()
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert ".new" not in said
    assert place.partition("/")[0] in said
    assert {path.name for path in tmp_path.iterdir()} == {"text", "plan.toml"}


HOLD = """
import sys, time
from pathlib import Path
from resetfree.core.files import WriterLock
WriterLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(600)
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_that_is_held_is_refused_at_once_and_free_when_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    with holder(path) as process:
        began = time.monotonic()
        with pytest.raises(
            rf.RunError, match=rf"'.*a\.rfrun' is being written by another process \({process.pid}\)\. Wait"
        ):
            WriterLock(path).acquire()
        assert time.monotonic() - began < 60.0  # its holder has it for longer
        assert is_held(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "a.rfrun.lock").exists()  # left behind: it locks nothing
    assert not is_held(path)
    WriterLock(path).acquire().release()
    assert not (tmp_path / "a.rfrun.lock").exists()


def test_two_names_of_one_file_share_one_lock(tmp_path: Path) -> None:
    (tmp_path / "a.rfrun").touch()
    (tmp_path / "b.rfrun").symlink_to(tmp_path / "a.rfrun")
    lock = WriterLock(tmp_path / "a.rfrun").acquire()
    with pytest.raises(rf.RunError, match="is being written by another process"):
        WriterLock(tmp_path / "b.rfrun").acquire()
    lock.release()
    lock.release()  # twice does nothing
    WriterLock(tmp_path / "b.rfrun").acquire().release()


def test_a_sidecar_that_its_last_holder_removes_meanwhile_is_not_taken_for_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened before and locked after the last holder removed it: that inode guards no name, so the next is taken."""
    first, real_open, opened = WriterLock(tmp_path / "a").acquire(), os.open, []

    def slow_open(path: str, *rest: int) -> int:
        handle = real_open(path, *rest)
        opened.append(handle)
        if len(opened) == 1:
            first.release()
        return handle

    monkeypatch.setattr(os, "open", slow_open)
    second = WriterLock(tmp_path / "a").acquire()
    monkeypatch.undo()
    assert len(opened) == 2
    with pytest.raises(rf.RunError, match="is being written"):
        WriterLock(tmp_path / "a").acquire()
    second.release()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "none" / "a")
    with pytest.raises(rf.RunError, match="cannot be written: No such file or directory in its folder"):
        WriterLock(tmp_path / "none" / "a").acquire()
