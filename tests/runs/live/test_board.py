"""A board: the newest complete message, also when its writer is killed in the middle, and never a torn one."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import until

import resetfree as rf
from resetfree.core.plain_tree import plan_digest
from resetfree.runs.live import board as boards
from resetfree.runs.live.board import LEAST, NONE, Board

# Posts messages whose bytes are all n mod 256 and whose tag is n, of changing sizes, until it is killed.
WRITER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from resetfree.runs.live.board import Board
    board = Board.join(Path(sys.argv[1]))
    n = board.newest().number
    print(n, flush=True)
    while True:
        n += 1
        board.post(bytes([n % 256]) * (1_000_000 + 1000 * (n % 50)), tag=n)
""")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a board can be made."""
    return tmp_path / "board"


@pytest.fixture
def writer(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that posts as fast as it can."""
    Board.make(folder).close()
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        yield process
        process.kill()


def test_the_newest_message_is_taken_once(folder: Path) -> None:
    with Board.make(folder) as writer, Board.join(folder) as reader:
        assert reader.newest() == NONE
        assert reader.take(bytes) is None
        writer.post(b"one", tag=7)
        posted = writer.post(b"two", tag=8)
        assert reader.newest() == posted == (2, 8, plan_digest(b"two"))
        assert reader.take(bytes) == (posted, b"two")
        assert reader.take(bytes, after=2) is None


def test_messages_may_grow_and_shrink(folder: Path) -> None:
    with Board.make(folder) as writer, Board.join(folder) as reader:
        for n, size in enumerate([0, 1, LEAST, LEAST + 1, 10 * LEAST, 3, 100 * LEAST], 1):
            writer.post(bytes([n]) * size, tag=n)
            found = reader.take(bytes, after=n - 1)
            assert found is not None
            assert found[1] == bytes([n]) * size
            assert found[0].tag == n


def test_an_exception_while_reading_a_whole_message_propagates(folder: Path) -> None:
    def read(data: memoryview) -> None:
        raise rf.InvalidInput("no plan")

    with Board.make(folder) as board:
        board.post(b"x")
        with pytest.raises(rf.InvalidInput, match="no plan"):
            board.take(read)


def test_a_message_that_changes_while_it_is_read_is_not_taken(folder: Path) -> None:
    with Board.make(folder) as writer, Board.join(folder) as reader:
        writer.post(b"one")

        def lapped(data: memoryview) -> bytes:
            writer.post(b"more")
            writer.post(b"more")  # over the place that is being read
            return bytes(data)

        assert reader.take(lapped) is None
        assert reader.take(bytes) is not None


def test_a_writer_that_fails_in_the_middle_leaves_the_message_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Board.make(folder) as writer, Board.join(folder) as reader:
        writer.post(b"whole", tag=1)
        monkeypatch.setattr(boards, "SIZE", 10**6)  # the fields of the place cannot be written
        with pytest.raises(IndexError):
            writer.post(b"torn", tag=2)
        monkeypatch.undo()
        assert reader.take(bytes) == (reader.newest(), b"whole")
        assert writer.post(b"next", tag=3).number == 2
        assert reader.take(bytes) == (reader.newest(), b"next")


def test_no_message_is_torn_while_another_process_writes(folder: Path, writer: subprocess.Popen[str]) -> None:
    with Board.join(folder) as reader:
        last = 0
        for _ in range(100):
            found = until(lambda: reader.take(bytes, after=last), pause=0.0)  # noqa: B023
            assert found is not None
            (last, tag, digest), data = found
            assert tag == last
            assert data == bytes([last % 256]) * (1_000_000 + 1000 * (last % 50))
            assert digest == plan_digest(data)


def test_a_writer_that_is_killed_is_followed_by_another(folder: Path) -> None:
    Board.make(folder).close()
    before = 0
    with Board.join(folder) as reader:
        for turn in range(4):
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
            ) as one:
                assert one.stdout is not None
                assert int(one.stdout.readline()) == before  # it goes on where the other one was
                until(lambda: reader.newest().number >= before + 5 + turn)  # noqa: B023
                one.kill()
            found = reader.take(bytes)
            assert found is not None
            (number, tag, digest), data = found
            assert number > before
            assert (tag, digest) == (number, plan_digest(data))
            before = number


def test_a_board_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(rf.RunError, match="cannot be opened"):
        Board.join(tmp_path / "nothing")


def test_only_its_owner_can_read_it(folder: Path) -> None:
    Board.make(folder).close()
    assert os.stat(folder).st_mode & 0o077 == 0


OWNER = """
import sys, time
from pathlib import Path
from resetfree.runs.live import board as boards
boards.SHARED = Path(sys.argv[1])
with boards.board_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def aged(folder: Path) -> Path:
    """A folder that was made long ago."""
    before = time.time() - 2 * boards.FRESH
    os.utime(folder, (before, before))
    return folder


def test_a_folder_is_private_and_goes_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "SHARED", tmp_path)
    with boards.board_folder() as folder:
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "plans").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "SHARED", tmp_path)
    others = [tmp_path / "resetfree-abcdefgh", tmp_path / f"{boards.PREFIX}none"]  # one of them without an owner's file
    for other in others:
        other.mkdir()
        aged(other)
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        theirs = aged(Path(owner.stdout.readline().strip()))
        with boards.board_folder() as ours:
            aged(ours)
            boards.remove_abandoned(tmp_path)
            assert {theirs, ours} <= set(tmp_path.iterdir())  # both are in use
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    os.utime(theirs)
    boards.remove_abandoned(tmp_path)
    assert theirs.exists()  # it is so young that its owner may be about to lock it
    aged(theirs)
    with boards.board_folder():
        assert not theirs.exists()
    assert sorted(tmp_path.iterdir()) == sorted(others)
