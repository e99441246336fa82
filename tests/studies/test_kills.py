"""Drivers and workers of a sweep killed at random moments: the same rounds, none lost or doubled."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.studies.common import assert_alone, resumed_at, sweeping

from resetfree.runs.file.ledger import read
from resetfree.studies import SweepFolder, parse_plan

TEXT = """
[sweep]
episodes = {episodes}
seeds = {seeds}
[[problem]]
id = "grid-v0"
[[players]]
primal = ["linear-ucb", "greedy-composite"]
"""


def children(pid: int) -> list[int]:
    """The processes that a driver has started for trials."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if entry.name.isdigit() and parent == pid and b"spawn_main" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def written(folder: Path) -> int:
    """Bytes of all trials, logs of open files included: it changes when a round is saved."""
    total = 0
    for one in (folder / "trials").rglob("*"):
        with contextlib.suppress(OSError):  # a log goes when its file is closed
            total += one.stat().st_size
    return total


def attack(command: list[str], folder: Path, chance: random.Random, most: int) -> int:
    """Play, and kill a worker or the driver now and then, until all is played or there were so many kills.

    Four of five kills wait until something was saved, so that on a busy machine too they land in the middle of trials;
    the others land most likely while processes begin. A driver is killed after four of its workers at the latest: a
    fifth death would be held to be the trial's doing.
    """
    kills = 0
    while kills < most:
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for left in (4, 3, 2, 1, 0):
            before, patient = written(folder), chance.random() < 0.8
            while driver.poll() is None and (not children(driver.pid) or (patient and written(folder) == before)):
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, 0.5))
            workers = children(driver.pid)
            end = kills + 1 >= most or left == 0 or chance.random() < 0.3 or not workers
            if driver.poll() is not None:
                break
            os.kill(driver.pid if end else chance.choice(workers), signal.SIGKILL)
            kills += 1
            if end:
                break
        _, said = driver.communicate()
        assert "Traceback" not in said
        assert driver.returncode in (0, -signal.SIGKILL), said
        if driver.returncode == 0:
            break
    return kills


def kill_test(tmp_path: Path, *, seeds: int, episodes: int, kills: int, seed: int) -> int:
    """Sweeps under so many kills, each compared with runs that nothing disturbed; how often a trial went on."""
    chance, done, sweeps, resumed = random.Random(seed), 0, 0, 0
    text = TEXT.format(episodes=episodes, seeds=seeds)
    plan, file = parse_plan(text), tmp_path / "s.toml"
    n = len(plan.trials)
    file.write_text(text)
    while done < kills:  # a sweep that is finished before all the kills is followed by another
        folder = SweepFolder(tmp_path / f"s{sweeps}")
        command = sweeping(file, folder.path, "--engine", "local")
        done, sweeps = done + attack(command, folder.path, chance, kills - done), sweeps + 1
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert (answer["done"], answer["failed"], answer["gathered"]) == (n, 0, n)
        for trial in plan.trials:
            assert_alone(trial, folder)
            assert len(read(folder.trial_file(trial.id)).columns["k"]) == episodes
            resumed += len(resumed_at(folder, trial))
        assert len(list((folder.path / "trials").rglob("*"))) == n + len({trial.id[:2] for trial in plan.trials})
    return resumed


def test_a_sweep_whose_driver_and_workers_are_killed_is_the_same(tmp_path: Path) -> None:
    kill_test(tmp_path, seeds=1, episodes=6000, kills=4, seed=0)


@pytest.mark.slow
def test_a_sweep_with_a_hundred_kills_is_the_same(tmp_path: Path) -> None:
    assert kill_test(tmp_path, seeds=3, episodes=20_000, kills=100, seed=1) > 10
