"""One writer at a time: refused at once while it is held, free again when its holder is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resetfree.core.errors import RunError
from resetfree.core.files import WriterLock, is_held

HOLD = """
import sys, time
from pathlib import Path
from resetfree.core.files import WriterLock
WriterLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
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
            RunError, match=rf"'.*a\.rfrun' is being written by another process \({process.pid}\)\. Wait"
        ):
            WriterLock(path).acquire()
        assert time.monotonic() - began < 1.0
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
    with pytest.raises(RunError, match="is being written by another process"):
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
    with pytest.raises(RunError, match="is being written"):
        WriterLock(tmp_path / "a").acquire()
    second.release()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert not is_held(tmp_path / "none" / "a")
    with pytest.raises(RunError, match="cannot be written: No such file or directory in its folder"):
        WriterLock(tmp_path / "none" / "a").acquire()
