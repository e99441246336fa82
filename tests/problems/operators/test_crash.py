"""Killed in the middle of anything, a run on a machine asks for one reset and goes on with all that it had learned."""

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.killing import run_driver

import resetfree as rf
from resetfree.runs.file.runfile import connect, read_checkpoint

ROOT = Path(__file__).parents[3]
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
