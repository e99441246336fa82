"""A person beside a run: the commands of docs/hardware.md, an environment with a table of its own, and kills."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.killing import run_driver
from tests.waiting import ROOT, appear, surroundings

import resetfree as rf
from resetfree.core import OperatorTimeout
from resetfree.problems.operators import Request
from resetfree.runs.file.runfile import connect, read_checkpoint, read_problem
from resetfree.show.cli.progress import Tally, resets_line

TOOLS = surroundings(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
PAGE = (ROOT / "docs" / "hardware.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S)


def block(word: str) -> str:
    (found,) = [text for text in BLOCKS if word in text]
    return str(found)


def shell(text: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["sh", "-ec", text], cwd=folder, env=TOOLS, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def test_the_commands_of_the_folder_answer(tmp_path: Path) -> None:
    command = block("--operator ./desk").splitlines()[2].replace("--episodes", "--max-resets 2 --episodes")
    process = shell(f"exec {command}", tmp_path)
    try:
        for line in block("rm desk/request.json").splitlines():
            appear(tmp_path / "desk" / "request.json", process)
            subprocess.run(["sh", "-ec", line], cwd=tmp_path, check=True)
        _, err = process.communicate()
    finally:
        process.kill()
    assert process.returncode == 0, err
    (first, second) = rf.load(tmp_path / "lake.rfrun").interventions
    assert (first.who, first.why) == ("operator", "start")
    assert (second.who, second.why) == ("Kim", "reset")
    assert "belt slipped" in second.detail


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_endpoint_answer_and_a_machine_that_starts_by_itself_goes_on(tmp_path: Path) -> None:
    start = (
        block("if [ -e lake.rfrun ]")
        .replace("http:8765", "http --max-resets $most")
        .replace("\nresetfree", "\nexec resetfree")
    )
    for most in (1, 2):
        process = shell(f"most={most}\n{start}", tmp_path)
        try:
            appear(tmp_path / "lake.rfrun.operator.json", process)
            done = subprocess.run(
                ["sh", "-ec", block("token.txt")], cwd=tmp_path, env=TOOLS, capture_output=True, text=True, check=True
            )
            assert done.stdout == '{"ok": true}\n'
            _, err = process.communicate()
        finally:
            process.kill()
        assert process.returncode == 0, err
    found = rf.load(tmp_path / "lake.rfrun").interventions
    assert [(one.who, one.why) for one in found] == [("Kim", "start"), ("Kim", "resume")]
    assert (tmp_path / "token.txt").stat().st_mode & 0o77 == 0


def test_the_line_of_the_page_is_what_is_shown() -> None:
    tally = Tally()
    for k in range(1000):
        tally.note(k % 75 == 0 and k < 900, 8)
    assert f"\n{resets_line(tally, 4000, 667.0, None, 100)}\n" in PAGE


def test_numbered_observations_keep_their_numbers_over_sessions(tmp_path: Path) -> None:
    """The lake without its table: states are numbered in the order in which they come."""
    path = tmp_path / "a.rfrun"
    came: list[str] = []

    def ask(request: Request) -> None:
        came.append(request.why)
        if len(came) % 7 == 0:
            raise OperatorTimeout("Nobody came.")

    def learn(**asked: Any) -> rf.Run:
        lake = rf.from_gym("gym:FrozenLake-v1", horizon=10, states=20, table=False)
        return rf.learn(lake, episodes=60, seed=2, path=path, operator=rf.OperatorReset(ask), **asked)

    def numbers() -> bytes:
        connection = connect(path, "ro")
        kept = read_problem(connection, path)
        connection.close()
        return kept["seen"].tobytes()

    sessions, before = 0, b""
    while True:
        sessions += 1
        try:
            run = learn(resume=path.exists())
        except OperatorTimeout:
            seen = numbers()
            assert seen.startswith(before)  # what has a number keeps it
            before = seen
            continue
        break
    assert sessions >= 3
    assert len(run) == 60
    assert len(before) > 16  # more than one of them
    assert numbers().startswith(before)
    whys = [one.why for one in run.interventions]
    assert whys[0] == "start"
    assert whys.count("start") == 1
    assert whys.count("resume") == sessions - 1
    assert len(whys) == len(came) - (sessions - 1)  # each session but the last ended with a question nobody answered


DRIVER = Path(__file__).parent / "kill_driver.py"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kill_test(folder: Path, episodes: int, kills: int, seed: int) -> None:
    assert run_driver(DRIVER, folder, episodes, kills, seed) == str(kills)
    run = rf.load(folder / "a.rfrun")
    columns, rewards = run.columns, run.columns["reward"].tobytes().hex()
    assert columns["k"].tolist() == list(range(1, episodes + 1))
    # Nothing that the file held when somebody was asked, or at the checkpoint of a kill, is lost or played again.
    asked, killed = lines(folder / "asked.jsonl"), lines(folder / "killed.jsonl")
    for line in asked:
        assert rewards.startswith(line["rewards"])
        assert line["resets"] == columns["reset"][: line["n"]].sum()
    for line in killed:
        assert rewards.startswith(line["rewards"][: 16 * line["k"]])
    # Each session asks once because it begins, and then only where an episode ended in a reset.
    for _, group in groupby(asked, key=lambda line: line["session"]):
        first, *others = group
        assert first["why"] == ("resume" if first["resumed"] else "start")
        assert {line["why"] for line in others} <= {"reset"}
    # What somebody did is recorded, unless the kill came between the question and the record.
    performed = run.interventions
    for session, group in groupby(asked, key=lambda line: line["session"]):
        wanted = [line["why"] for line in group]
        kept = [one.why for one in performed if one.detail == f"session {session}"]
        assert kept in (wanted, wanted[:-1])
    assert sum(one.why == "resume" for one in performed) > kills / 4  # kills came while it was playing
    for one in performed:
        assert one.who == "operator"
        assert one.seconds >= 0.001
        assert one.asked <= one.answered
        assert one.why != "reset" or columns["reset"][one.k - 1]
    connection = connect(folder / "a.rfrun", "ro")
    checkpoint = read_checkpoint(connection, folder / "a.rfrun")
    connection.close()
    assert checkpoint is not None
    assert np.array_equal(checkpoint.arrays["primal.starts"], np.bincount(columns["s1"], minlength=12))
    assert int(checkpoint.arrays["primal.resets"]) == columns["reset"].sum() > 0
    assert int(checkpoint.arrays["primal.steps"]) == columns["steps"].sum()


def test_a_run_on_a_machine_survives_being_killed(tmp_path: Path) -> None:
    kill_test(tmp_path, episodes=400, kills=5, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_on_a_machine_survives_being_killed_often(tmp_path: Path, seed: int) -> None:
    kill_test(tmp_path, episodes=600, kills=20, seed=seed)
