"""Reports are made in another process: if it fails, the response is one sentence, and games are not affected."""

import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.show.studio.serving import GRID, Here
from tests.studies.common import is_running
from tests.waiting import LONG, until

import resetfree as rf
from resetfree.show.studio import limits
from resetfree.show.studio import report_jobs as reporting
from resetfree.show.studio.files import RunFolder
from resetfree.show.studio.web import ChildFailed, Children

SLEEPS = "import time; time.sleep(600)"


def script(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def dies_of(number: int) -> list[str]:
    return script(f"import os; os.kill(os.getpid(), {number})")


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGBUS])
def test_a_process_that_is_killed_is_one_sentence(number: signal.Signals) -> None:
    children = Children(1)
    with pytest.raises(
        ChildFailed, match=f"^The thing could not be made: its process was killed by {number.name}.$"
    ) as e:
        children.run(dies_of(number), "thing", LONG)
    assert e.value.status == 500
    children.run(script("pass"), "thing", LONG)  # its place is free again


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("import sys; sys.exit('  One\\n sentence. ')", ChildFailed, "ended with status 1"),
        ("import sys; sys.stderr.write(' One\\n  sentence. '); sys.exit(2)", rf.RunError, "^One sentence.$"),
        ("import sys; sys.exit(2)", rf.RunError, "^The thing cannot be made.$"),
        ("1 / 0", ChildFailed, "ended with status 1"),
    ],
)
def test_how_a_process_ends_is_one_sentence(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as error:
        Children(1).run(script(text), "thing", LONG)
    assert type(error.value) is kind
    assert "Traceback" not in str(error.value)


def test_what_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "note"
    command = ["/bin/sh", "-c", f"sleep 600 & echo $$ $! > '{note}'; wait"]
    for seconds in (1.0, 10.0, 100.0):  # until a busy computer has let it start
        with pytest.raises(ChildFailed, match=f"longer than {seconds:g} second") as error:
            Children(1).run(command, "thing", seconds)
        assert error.value.status == 504
        if note.exists():
            break
    for pid in map(int, note.read_text().split()):
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_only_so_many_at_once_and_none_after_the_end() -> None:
    children, said = Children(2), list[Exception]()

    def run() -> None:
        try:
            children.run(script(SLEEPS), "thing", 600.0)
        except ChildFailed as error:
            said.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(children._live) == 2)
    live = [child.pid for child in children._live]
    with pytest.raises(ChildFailed, match="2 are being made") as busy:
        children.run(script("pass"), "thing", LONG)
    children.close()
    for thread in threads:
        thread.join()
    assert [str(error) for error in said] == ["The studio is shutting down."] * 2
    with pytest.raises(ChildFailed, match="is shutting down") as late:
        children.run(script("pass"), "thing", LONG)
    assert {busy.value.status, late.value.status} == {503}
    assert not any(map(is_running, live))


def test_a_report_has_bounded_memory_and_time() -> None:
    text = (
        "import resource; from resetfree.show.studio.report_jobs import bound; bound(1 << 30, 50.5); "
        "assert resource.getrlimit(resource.RLIMIT_CPU) == (51, 51)\n"
        "try:\n    bytearray(2 << 30)\nexcept MemoryError:\n    print('bounded')"
    )
    done = subprocess.run(script(text), capture_output=True, text=True)
    assert done.stdout == "bounded\n", done.stderr


def test_a_report_that_needs_too_much_memory_is_one_sentence(tmp_path: Path) -> None:
    """A process that is held to less than what Python with NumPy needs still ends in a sentence or by a signal."""
    rf.learn("grid-v0", "uniform", episodes=30, path=tmp_path / "mine.rfrun")
    text = (
        "import sys; from resetfree.show.studio import limits, report_jobs; limits.REPORT_MEMORY = 1 << 27; "
        f"sys.exit(report_jobs.main({str(tmp_path / 'page.html')!r}, {str(tmp_path / 'mine.rfrun')!r}))"
    )
    with pytest.raises(rf.RunError):
        Children(1).run(script(text), "report", LONG)
    assert not (tmp_path / "page.html").exists()


def test_a_reporter_ends_when_its_studio_is_gone() -> None:
    """Killed with SIGKILL, the studio cannot end its children: they notice it themselves."""
    child = (
        "import os, threading, time; from resetfree.show.studio import report_jobs; report_jobs.LOOK = 0.05; "
        "threading.Thread(target=report_jobs._follow, args=(os.getppid(),)).start(); "
        "print(os.getpid(), flush=True); time.sleep(600)"
    )
    parent = script(f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}]).wait()")
    with subprocess.Popen(parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
        until(lambda: not is_running(pid))


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (lambda runs, page: dies_of(signal.SIGSEGV), 500, "was killed by SIGSEGV"),
        (lambda runs, page: script(SLEEPS), 504, "longer than 2 seconds"),
        (lambda runs, page: script("import sys; sys.exit('x' * 10**6)"), 500, "ended with status 1"),
        (lambda runs, page: [str(page / "nothing")], 500, "could not be made"),
        (reporting.command, 200, ""),
    ],
)
def test_whatever_becomes_of_a_report_the_game_goes_on(
    here: Here, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Any], status: int, words: str
) -> None:
    """Through a real server, with processes that really die in the place of the one that draws."""
    monkeypatch.setattr(reporting, "command", command)
    monkeypatch.setattr(limits, "REPORT_SECONDS", 2.0 if status == 504 else LONG)
    session = here.studio.sessions.start({"grid": GRID, "lanes": [{}], "episodes": limits.EPISODES, "pace": 100.0})
    asked = here.served().ask("GET", f"/api/report?name={session.name}")
    assert asked[0] == status
    if status == 200:
        assert asked[1].startswith(b"<!doctype html>")
    else:
        assert words in asked[1].decode()
        assert b"Traceback" not in asked[1]
        assert len(asked[1]) < 400
    k = session.lanes[0].k
    until(lambda: session.lanes[0].k > k)
    assert session.lanes[0].state == "running"
    until(lambda: not here.studio._folders)  # and nothing is left in the folder for temporary files


def test_a_report_is_made_by_another_process(tmp_path: Path) -> None:
    rf.learn("grid-v0", "uniform", episodes=30, path=tmp_path / "mine.rfrun")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert RunFolder(tmp_path).report("mine", tmp_path).read_text().startswith("<!doctype html>")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime > before
