"""The Ray engine, on a cluster that is started for it: the same results as local processes, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.studies.common import ROOT, SMALL, assert_alone, begun, fragile, helper_of, resumed_at, started, sweeping

import resetfree as rf
from resetfree.core.extras import on_loopback
from resetfree.runs.file.ledger import read
from resetfree.studies import Count, StudyStopped, SweepFolder, SweepPlan, parse_plan, run_sweep
from resetfree.studies.engines import sweep_runner


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_worker_an_error_and_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cluster for all three; Ray leaves sockets and files of its own open when it is shut down."""
    monkeypatch.chdir(ROOT)
    (tmp_path / "stuck").write_text("")
    text = (
        fragile("killed", tmp_path / "marker")
        + f"""
[[trial]]
problem = "tests.studies.dying:raising"
options.marker = "{tmp_path / "stuck"}"
primal = "linear-ucb"
[[trial]]
problem = "grid-v0"
primal = "uniform"
[[trial]]
problem = "grid-v0"
primal = "linear-ucb"
episodes = 400000
"""
    )
    plan, folder = started(text, tmp_path / "s")
    killed, raising, plain, long = plan.trials

    def stop(count: Count) -> None:
        if (count.done, count.failed) == (2, 1):
            raise KeyboardInterrupt

    with pytest.raises(StudyStopped, match="Stopped after 2 of 4 trials"):
        run_sweep(plan, folder, engine="ray", workers=2, progress=stop)
    assert (tmp_path / "marker").read_text() == "killed here"
    assert [0 < k < 100 for k in resumed_at(folder, killed)] == [True]  # on another worker
    assert_alone(killed, folder)
    assert_alone(plain, folder)
    kept = folder.error_file(raising.id).read_text()
    assert kept.startswith("ValueError: the gripper is stuck\n")
    assert "in rollout" in kept
    while folder.is_held(long.id):  # its process ends with the cluster, or the test never does
        time.sleep(0.02)
    if folder.trial_file(long.id).exists():  # begun: then it was saved, or is as it was at its last checkpoint
        saved = read(folder.trial_file(long.id))
        assert 0 <= saved.k <= len(saved.columns["k"]) < 400_000


def processes_of(pid: int, name: str) -> list[int]:
    """The processes with a name that came from another, or from what it started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    found = []
    for one in family:
        with suppress(OSError):
            found += [one] * Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/" + name.encode())
    return found


def sweep_on_ray(tmp_path: Path, text: str) -> tuple[subprocess.Popen[str], SweepPlan, SweepFolder, list[str]]:
    (tmp_path / "s.toml").write_text(text)
    command = sweeping(tmp_path / "s.toml", tmp_path / "s", "--engine", "ray")
    return begun(command), parse_plan(text), SweepFolder(tmp_path / "s"), command


@pytest.mark.slow
@pytest.mark.parametrize("part", ["raylet", "gcs_server"])
def test_a_cluster_that_dies_is_started_again_and_one_object_is_printed(tmp_path: Path, part: str) -> None:
    process, plan, folder, _ = sweep_on_ray(tmp_path, SMALL.replace("60", "12000"))
    while not any(folder.is_finished(trial.id, trial.episodes) for trial in plan.trials):
        assert process.poll() is None
        time.sleep(0.05)
    (victim,) = processes_of(process.pid, part)
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert (answer["done"], answer["failed"], answer["waiting"]) == (8, 0, 0)
    for trial in plan.trials:
        assert_alone(trial, folder)


def test_a_cluster_that_is_lost_leaves_the_trials_to_be_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that Ray lives in dies each time it is ready: no trial has failed for it, and RunError says so."""
    monkeypatch.setattr(sweep_runner, "_drive", dies)
    plan, folder = started(SMALL, tmp_path / "s")
    with pytest.raises(rf.RunError, match=r"was lost 3 times in a row.* 0 of 8 trials are done.* same command again"):
        run_sweep(plan, folder, engine="ray", workers=1)
    assert folder.failed() == {}
    assert run_sweep(plan, folder, engine="local", workers=2).done == 8


def dies(pipe: Any, *_: Any) -> None:
    """Joins nothing."""
    pipe.send(("running", 0))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_trial_that_hangs_is_ended_on_ray_too(tmp_path: Path) -> None:
    """By Ctrl-C, with all that it started; the time limit is given to the next command, and ends it as well."""
    marker = tmp_path / "marker"
    marker.write_text("")
    process, plan, folder, command = sweep_on_ray(tmp_path, fragile("hanging", marker))
    helper_of(marker, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, out) == (130, ""), err
    assert "Stopped after 0 of 1 trials" in err
    while folder.is_held(plan.trials[0].id):
        time.sleep(0.05)
    assert folder.failed() == {}
    done = subprocess.run([*command, "--time-limit", "5"], cwd=ROOT, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert (answer["done"], answer["failed"]) == (0, 1)
    assert "took longer than its time limit of 5 seconds" in answer["errors"][0]["error"]
    assert not folder.is_held(plan.trials[0].id)


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    plan, folder = started(SMALL, tmp_path / "s")
    with pytest.raises(
        rf.RunError, match=r"The Ray cluster at '127\.0\.0\.10:1' cannot be reached: Connection refused\."
    ):
        run_sweep(plan, folder, engine="ray", address="127.0.0.10:1")


def test_a_driver_beside_loopback_nodes_stands_there_too() -> None:
    assert on_loopback("127.0.0.10:6379") == {"_node_ip_address": "127.0.0.10"}
    assert on_loopback("10.1.2.3:6379") == {}
    assert on_loopback("auto") == {}


@pytest.mark.slow
def test_a_killed_node_and_a_killed_driver_change_nothing() -> None:
    """The benchmark at a fifth of its size: head and two nodes as processes, one killed, then the driver."""
    command = [sys.executable, str(ROOT / "benchmarks" / "sweep_ray.py"), "--trials", "40"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["trials"], found["done"], found["failed"], found["run_files"]) == (40, 40, 0, 40)
    assert found["equal_run_files"] == 40
    assert found["rows_twice"] == 0
    assert found["equal_results"]
    assert found["equal_summary"]
