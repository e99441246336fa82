"""Folders of boards: removed at the end, and after a kill by the next run; those in use and those of others stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resetfree.runs.live import board as boards

OWNER = """
import sys, time
from pathlib import Path
from resetfree.runs.live import board_folder as boards
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
