"""docs/connect_your_machine.md is true: its sixty lines are a machine, its commands learn; bytes: docs/api/wire.md."""

import inspect
import json
import re
import shlex
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import appear, surroundings, until

import resetfree as rf
from resetfree.problems import paced
from resetfree.problems.remote import packets
from resetfree.problems.remote.packets import Flag, Kind, StatementForm
from resetfree.show.cli import app, main

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "connect_your_machine.md").read_text()
WIRE = (ROOT / "docs" / "api" / "wire.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
SHELL = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
TYPES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f64": "d", "4 bytes": "4s"}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table with this heading."""
    (page,) = [text for text in (PAGE, WIRE) if heading in text]
    lines = page[page.index(heading) :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]]


def free_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(*command: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *command], cwd=folder, env=surroundings())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_header_and_the_sensors_are_laid_out_as_the_tables_say() -> None:
    for heading, ours in (("| byte | type | header |", packets.HEADER), ("| byte | type | |", packets.READING)):
        fixed = [row for row in rows(heading) if row[1] in TYPES and "+" not in row[0]]
        form = "<"
        for byte, kind, *_ in fixed:
            assert struct.calcsize(form) == int(byte)
            form += TYPES[kind]
        assert form == ours.format
    assert rows("| byte | type | header |")[-2][0] == str(packets.HEADER.size)
    assert rows("| byte | type | |")[-1][:2] == [str(packets.READING.size), "f64 each"]


def test_kinds_flags_and_limits_are_those_of_the_page() -> None:
    kinds = rows("| kind | | to | payload |")
    assert [(int(number), name) for number, name, *_ in kinds] == [(kind.value, kind.name) for kind in Kind]
    payloads = {row[1]: row[3] for row in kinds}
    for name, ours in (("HELLO", packets.NUMBER), ("COMMAND", packets.ANSWERS), ("PULLED", packets.PULLED)):
        said = "<" + "".join(TYPES[one] for one in re.findall(r"\bu\d+\b", payloads[name]))
        assert said == ours.format
    assert packets.PULL.format == "<16sQ"
    assert "token 16 bytes, number of the pull u64" in payloads["LEVER"]
    assert f"flags: {Flag.FALLEN:d} fallen, {Flag.HELD:d} held after a pull, {Flag.NEUTRAL:d} the watchdog" in WIRE
    assert f"at most {packets.LONGEST} bytes" in WIRE
    assert f"at most {packets.MOST} actions and {packets.MOST} sensors" in WIRE


def test_the_sixty_lines_are_a_machine_that_is_learned_on(tmp_path: Path) -> None:
    (included,) = re.findall(r"\{literalinclude\} \.\./(\S+)", PAGE)
    source = (ROOT / included).read_text()
    assert len([line for line in source.splitlines() if line.strip()]) <= 60
    says: dict[str, Any] = {}
    exec(source[: source.index("def packet")], says)
    assert set(says["SAYS"]) == set(StatementForm.__annotations__)
    (tmp_path / "heater.py").write_text(source)
    port, told = free_port(), SHELL[2]
    assert shlex.split(told) == ["python", "heater.py", "9001"]
    with running("heater.py", str(port), folder=tmp_path):
        until(lambda: not refused(port))
        found: dict[str, Any] = {}
        exec(PYTHON[1].replace("9001", str(port)), found)
    run = found["run"]
    assert len(run) == 5
    assert run.interventions[0].why == "start"
    assert (run.columns["reward"] > 0).all()


def refused(port: int) -> bool:
    try:
        rf.from_machine(f"udp://127.0.0.1:{port}").close()
    except rf.InvalidInput:
        return True
    return False


def test_the_commands_of_the_page_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    machine, learner = (line.replace("9000", port) for line in SHELL[:2])
    words = [*shlex.split(machine)[1:], "--lockstep"]  # so that it takes no longer than it must
    with running("-m", "resetfree.show.cli", *words, folder=tmp_path):
        appear(tmp_path / "cart.key")
        assert main([*shlex.split(learner.replace("--episodes 50", "--episodes 2"))[1:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["realised_resets"] >= 0
        assert len(rf.load("cart.rfrun")) == 2
        exec(PYTHON[0].replace("9000", port).replace("episodes=5", "episodes=1"), {})


def test_the_options_of_the_page_exist() -> None:
    options = {name for one in app.commands["machine"].params for name in one.opts}
    named = {word for row in rows("| `resetfree machine` | |") for word in re.findall(r"`(--[\w-]+)`", row[0])}
    assert named <= options
    assert options - named <= {"name", "--rate", "--seed", "--key", "--seconds"}


REAL_TIME_PAGE = (Path(__file__).parents[3] / "docs" / "real_time.md").read_text()
REAL_TIME_PYTHON = re.findall(r"```python\n(.*?)```", REAL_TIME_PAGE, flags=re.S)
REAL_TIME_SHELL = [
    line for block in re.findall(r"```sh\n(.*?)```", REAL_TIME_PAGE, flags=re.S) for line in block.splitlines()
]


def test_the_commands_of_the_page_learn_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    port = str(free_port())
    machine, learner = (line.replace("9002", port) for line in REAL_TIME_SHELL[:2])
    shorter = learner.replace("--episodes 200", "--episodes 3").replace("horizon=50", "horizon=10")
    # A busy computer may stop the machine for longer than it may be silent, and a learner of the lowest class for ever.
    patient = " --set timeout=60 --learner usual"
    with running("-m", "resetfree.show.cli", *shlex.split(machine)[1:], folder=tmp_path):
        appear(tmp_path / "pole.key")
        assert main([*shlex.split(shorter + patient)[1:], "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        run = rf.load("pole.rfrun")
        assert len(run) == 3
        assert said["timing"]["missed"] == run.columns["missed"].sum()
        assert (run.columns["based_on"] < run.columns["k"]).all()
        found: dict[str, Any] = {}
        short = REAL_TIME_PYTHON[0].replace("9002", port).replace("episodes=5", "episodes=2, learner='usual'")
        exec(short.replace("horizon=50", "horizon=10, timeout=60.0"), found)
    assert len(found["run"]) == 2
    assert (found["run"].columns["lateness"] >= 0).all()
    assert main(["certify", "pole.rfrun", "--replay", "--json"]) == 0


def test_the_options_and_defaults_of_the_page_exist() -> None:
    options = {name for one in app.commands["run"].params for name in one.opts}
    assert {"--rate", "--max-staleness", "--resume"} <= options
    defaults = {name: one.default for name, one in inspect.signature(rf.Deadlines).parameters.items()}
    assert f"| `most_missed` ticks ({defaults['most_missed']}) were skipped in a row |" in REAL_TIME_PAGE
    assert paced.SILENT == 3
    assert "| for three ticks | the safe action is sent, once;" in REAL_TIME_PAGE
    assert f"| for `timeout` seconds ({paced.TIMEOUT:g};" in REAL_TIME_PAGE
