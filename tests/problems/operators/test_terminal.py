"""A person at a real terminal: asked, waited for, and obeyed; each test is a process of its own behind a pty."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import LONG, surroundings

import resetfree as rf
from resetfree.runs.file.ledger import read

# Its terminal is the pty, so that Ctrl-C typed there is Ctrl-C.
START = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from resetfree.show.cli import main; sys.exit(main(sys.argv[1:]))"
)
PROBLEM: tuple[str, ...] = ("run", "tests.problems.operators.plant:make", "--primal", "uniform", "--dual", "counting")
PROBLEM += ("--feedback", "realised")
PROMPT = "q stops the run.\r\n> "


class Session:
    """A command at a terminal, and the person in front of it."""

    def __init__(self, *words: str, columns: int = 100) -> None:
        self._keys, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *PROBLEM, *words], stdin=terminal, stdout=subprocess.PIPE, stderr=terminal,
            env=surroundings(COLUMNS=str(columns), TERM="xterm"), start_new_session=True,
        )  # fmt: skip
        os.close(terminal)
        self.screen = ""

    def until(self, text: str, times: int = 1) -> None:
        """Wait until the screen has shown it so often."""
        while self.screen.count(text) < times:
            assert self._look(), self.screen

    def type(self, keys: str) -> None:
        os.write(self._keys, keys.encode())

    def end(self) -> tuple[int, str]:
        """Exit status and standard output."""
        while self._look():
            pass
        assert self.process.stdout is not None
        out = self.process.stdout.read().decode()
        return self.process.wait(LONG), out

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.close(self._keys)

    def _look(self) -> bool:
        ready, _, _ = select.select([self._keys], [], [], LONG)
        assert ready, self.screen
        try:
            seen = os.read(self._keys, 65_536)
        except OSError:  # the other side is closed
            return False
        self.screen += seen.decode(errors="replace")
        return bool(seen)


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.close()


def start(sessions: list[Session], *words: str, **options: Any) -> Session:
    sessions.append(Session("--operator", "terminal", *words, **options))
    return sessions[-1]


def test_enter_and_a_note_go_on_and_standard_output_is_one_object(sessions: list[Session], tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    session = start(sessions, "--episodes", "40", "--max-resets", "3", "--out", str(path), "--json")
    session.until(PROMPT)
    assert "\a" in session.screen
    assert "'plant' needs a reset: the run is about to begin (it was switched on)." in session.screen
    session.type("\n")
    session.until(PROMPT, 2)
    assert "a reset state was entered (it ran into state" in session.screen
    session.type("the belt slipped\n")
    session.until(PROMPT, 3)
    session.type("\n")
    status, out = session.end()
    assert status == 0
    data = json.loads(out)
    assert (data["interventions"], data["realised_resets"], data["max_resets"]) == (3, 3, 3)
    assert data["stopped_because"] == "max_resets"
    assert data["episodes_played"] == len(rf.load(path)) < 40
    words = " ".join(session.screen.split())
    assert f"Reached the limit of 3 resets after {data['episodes_played']} of 40 episodes." in words
    assert f"--resume --out {path} --operator terminal --max-resets 6" in words
    assert [one.detail for one in rf.load(path).interventions][1] == "the belt slipped"


def test_keys_from_before_the_question_answer_nothing(sessions: list[Session], tmp_path: Path) -> None:
    """The delay keeps the run playing while somebody leans on Enter."""
    path = tmp_path / "a.rfrun"
    session = start(sessions, "--episodes", "400", "--set", "delay=0.3", "--out", str(path), "--operator-deadline", "2")
    session.until(PROMPT)
    session.type("\n\n\n\n\n\n")
    assert session.end()[0] == 2
    assert session.screen.count(PROMPT) == 2
    assert "No operator performed the reset of 'plant' within 2 seconds. The run is saved. Continue" in session.screen
    assert len(rf.load(path)) == read(path).k > 0
    assert len(rf.load(path).interventions) == 1


@pytest.mark.parametrize("keys", ["\x03", " Q \n"])
def test_ctrl_c_and_q_stop_at_once_and_it_goes_on_later(sessions: list[Session], tmp_path: Path, keys: str) -> None:
    path = tmp_path / "a.rfrun"
    session = start(sessions, "--episodes", "40", "--out", str(path))
    session.until(PROMPT)
    session.type("\n")
    session.until(PROMPT, 2)
    session.type(keys)
    assert session.end() == (130, "")
    assert "Stopped after" in session.screen
    assert f"--resume --out {path} --operator terminal" in " ".join(session.screen.split())
    saved = rf.load(path)
    assert saved.realised_resets[-1] == 1
    again = start(sessions, "--resume", "--max-resets", "2", "--out", str(path))
    again.until(PROMPT)
    assert "the run was interrupted, and the state of the system is unknown" in again.screen
    again.type("\n")
    assert again.end()[0] == 0
    assert again.screen.count(PROMPT) == 1
    run = rf.load(path)
    assert run.columns["reward"][: len(saved)].tobytes() == saved.columns["reward"].tobytes()
    assert [one.why for one in run.interventions] == ["start", "resume"]


def test_a_terminal_that_is_gone_or_never_was(sessions: list[Session], tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    session = start(sessions, "--episodes", "40", "--out", str(path))
    session.until(PROMPT)
    session.type("\n")
    session.until(PROMPT, 2)
    session.type("\x04")
    assert session.end()[0] == 2
    assert "the input from the terminal ended. The run is saved." in session.screen
    assert rf.load(path).realised_resets[-1] == 1
    words = [sys.executable, "-m", "resetfree.show.cli", *PROBLEM, "--operator", "terminal", "--out", f"{tmp_path}/b"]
    for given in ("", "\n" * 100):  # what waits in a pipe was not typed by anybody
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, env=surroundings())
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "The reset of 'plant' must be confirmed at a terminal. Got another standard input: "
            "use the operator 'http' or a folder. Nothing was played.\n"
        )
    assert not (tmp_path / "b").exists()


def test_killed_while_it_waits_nothing_is_lost(sessions: list[Session], tmp_path: Path) -> None:
    path = tmp_path / "a.rfrun"
    session = start(sessions, "--episodes", "40", "--out", str(path))
    for i in range(3):
        session.until(PROMPT, i + 1)
        session.type("\n" if i < 2 else "half a no")
    session.process.send_signal(signal.SIGKILL)
    session.end()
    run = rf.load(path)
    assert len(run) >= read(path).k  # every round is there, whenever the newest checkpoint was written
    assert run.realised_resets[-1] == 2
    assert [one.why for one in run.interventions] == ["start", "reset"]


@pytest.mark.parametrize("columns", [100, 20])
def test_progress_stays_out_of_the_way_and_within_the_line(
    sessions: list[Session], tmp_path: Path, columns: int
) -> None:
    session = start(
        sessions, "--episodes", "400", "--set", "delay=0.05", "--max-resets", "3", "--out", str(tmp_path / "a.rfrun"),
        columns=columns,
    )  # fmt: skip
    for i in range(3):
        session.until(PROMPT, i + 1)
        session.type("done it\n")
    assert session.end()[0] == 0
    lines = [
        line for line in session.screen.replace("\x1b", "\n").splitlines() if "resets ·" in line or "per s" in line
    ]
    assert max(map(len, lines), default=0) <= columns + 8  # and the end of an escape sequence
    assert ("expected ≤" in session.screen) == (columns > 20)
    assert ("one per" in session.screen) == (columns == 100)
    for part in session.screen.split(PROMPT)[1:]:
        before_enter = part.split("\n")[0]
        assert "reset" not in before_enter
        assert "\x1b[1A" not in part.partition("epi")[0]  # nothing is drawn over the answer
